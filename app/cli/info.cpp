// slotscope-cli info and devices.
#include <algorithm>
#include <map>

#include "app/cli/commands.h"
#include "core/formats/tokenizer_files.h"

namespace slotscope::cli {
namespace {

using engine::ModelInfo;
using formats::Checkpoint;

// What could be found out about a folder; `model` and `tokenizer` are empty with the reason beside them.
struct Findings {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::optional<ModelInfo> model;
  std::string why_not_runnable;
  std::string tokenizer;  // kind
  std::string why_no_tokenizer;
  std::vector<std::string> notes, warnings;
};

void add_new(std::vector<std::string>& list, const std::vector<std::string>& more) {
  for (const auto& text : more)
    if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

Findings look(const InfoSettings& s) {
  Findings f;
  f.checkpoint = Checkpoint::open(s.folder, {.ignore_index = s.ignore_index});
  add_new(f.notes, f.checkpoint->notes());
  add_new(f.warnings, f.checkpoint->warnings());
  try {
    f.model = engine::inspect(*f.checkpoint, s.flavour);
    add_new(f.notes, f.model->notes);
    add_new(f.warnings, f.model->warnings);
  } catch (const Error& e) {
    if (e.kind() == Error::Kind::usage) throw;
    f.why_not_runnable = e.what();
  }
  try {
    const auto tokenizer = formats::Tokenizer::load(f.checkpoint->folder());
    if (tokenizer) {
      f.tokenizer = tokenizer->kind();
      add_new(f.notes, tokenizer->notes());
      if (const auto note = formats::find_tokenizer(f.checkpoint->folder()).note(); !note.empty()) add_new(f.notes, {note});
    } else {
      f.why_no_tokenizer = "no tokenizer file: this folder runs from token ids";
    }
  } catch (const Error& e) {
    f.why_no_tokenizer = e.what();
    f.warnings.push_back(std::string("the tokenizer cannot be used, only token ids: ") + e.what());
  }
  return f;
}

struct DtypeSum {
  int64_t tensors = 0, elements = 0, bytes = 0;
};

int64_t elements(const formats::TensorInfo& t) {
  const int bits = formats::dtype_bits(t.dtype);
  return bits > 0 ? int64_t(t.bytes * 8 / uint64_t(bits)) : 0;  // bytes are bounded by the file's size
}

std::map<std::string, DtypeSum> by_dtype(const Checkpoint& checkpoint) {
  std::map<std::string, DtypeSum> sums;
  for (const auto& t : checkpoint.tensors()) {
    DtypeSum& sum = sums[t.dtype_text];
    ++sum.tensors;
    sum.elements += elements(t);
    sum.bytes += int64_t(t.bytes);
  }
  return sums;
}

Json model_json(const ModelInfo& m) {
  Json layers = Json::array(), config = Json::array();
  for (const auto& l : m.layers)
    layers.push_back({{"index", l.index}, {"mixer", l.mixer}, {"route_kind", l.route_kind}, {"heads", l.heads},
                      {"route_heads", l.route_heads}, {"slots", l.slots}, {"top_k", l.top_k}, {"d_k", l.d_k},
                      {"d_v", l.d_v}, {"state_bytes", l.state_bytes}, {"note", l.note}});
  for (const auto& row : m.config) config.push_back({{"key", row.key}, {"value", row.value}, {"source", row.source}});
  return {{"model_type", m.model_type}, {"family", m.family}, {"flavour", m.flavour},
          {"flavour_reason", m.flavour_reason}, {"flavour_matters", m.flavour_matters}, {"hidden_size", m.hidden_size},
          {"vocab_rows", m.vocab_rows}, {"parameters", m.parameters}, {"tied", m.tied}, {"layers", layers},
          {"memory", {{"router", m.card.router}, {"content", m.card.content}, {"decay", m.card.decay},
                      {"readout", m.card.readout}}},
          {"config", config}};
}

Json info_json(const Findings& f, bool tensors) {
  const Checkpoint& c = *f.checkpoint;
  Json files = Json::array(), dtypes = Json::object();
  for (const auto& file : c.files()) files.push_back(file.filename().string());
  for (const auto& [name, sum] : by_dtype(c))
    dtypes[name] = {{"tensors", sum.tensors}, {"elements", sum.elements}, {"bytes", sum.bytes}};
  Json document = {{"folder", c.folder().string()}, {"format", "safetensors"}, {"files", files},
                   {"tensor_count", c.tensors().size()}, {"bytes", c.total_bytes()}, {"dtypes", dtypes},
                   {"tensor_digest", formats::tensor_digest(c)}, {"has_config", c.config() != nullptr}};
  document["runnable"] = f.model.has_value();
  document["why_not_runnable"] = f.model ? Json(nullptr) : Json(f.why_not_runnable);
  // The parts of the model stand at the top: info --json | .parameters
  if (f.model) document.update(model_json(*f.model));
  document["tokenizer"] = f.tokenizer.empty() ? Json(nullptr) : Json(f.tokenizer);
  document["why_no_tokenizer"] = f.tokenizer.empty() ? Json(f.why_no_tokenizer) : Json(nullptr);
  document["notes"] = f.notes;
  document["warnings"] = f.warnings;
  if (tensors) {
    Json list = Json::array();
    for (const auto& t : c.tensors())
      list.push_back({{"name", t.name}, {"dtype", t.dtype_text}, {"shape", t.shape}, {"bytes", t.bytes},
                      {"file", c.files()[size_t(t.file)].filename().string()}});
    document["tensors"] = list;
  }
  return document;
}

std::string row(const std::string& name, const std::string& value) {
  std::string line = name;
  line.resize(std::max<size_t>(12, line.size() + 1), ' ');
  return line + printable(value) + "\n";
}

std::string files_text(const Checkpoint& c) {
  std::string text = row("folder", c.folder().string());
  std::string files = std::to_string(c.files().size()) + " safetensors file" + (c.files().size() == 1 ? "" : "s");
  if (c.files().size() == 1) files += " (" + c.files()[0].filename().string() + ")";
  text += row("files", files + ", " + bytes_text(int64_t(c.total_bytes())));
  text += row("tensors", count_text(int64_t(c.tensors().size())));
  for (const auto& [name, sum] : by_dtype(c))
    text += row("", name + ": " + count_text(sum.tensors) + " tensors, " + count_text(sum.elements) + " elements, " +
                        bytes_text(sum.bytes));
  return text;
}

std::string layers_text(const ModelInfo& m) {
  Table table({">layer", "mixer", "route", ">heads", ">slot heads", ">slots", ">top k", ">d_k", ">d_v", ">state", "note"});
  for (const auto& l : m.layers) {
    const bool per_token = l.route_kind == "append";
    table.row({std::to_string(l.index), l.mixer, l.route_kind, std::to_string(l.heads), std::to_string(l.route_heads),
               l.slots > 0 ? std::to_string(l.slots) : "-", l.top_k > 0 ? std::to_string(l.top_k) : "-",
               std::to_string(l.d_k), std::to_string(l.d_v),
               bytes_text(l.state_bytes) + (per_token ? "/token" : ""), l.note});
  }
  return table.text("  ");
}

std::string model_text(const ModelInfo& m) {
  std::string text = row("model", m.family + " (model_type " + m.model_type + "), " + count_text(m.parameters) +
                                      " parameters" + (m.tied ? ", embedding and head tied" : ""));
  if (!m.flavour.empty())
    text += row("flavour", m.flavour + ": " + m.flavour_reason +
                               (m.flavour_matters ? " (guessed, and it matters: --flavour chooses)" : ""));
  text += row("width", "hidden " + std::to_string(m.hidden_size) + ", vocabulary " + std::to_string(m.vocab_rows) + " rows");
  text += "\nmemory\n" + row("  router", m.card.router) + row("  content", m.card.content) + row("  decay", m.card.decay) +
          row("  readout", m.card.readout);
  text += "\nlayers\n" + layers_text(m) + "\nconfiguration in effect\n";
  Table config({"key", "value", "from"});
  for (const auto& r : m.config) config.row({r.key, r.value, r.source});
  return text + config.text("  ");
}

std::string tensors_text(const Checkpoint& c) {
  Table table({"name", "dtype", "shape", ">bytes"});
  for (const auto& t : c.tensors()) table.row({t.name, t.dtype_text, shape_text(t.shape), count_text(int64_t(t.bytes))});
  return table.text("  ");
}

}  // namespace

int run_info(const InfoSettings& s, const Console& console) {
  if (!s.flavour.empty() && std::find(flavour_names().begin(), flavour_names().end(), s.flavour) == flavour_names().end())
    throw Error({.item = "--flavour", .found = "'" + s.flavour + "'", .expected = "fla or goombalab"}, Error::Kind::usage);
  if (!s.tensor.empty()) return run_tensor_statistics(s, console);
  const Findings f = look(s);
  if (console.json) {
    console.out_json(info_json(f, s.tensors));
    for (const auto& text : f.warnings) console.warning(text);
    return kExitOk;
  }
  std::string text = files_text(*f.checkpoint);
  if (f.model)
    text += model_text(*f.model);
  else
    text += row("model", "cannot be run: " + f.why_not_runnable);
  text += "\n" + row("tokenizer", f.tokenizer.empty() ? f.why_no_tokenizer : f.tokenizer);
  for (const auto& note : f.notes) text += row("note", note);
  // A folder that cannot be run has nothing else to show, so its tensors are listed without being asked for.
  if (s.tensors || !f.model) text += "\ntensors\n" + tensors_text(*f.checkpoint);
  console.out(text);
  for (const auto& warning : f.warnings) console.warning(warning);
  return kExitOk;
}

int run_devices(const Console& console) {
  std::string why;
  const auto list = engine::devices(&why);
  const bool cuda = std::any_of(list.begin(), list.end(), [](const auto& d) { return d.name.rfind("cuda", 0) == 0; });
  if (console.json) {
    Json devices = Json::array();
    for (const auto& d : list)
      devices.push_back({{"name", d.name}, {"description", d.description}, {"total_bytes", d.total_bytes},
                         {"free_bytes", d.free_bytes}});
    console.out_json({{"devices", devices}, {"why_no_cuda", cuda ? Json(nullptr) : Json(why)}});
    return kExitOk;
  }
  Table table({"device", "", ">memory", ">free"});
  for (const auto& d : list)
    table.row({d.name, d.description, d.total_bytes ? bytes_text(d.total_bytes) : "-",
               d.free_bytes ? bytes_text(d.free_bytes) : "-"});
  console.out(table.text() + (cuda ? "" : "no CUDA: " + printable(why) + "\n"));
  return kExitOk;
}

}  // namespace slotscope::cli
