// slotscope-cli verify: a forward pass against stored reference numbers (names: spec architecture "Names in the golden files").
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "app/cli/commands.h"
#include "core/fields.h"

namespace slotscope::cli {
namespace {

// What a golden tensor means.
struct Target {
  const formats::TensorInfo* tensor = nullptr;
  int layer = -1;     // -1: logits
  std::string field;  // dataset name, or "log_keep" (derived: f = a r)
};

// One comparison. Errors are absolute.
struct Outcome {
  std::string name, field;
  std::vector<int64_t> shape;
  double worst = 0, tolerance = 0, got = 0, expected = 0;
  std::vector<int64_t> place;
  bool pass = false;
  std::string reason;  // of a failure without a number, or why a tensor was not compared
  bool compared = true;
};

struct SetOutcome {
  int layer = 0;
  int64_t sets = 0, different = 0;
  std::string first;  // "token 3, head 1: slots 0 2 5, expected 0 2 7"
};

bool parse_layer(std::string_view text, int& layer) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), layer);
  return error == std::errc() && rest == text.data() + text.size() && layer >= 0;
}

// "logits", "logits_f64", "block_out.3", "hidden.3", "layers.3.hidden". False for a name without a meaning here.
bool parse_name(const std::string& name, Target& target) {
  if (name == "logits" || name == "logits_f64") {
    target.field = "logits";
    return true;
  }
  std::string field, layer;
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return false;
  if (name.rfind("layers.", 0) == 0 && dot > 7) {
    layer = name.substr(7, dot - 7);
    field = name.substr(dot + 1);
  } else {
    field = name.substr(0, dot);
    layer = name.substr(dot + 1);
  }
  if (!parse_layer(layer, target.layer)) return false;
  target.field = field == "block_out" ? "hidden" : field;
  const FieldInfo* known = find_field(target.field);
  return target.field == "log_keep" || (known && known->axes.substr(0, 2) == "T,");
}

// A leading axis of 1 is dropped ([1,T,V]).
std::vector<int64_t> without_batch(std::vector<int64_t> shape, size_t rank) {
  if (shape.size() == rank + 1 && shape[0] == 1) shape.erase(shape.begin());
  return shape;
}

std::vector<int32_t> read_ids(const formats::Checkpoint& golden, const std::string& file) {
  const auto* tensor = golden.find("input_ids");
  if (!tensor)
    throw Error({.file = file, .item = "input_ids", .found = "no such tensor", .expected = "the token ids that were run"});
  const auto shape = without_batch(tensor->shape, 1);
  if (shape.size() != 1 || shape[0] < 1)
    throw Error({.file = file, .item = "input_ids", .found = "shape " + shape_text(tensor->shape), .expected = "[T] or [1, T]"});
  std::vector<int32_t> ids;
  for (double v : formats::read_values(golden, *tensor, 0, uint64_t(shape[0]))) {
    if (!(v >= 0 && v <= std::numeric_limits<int32_t>::max()) || v != std::floor(v))
      throw Error({.file = file, .item = "input_ids", .found = number_text(v), .expected = "token ids"});
    ids.push_back(int32_t(v));
  }
  return ids;
}

class Verifier {
 public:
  Verifier(const engine::ModelInfo& info, const trace::MemorySink& sink, const formats::Checkpoint& golden,
           const engine::LoadOptions& load, std::optional<double> tolerance)
      : info_(info), sink_(sink), golden_(golden), load_(load), tolerance_(tolerance) {}

  Outcome compare(const Target& target) const {
    Outcome o{.name = target.tensor->name, .field = target.field, .shape = target.tensor->shape};
    o.tolerance = tolerance_for(target);
    if (target.layer >= int(info_.layers.size()))
      return refuse(o, "the model has " + std::to_string(info_.layers.size()) + " layers");
    // A dense layer has no routes: its log decay is the log of what each slot keeps.
    const bool dense = target.layer >= 0 && info_.layers[size_t(target.layer)].route_kind == "dense";
    const std::string dataset = target.field != "log_keep" ? target.field : dense ? "log_decay" : "route_index";
    const std::string path = target.layer < 0 ? target.field : "layers/" + std::to_string(target.layer) + "/" + dataset;
    const int at = find_dataset(path);
    if (at < 0) return refuse(o, "this layer has no " + dataset);
    const auto ours_shape = shape_of(at);
    const auto scattered = scattered_shape(target, ours_shape);
    const auto golden_shape = without_batch(o.shape, std::max(ours_shape.size(), scattered.size()));
    std::vector<double> ours;
    if (!scattered.empty() && golden_shape == scattered) {
      ours = scatter(target.layer, target.field);
    } else if ((target.field != "log_keep" || dense) && golden_shape == ours_shape) {
      ours = sink_.values(0, sink_.runs[0].datasets[size_t(at)].path);
    } else {
      return refuse(o, "shape " + shape_text(target.tensor->shape) + ", the run gives " +
                           shape_text(scattered.empty() ? ours_shape : scattered));
    }
    const auto expected = formats::read_values(golden_, *target.tensor, 0, ours.size());
    fill(o, ours, expected, golden_shape);
    return o;
  }

  // The selected slots against those with log_keep != 0, per token and query head.
  SetOutcome compare_sets(const Target& target) const {
    const auto& layer = info_.layers[size_t(target.layer)];
    const auto index = layer_values(target.layer, "route_index");
    const int64_t T = int64_t(index.size()) / (layer.route_heads * layer.top_k), M = layer.slots, H = layer.heads;
    const auto keep = formats::read_values(golden_, *target.tensor, 0, uint64_t(T * H * M));
    SetOutcome o{.layer = target.layer};
    for (int64_t t = 0; t < T; ++t)
      for (int64_t h = 0; h < H; ++h, ++o.sets) {
        const int64_t owner = h / (H / layer.route_heads);
        std::set<int64_t> ours, expected;
        for (int64_t k = 0; k < layer.top_k; ++k)
          ours.insert(int64_t(index[size_t((t * layer.route_heads + owner) * layer.top_k + k)]));
        for (int64_t m = 0; m < M; ++m)
          if (keep[size_t((t * H + h) * M + m)] != 0) expected.insert(m);
        if (ours == expected) continue;
        if (o.different++ == 0)
          o.first = "token " + std::to_string(t) + ", head " + std::to_string(h) + ": slots" + list(ours) + ", expected" +
                    list(expected);
      }
    return o;
  }

 private:
  static std::string list(const std::set<int64_t>& set) {
    std::string text;
    for (int64_t i : set) text += " " + std::to_string(i);
    return text;
  }
  static Outcome& refuse(Outcome& o, std::string reason) {
    o.reason = std::move(reason);
    o.worst = std::numeric_limits<double>::infinity();
    return o;
  }

  // Dataset of logits is output/logits: fields are named by the last part of their path.
  int find_dataset(const std::string& path) const {
    if (const int at = sink_.find(0, path); at >= 0) return at;
    return path.find('/') == std::string::npos ? sink_.find(0, "output/" + path) : -1;
  }
  std::vector<int64_t> shape_of(int at) const {
    const auto& spec = sink_.runs[0].datasets[size_t(at)];
    std::vector<int64_t> shape = spec.shape;
    if (spec.growing) shape.insert(shape.begin(), sink_.data[0][size_t(at)].rows);
    return shape;
  }
  std::vector<double> layer_values(int layer, const std::string& field) const {
    return sink_.values(0, "layers/" + std::to_string(layer) + "/" + field);
  }

  // [T,H,M] for what lives on selected slots only; empty for other fields.
  std::vector<int64_t> scattered_shape(const Target& target, const std::vector<int64_t>& ours) const {
    static const std::set<std::string> sparse = {"log_keep", "write_strength", "route_weight"};
    if (target.layer < 0 || !sparse.count(target.field)) return {};
    const auto& layer = info_.layers[size_t(target.layer)];
    if (layer.route_kind != "sparse") return {};
    return {ours.empty() ? 0 : ours[0], layer.heads, layer.slots};
  }

  // Sparse values put on all slots (0 elsewhere) and repeated from the heads that own slots to the query heads.
  std::vector<double> scatter(int layer_index, const std::string& field) const {
    const auto& layer = info_.layers[size_t(layer_index)];
    const int64_t H = layer.heads, R = layer.route_heads, K = layer.top_k, M = layer.slots;
    const auto index = layer_values(layer_index, "route_index");
    const auto weight = layer_values(layer_index, field == "log_keep" ? "route_weight" : field);
    std::vector<double> decay;
    if (field == "log_keep") decay = layer_values(layer_index, "log_decay");
    const bool per_slot = decay.size() == weight.size() && K > 1;
    const int64_t T = int64_t(index.size()) / (R * K);
    std::vector<double> dense(size_t(T * H * M), 0.0);
    for (int64_t t = 0; t < T; ++t)
      for (int64_t h = 0; h < H; ++h)
        for (int64_t k = 0; k < K; ++k) {
          const int64_t row = t * R + h / (H / R), at = row * K + k;
          const double value = weight[size_t(at)] * (decay.empty() ? 1 : decay[size_t(per_slot ? at : row)]);
          dense[size_t((t * H + h) * M + int64_t(index[size_t(at)]))] = value;
        }
    return dense;
  }

  double tolerance_for(const Target& target) const {
    if (tolerance_) return *tolerance_;
    if (target.field == "write_strength") return 1e-6;
    // A reference stored in float32 was rounded there, so a float64 run cannot meet it to 1e-9.
    if (load_.dtype == "float64" && target.tensor->dtype == formats::DType::f64) return 1e-9;
    return load_.device == "cpu" ? 1e-4 : 2e-4;
  }

  static void fill(Outcome& o, const std::vector<double>& ours, const std::vector<double>& expected,
                   const std::vector<int64_t>& shape) {
    size_t worst_at = 0;
    double worst = -1;
    for (size_t i = 0; i < ours.size(); ++i) {
      double error = ours[i] == expected[i] ? 0 : std::abs(ours[i] - expected[i]);
      if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
      if (error > worst) worst = error, worst_at = i;
    }
    if (worst < 0) {
      refuse(o, "no value");
      return;
    }
    o.worst = worst;
    o.got = ours[worst_at];
    o.expected = expected[worst_at];
    o.place.assign(shape.size(), 0);
    int64_t rest = int64_t(worst_at);
    for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) o.place[axis] = rest % shape[axis];
    o.pass = o.worst <= o.tolerance;  // NaN became infinity above
  }

  const engine::ModelInfo& info_;
  const trace::MemorySink& sink_;
  const formats::Checkpoint& golden_;
  engine::LoadOptions load_;
  std::optional<double> tolerance_;
};

// The names of the axes of a place, for a reader: "token 12, head 1, slot 5".
std::string place_text(const Outcome& o) {
  static const std::set<std::string> on_slots = {"log_keep", "write_strength", "route_weight"};
  std::string text;
  for (size_t axis = 0; axis < o.place.size(); ++axis) {
    const char* name = axis == 0 ? "token" : o.place.size() == 2 ? "element" : axis == 1 ? "head" : on_slots.count(o.field) ? "slot" : "element";
    text += (axis ? ", " : "") + std::string(name) + " " + std::to_string(o.place[axis]);
  }
  return text;
}

std::vector<Target> targets(const formats::Checkpoint& golden, std::vector<Outcome>& skipped) {
  std::vector<Target> list;
  for (const auto& tensor : golden.tensors()) {
    if (tensor.name == "input_ids") continue;
    Target target{.tensor = &tensor};
    if (parse_name(tensor.name, target))
      list.push_back(target);
    else
      skipped.push_back({.name = tensor.name, .shape = tensor.shape, .reason = "no captured field has this name", .compared = false});
  }
  return list;
}

std::vector<std::string> fields_for(const std::vector<Target>& list) {
  std::set<std::string> names;
  for (const auto& t : list) {
    if (t.field == "log_keep")
      names.insert({"route_index", "route_weight", "log_decay"});
    else
      names.insert(t.field);
    if (t.field == "write_strength" || t.field == "route_weight") names.insert("route_index");
  }
  return {names.begin(), names.end()};
}

Json report_json(const VerifySettings& s, const engine::ModelInfo& info, bool pass, const std::vector<Outcome>& outcomes,
                 const std::vector<SetOutcome>& sets) {
  Json tensors = Json::array(), set_list = Json::array();
  for (const auto& o : outcomes) {
    Json entry = {{"name", o.name}, {"field", o.field}, {"shape", o.shape}, {"compared", o.compared}};
    const bool number = o.compared && o.reason.empty();
    entry["max_error"] = number ? Json(o.worst) : Json(nullptr);
    entry["tolerance"] = o.compared ? Json(o.tolerance) : Json(nullptr);
    entry["place"] = o.place;
    entry["got"] = number ? Json(o.got) : Json(nullptr);
    entry["expected"] = number ? Json(o.expected) : Json(nullptr);
    entry["pass"] = o.compared ? Json(o.pass) : Json(nullptr);
    entry["reason"] = o.reason.empty() ? Json(nullptr) : Json(o.reason);
    tensors.push_back(entry);
  }
  for (const auto& o : sets)
    set_list.push_back({{"layer", o.layer}, {"sets", o.sets}, {"different", o.different}, {"first_difference", o.different ? Json(o.first) : Json(nullptr)},
                        {"pass", o.different == 0}});
  return {{"pass", pass}, {"folder", s.folder}, {"golden", s.golden}, {"family", info.family}, {"flavour", info.flavour},
          {"device", s.run.device}, {"dtype", s.run.dtype}, {"tensors", tensors}, {"selected_sets", set_list}};
}

std::string report_text(bool pass, const std::vector<Outcome>& outcomes, const std::vector<SetOutcome>& sets) {
  Table table({"tensor", "shape", ">worst error", ">tolerance", "", "where"});
  for (const auto& o : outcomes) {
    if (!o.compared) {
      table.row({o.name, shape_text(o.shape), "-", "-", "skip", o.reason});
    } else if (!o.reason.empty()) {
      table.row({o.name, shape_text(o.shape), "-", number_text(o.tolerance), "FAIL", o.reason});
    } else {
      std::string where = place_text(o);
      if (!o.pass) where += ": " + number_text(o.got, 9) + ", expected " + number_text(o.expected, 9);
      table.row({o.name, shape_text(o.shape), number_text(o.worst, 3), number_text(o.tolerance), o.pass ? "ok" : "FAIL", where});
    }
  }
  for (const auto& o : sets)
    table.row({"selected slots, layer " + std::to_string(o.layer), std::to_string(o.sets) + " sets",
               std::to_string(o.different) + " differ", "0", o.different ? "FAIL" : "ok", o.first});
  return table.text() + (pass ? "pass\n" : "FAIL\n");
}

}  // namespace

int run_verify(const VerifySettings& s, const Console& console) {
  check_model_settings(s.run);
  if (s.tolerance && !(*s.tolerance >= 0))
    throw Error({.item = "--tolerance", .found = number_text(*s.tolerance), .expected = "0 or more"}, Error::Kind::usage);
  if (s.run.dtype == "bfloat16" && !s.tolerance)
    throw Error({.item = "--tolerance", .found = "not given with --dtype bfloat16", .expected = "a tolerance of your choice",
                 .advice = "bfloat16 has 8 bits of precision: what is close enough depends on the model"}, Error::Kind::usage);
  Progress& progress = cancel_on_signal();
  const auto golden = formats::Checkpoint::open(s.golden);
  const auto prompt = formats::prompt_from_ids(read_ids(*golden, s.golden), "golden");
  std::vector<Outcome> outcomes;
  const auto list = targets(*golden, outcomes);
  if (list.empty())
    throw Error({.file = s.golden, .found = "no tensor to compare with", .expected = "logits, block_out.i, mixer_out.i, ..."});

  const auto checkpoint = formats::Checkpoint::open(s.folder, {.weights = s.run.weights});
  std::unique_ptr<engine::Model> model;
  trace::MemorySink sink;
  engine::RunOutcome outcome;
  {
    const ProgressLine line(progress, console);
    model = engine::Model::load(checkpoint, load_options(s.run), progress);
    engine::RunOptions options;
    options.plan.fields = fields_for(list);
    options.plan.state_at = "none";
    options.generate = 0;
    outcome = model->run({prompt}, nullptr, options, sink, progress);
  }
  if (outcome.status == trace::Status::cancelled) {
    console.info("cancelled");
    if (console.json) console.out_json({{"status", "cancelled"}});
    return kExitCancelled;
  }
  const Verifier verifier(model->info(), sink, *golden, load_options(s.run), s.tolerance);
  std::vector<SetOutcome> sets;
  for (const auto& target : list) {
    outcomes.push_back(verifier.compare(target));
    const bool sparse = target.layer >= 0 && target.layer < int(model->info().layers.size()) &&
                        model->info().layers[size_t(target.layer)].route_kind == "sparse";
    if (target.field == "log_keep" && sparse && outcomes.back().reason.empty())
      sets.push_back(verifier.compare_sets(target));
  }
  bool pass = true;
  for (const auto& o : outcomes) pass = pass && (!o.compared || o.pass);
  for (const auto& o : sets) pass = pass && o.different == 0;
  if (console.json)
    console.out_json(report_json(s, model->info(), pass, outcomes, sets));
  else
    console.out(report_text(pass, outcomes, sets));
  return pass ? kExitOk : kExitError;
}

}  // namespace slotscope::cli
