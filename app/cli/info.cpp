// slotscope-cli info and devices.
#include <algorithm>
#include <map>

#include "app/cli/commands.h"
#include "core/formats/checkpoint_summary.h"
#include "core/formats/tokenizer_files.h"
#include "core/formats/vocabulary_rows.h"

namespace slotscope::cli {
namespace {

using engine::ModelInfo;
using formats::Checkpoint;

// What could be found out about a folder; `model` and `tokenizer` are empty with the reason beside them.
struct Findings {
  std::shared_ptr<const Checkpoint> checkpoint;
  formats::CheckpointSummary summary;
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
  f.checkpoint = Checkpoint::open(s.folder, {.ignore_index = s.ignore_index, .weights = s.weights});
  f.summary = formats::summarise_listing(*f.checkpoint);
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
      if (f.model)
        if (const auto note = formats::vocabulary_note(*tokenizer, f.model->vocab_rows); !note.empty()) add_new(f.notes, {note});
    } else {
      f.why_no_tokenizer = "no tokenizer file: this folder runs from token ids";
    }
  } catch (const Error& e) {
    f.why_no_tokenizer = e.what();
    f.warnings.push_back(std::string("the tokenizer cannot be used, only token ids: ") + e.what());
  }
  return f;
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

// Text of a file, which need not be UTF-8.
Json text_json(std::initializer_list<std::pair<const char*, const std::string*>> texts) {
  Json object = Json::object();
  for (const auto& [key, text] : texts) put_text(object, key, *text);
  return object;
}

Json tensor_json(const Checkpoint& c, const formats::TensorInfo& t) {
  Json tensor = text_json({{"name", &t.name}, {"dtype", &t.dtype_text}});
  tensor["shape"] = t.shape;
  tensor["bytes"] = t.bytes;
  tensor["file"] = c.files()[size_t(t.file)].filename().string();
  tensor["offset"] = t.offset;
  tensor["strides"] = t.strides.empty() ? Json(nullptr) : Json(t.strides);
  tensor["shares_with"] = nullptr;
  if (!t.shares_with.empty()) put_text(tensor, "shares_with", t.shares_with);
  return tensor;
}

// What the weight files hold, beside the names and shapes.
void add_contents(Json& document, const Findings& f) {
  const Checkpoint& c = *f.checkpoint;
  Json files = Json::array(), dtypes = Json::object(), shared = Json::array(), ignored = Json::array(),
       metadata = Json::array();
  for (const auto& file : f.summary.files) {
    Json entry = {{"name", file.path.filename().string()}, {"format", format_name(c.format())}, {"bytes", nullptr},
                  {"tensors", file.tensors}, {"tensor_bytes", file.tensor_bytes}};
    if (file.bytes) entry["bytes"] = *file.bytes;
    files.push_back(std::move(entry));
  }
  for (const auto& d : f.summary.dtypes)
    dtypes[printable(d.dtype)] = {{"tensors", d.tensors}, {"elements", d.elements}, {"bytes", d.bytes}};
  for (const auto& pair : f.summary.shared) {
    shared.push_back(text_json({{"name", &c.tensors()[pair.tensor].name}, {"with", &c.tensors()[pair.with].name}}));
    shared.back()["tied"] = pair.tied;
  }
  for (const auto& item : c.ignored()) {
    ignored.push_back(text_json({{"item", &item.item}, {"why", &item.why}}));
    ignored.back()["bytes"] = item.bytes > 0 ? Json(item.bytes) : Json(nullptr);
  }
  for (const auto& [key, value] : c.metadata()) metadata.push_back(text_json({{"key", &key}, {"value", &value}}));
  document["files"] = files;
  document["tensor_count"] = c.tensors().size();
  document["bytes"] = c.total_bytes();
  document["dtypes"] = dtypes;
  document["shared"] = shared;
  document["candidates"] = formats::weight_candidates(c);
  document["ignored"] = ignored;
  document["metadata"] = metadata;
}

Json info_json(const Findings& f, bool tensors) {
  const Checkpoint& c = *f.checkpoint;
  Json document = {{"folder", c.folder().string()}, {"format", format_name(c.format())}};
  add_contents(document, f);
  document["tensor_digest"] = formats::tensor_digest(c);
  document["has_config"] = c.config() != nullptr;
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
    for (const auto& t : c.tensors()) list.push_back(tensor_json(c, t));
    document["tensors"] = list;
  }
  return document;
}

std::string row(const std::string& name, const std::string& value) {
  std::string line = name;
  line.resize(std::max<size_t>(12, line.size() + 1), ' ');
  return line + printable(value) + "\n";
}

// Rows with the name in front of the first; after `most` of them the rest is counted.
std::string rows(const std::string& name, const std::vector<std::string>& values, size_t most) {
  std::string text;
  for (size_t i = 0; i < values.size() && i < most; ++i) text += row(i ? "" : name, values[i]);
  if (values.size() > most) text += row("", "and " + count_text(int64_t(values.size() - most)) + " more (--json lists all)");
  return text;
}

std::string plural(uint64_t n, const std::string& word) {
  return count_text(int64_t(n)) + " " + word + (n == 1 ? "" : "s");
}

std::string files_text(const Findings& f) {
  const Checkpoint& c = *f.checkpoint;
  std::string text = row("folder", c.folder().string());
  std::string files = plural(c.files().size(), std::string(format_name(c.format())) + " file");
  if (c.files().size() == 1) files += " (" + c.files()[0].filename().string() + ")";
  text += row("files", files + ", " + bytes_text(int64_t(c.total_bytes())));
  std::vector<std::string> list;
  if (c.files().size() > 1)
    for (const auto& file : f.summary.files)
      list.push_back(file.path.filename().string() + ": " + plural(file.tensors, "tensor") + ", " +
                     bytes_text(int64_t(file.tensor_bytes)));
  text += rows("", list, 20);
  if (const auto names = formats::weight_candidates(c); names.size() > 1) {
    std::string others;
    for (size_t i = 1; i < names.size(); ++i) others += (i > 1 ? ", " : "") + names[i];
    text += row("weights", (names[0].empty() ? "top level" : names[0]) + "; --weights takes another: " + others);
  }
  text += row("tensors", count_text(int64_t(c.tensors().size())));
  for (const auto& d : f.summary.dtypes)
    text += row("", d.dtype + ": " + plural(d.tensors, "tensor") + ", " + plural(d.elements, "element") + ", " +
                        bytes_text(int64_t(d.bytes)));
  return text;
}

std::string contents_text(const Findings& f) {
  const Checkpoint& c = *f.checkpoint;
  std::vector<std::string> shared, ignored, metadata;
  for (const auto& pair : f.summary.shared)
    shared.push_back(c.tensors()[pair.tensor].name + ": " + (pair.tied ? "same values as " : "another view of the memory of ") +
                     c.tensors()[pair.with].name);
  for (const auto& item : c.ignored())
    ignored.push_back(item.item + ": " + item.why + (item.bytes > 0 ? ", " + bytes_text(int64_t(item.bytes)) : ""));
  for (const auto& [key, value] : c.metadata())
    metadata.push_back(key + ": " + (value.size() > 200 ? value.substr(0, 200) + "..." : value));
  return rows("shared", shared, 10) + rows("left out", ignored, 20) + rows("metadata", metadata, 20);
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
    throw Error({.item = "--flavour", .found = "'" + s.flavour + "'", .expected = "fla, goombalab or nope"}, Error::Kind::usage);
  if (!s.tensor.empty()) return run_tensor_statistics(s, console);
  const Findings f = look(s);
  if (console.json) {
    console.out_json(info_json(f, s.tensors));
    for (const auto& text : f.warnings) console.warning(text);
    return kExitOk;
  }
  std::string text = files_text(f) + contents_text(f);
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
