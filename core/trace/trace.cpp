#include "core/trace/trace.h"

#include <algorithm>
#include <cmath>

#include "core/trace/layer_rule.h"
#include "core/trace/trace_source.h"

namespace slotscope::trace {
namespace {

// One HDF5 call reads about this much, so that a cancel is heard and other threads get their turn.
constexpr int64_t kBlockBytes = int64_t(8) << 20;

// --heads: the heads that own slots and were captured, in the order of the second axis; null: all.
const std::vector<int64_t>* captured_heads(const LayerSpec& layer) {
  for (const auto& [name, value] : layer.attributes)
    if (name == "captured_route_heads") return std::get_if<std::vector<int64_t>>(&value);
  return nullptr;
}

}  // namespace

struct Trace::Impl {
  std::filesystem::path path;
  Source source;
  Status status = Status::partial;
  std::string created, writer_version;
  ModelSpec model;
  std::vector<RunInfo> runs;
  std::vector<std::string> groups;

  void load(Progress* progress);
  void load_model();
  const DatasetInfo& info(int run, std::string_view dataset) const;
  template <class T>
  std::vector<T> read(int run, std::string_view dataset, int64_t head, int64_t first, int64_t count,
                      Progress* progress);
};

void Trace::Impl::load(Progress* progress) {
  const Hdf5Lock lock;
  source.open(path);
  const std::string& name = source.name;
  std::string format;
  int64_t version = 0, state = 0, tokens = -1;
  const Handle root(H5Gopen2(source.file, "/", H5P_DEFAULT));
  if (!root) damaged(name, "/", "cannot open the root group (" + hdf5_message() + ")");
  if (!read_attribute(root, "format", format) || format != "slotscope-trace")
    throw Error(
        {.file = name,
         .item = "format",
         .found = format.empty() ? "an HDF5 file without this attribute" : "'" + format.substr(0, 80) + "'",
         .expected = "'slotscope-trace'",
         .advice = format == "slotscope-sweep"
                       ? "This is a sweep: `slotscope figure FILE --out F.pdf` draws it, `slotscope-cli analyze FILE` prints its table"
                   : format == "slotscope-result"
                       ? "This is a computed result: `slotscope figure FILE --out F.pdf` draws it, resources/result-format.md says what it holds"
                       : "Open a trace written by slotscope-cli run"});
  if (!read_attribute(root, "format_version", version) || version < 1)
    damaged(name, "format_version", version == 0 ? "missing" : std::to_string(version), "1");
  if (version > 1)
    throw Error({.file = name,
                 .item = "format_version",
                 .found = std::to_string(version),
                 .expected = "1, the newest that this program reads",
                 .advice = "Use a newer Slotscope"});
  if (!read_attribute(root, "status", state) || state < 0 || state > 3)
    damaged(name, "status", std::to_string(state), "0 to 3");
  status = Status(state);
  read_attribute(root, "tokens_done", tokens);
  read_attribute(root, "created", created);
  read_attribute(root, "writer_version", writer_version);
  load_model();
  groups = run_groups(source);
  if (progress) progress->begin_stage("opening trace", int64_t(groups.size()));
  for (const std::string& group : groups) {
    if (progress && progress->cancel_requested()) throw Error({.file = name, .found = "cancelled"});
    runs.push_back(load_run(source, group, {status, tokens, groups.size() == 1}));
    if (progress) progress->add(1);
  }
}

void Trace::Impl::load_model() {
  const auto text = [&](const char* name, std::string& value) {
    source.text(std::string("/model/") + name, value);
  };
  text("config", model.config_json);
  text("family", model.family);
  text("flavour", model.flavour);
  text("dtype", model.dtype);
  text("router_dtype", model.router_dtype);
  text("device", model.device);
  text("checkpoint", model.checkpoint);
  text("tensor_digest", model.tensor_digest);
  if (!source.exists("/model")) return;
  const Handle group(H5Gopen2(source.file, "/model", H5P_DEFAULT));
  if (group) model.attributes = read_attributes(group);
}

const DatasetInfo& Trace::Impl::info(int run, std::string_view dataset) const {
  if (run < 0 || size_t(run) >= runs.size())
    throw Error({.file = source.name,
                 .item = "run " + std::to_string(run),
                 .found = std::to_string(runs.size()) + " runs"});
  if (const DatasetInfo* found = runs[size_t(run)].find(dataset)) return *found;
  throw Error({.file = source.name,
               .item = std::string(dataset),
               .found = "not in this trace",
               .advice = "Capture it with --capture " + std::string(dataset.substr(dataset.rfind('/') + 1))});
}

template <class T>
std::vector<T> Trace::Impl::read(int run, std::string_view dataset, int64_t head, int64_t first,
                                 int64_t count, Progress* progress) {
  const DatasetInfo& d = info(run, dataset);
  const std::string path_in_file = groups[size_t(run)] + "/" + d.path;
  const int64_t rows = d.shape.empty() ? 1 : d.shape[0];
  if (count < 0) count = rows - first;
  if (first < 0 || count < 0 || first > rows || count > rows - first)
    throw Error(
        {.file = source.name,
         .item = d.path,
         .found = "rows " + std::to_string(first) + " to " + std::to_string(first + count) + " asked for",
         .expected = "rows within 0 to " + std::to_string(rows)});
  if (head >= 0 && (d.shape.size() < 2 || head >= d.shape[1]))
    throw Error({.file = source.name,
                 .item = d.path,
                 .found = "head " + std::to_string(head) + " asked for",
                 .expected = d.shape.size() < 2 ? "a dataset with heads"
                                                : "heads 0 to " + std::to_string(d.shape[1] - 1)});
  int64_t row = 1;
  for (size_t i = head >= 0 ? 2 : 1; i < d.shape.size(); ++i) row *= d.shape[i];
  std::vector<T> values{std::vector<T>(size_t(count * row))};
  if (values.empty()) return values;
  // Blocks end at chunk borders: no chunk is unpacked twice.
  const int64_t chunk = d.chunk.empty() ? 1 : d.chunk[0];
  const int64_t block = std::max<int64_t>(kBlockBytes / (row * 8) / chunk, 1) * chunk;
  if (progress) progress->begin_stage("reading " + d.path, count);
  for (int64_t at = first; at < first + count;) {
    if (progress && progress->cancel_requested())
      throw Error({.file = source.name, .item = d.path, .found = "cancelled"});
    const int64_t end = std::min(first + count, (at / block + 1) * block);
    const Hdf5Lock lock;
    source.read(source.cached(path_in_file), path_in_file, at, end - at, head,
                values.data() + (at - first) * row);
    at = end;
    if (progress) progress->set(at - first);
  }
  return values;
}

Trace::Trace() : impl_(std::make_unique<Impl>()) {}
Trace::~Trace() = default;

std::shared_ptr<Trace> Trace::open(const std::filesystem::path& file, Progress* progress) {
  std::shared_ptr<Trace> trace(new Trace);
  trace->impl_->path = file;
  try {
    trace->impl_->load(progress);
  } catch (const std::bad_alloc&) {
    damaged(file.string(), "", "its sizes need more memory than there is");
  } catch (const std::length_error&) {
    damaged(file.string(), "", "its sizes need more memory than there is");
  }
  return trace;
}

const std::filesystem::path& Trace::path() const { return impl_->path; }
Status Trace::status() const { return impl_->status; }
bool Trace::writer_alive_or_dead() const { return impl_->source.swmr || impl_->status == Status::partial; }
const std::string& Trace::created() const { return impl_->created; }
const std::string& Trace::writer_version() const { return impl_->writer_version; }
const ModelSpec& Trace::model() const { return impl_->model; }
int Trace::run_count() const { return int(impl_->runs.size()); }
const RunInfo& Trace::run(int i) const { return impl_->runs.at(size_t(i)); }

std::vector<double> Trace::read(int run, std::string_view path, int64_t first, int64_t count,
                                Progress* progress) const {
  return impl_->read<double>(run, path, -1, first, count, progress);
}

std::vector<double> Trace::read_head(int run, std::string_view path, int head, int64_t first, int64_t count,
                                     Progress* progress) const {
  if (head < 0)
    throw Error(
        {.file = impl_->source.name, .item = std::string(path), .found = "head " + std::to_string(head)});
  return impl_->read<double>(run, path, head, first, count, progress);
}

std::vector<int64_t> Trace::read_int(int run, std::string_view path, int64_t first, int64_t count,
                                     Progress* progress) const {
  return impl_->read<int64_t>(run, path, -1, first, count, progress);
}

bool Trace::has_routes(int run, int layer) const {
  if (run < 0 || run >= run_count()) return false;
  const RunInfo& info = impl_->runs[size_t(run)];
  const std::string at = "layers/" + std::to_string(layer) + "/";
  if (info.find(at + "route_index") && info.find(at + "route_weight")) return true;
  return std::any_of(info.layers.begin(), info.layers.end(), [&](const LayerSpec& l) {
    return l.index == layer && (l.route_kind == "dense" || l.route_kind == "ring" || l.route_kind == "append");
  });
}

HeadRoutes Trace::routes(int run_index, int layer, int head, Progress* progress) const {
  Impl& m = *impl_;
  const std::string at = "layers/" + std::to_string(layer) + "/";
  if (run_index < 0 || run_index >= run_count())
    throw Error({.file = m.source.name,
                 .item = "run " + std::to_string(run_index),
                 .found = std::to_string(run_count()) + " runs"});
  const RunInfo& run = m.runs[size_t(run_index)];
  const auto spec = std::find_if(run.layers.begin(), run.layers.end(),
                                 [&](const LayerSpec& l) { return l.index == layer; });
  if (spec == run.layers.end())
    throw Error(
        {.file = m.source.name, .item = "layer " + std::to_string(layer), .found = "not in this trace"});
  if (!run.find(at + "route_index") || !run.find(at + "route_weight")) {
    if (has_routes(run_index, layer)) return routes_by_rule(*this, run_index, *spec, head, progress);
    if (spec->route_kind == "none")
      throw Error({.file = m.source.name,
                   .item = "layer " + std::to_string(layer),
                   .found = spec->family + " has no memory of slots"});
    throw Error({.file = m.source.name,
                 .item = "layer " + std::to_string(layer),
                 .found = "its routes were not captured",
                 .advice = "Capture them with --capture route and include the layer in --layers"});
  }
  const DatasetInfo& index = *run.find(at + "route_index");
  const DatasetInfo& weight = *run.find(at + "route_weight");
  if (index.shape.size() != 3 || index.shape != weight.shape)
    damaged(m.source.name, at + "route_weight", "another shape than route_index", "[T,H_r,K] both");
  // Numbers of slots are the sizes of what is made from the routes; a 16-bit index cannot name more than 65,536.
  const int64_t most = index.type == ElementType::u16 ? 1 << 16 : 1 << 24;
  if (spec->slots < 0 || spec->slots > most)
    damaged(m.source.name, at + "slots", std::to_string(spec->slots), "0 to " + std::to_string(most));
  HeadRoutes routes;
  routes.layer = layer;
  routes.head = head;
  routes.slots = int(spec->slots);
  routes.top_k = int(index.shape[2]);
  routes.rows = index.shape[0];
  routes.tokens = run.tokens;
  if (run.find(at + "token")) {
    routes.token = m.read<int64_t>(run_index, at + "token", -1, 0, -1, nullptr);
    if (int64_t(routes.token.size()) < routes.rows)
      damaged(m.source.name, at + "token", std::to_string(routes.token.size()) + " rows",
              std::to_string(routes.rows));
    routes.token.resize(size_t(routes.rows));
  } else if (routes.rows != run.tokens) {
    damaged(m.source.name, at + "route_index", std::to_string(routes.rows) + " rows",
            std::to_string(run.tokens) + " tokens");
  }
  const LayerRule rule = layer_rule(*spec);
  routes.no_survival = survival_undefined(rule);
  if (rule.delta)
    routes.no_reads = rule.family + ": no read weight over slots. A memory is read by inner products with the query";
  const int64_t place = route_head_place(*spec, head, m.source.name);
  const auto raw = m.read<int64_t>(run_index, at + "route_index", place, 0, -1, progress);
  routes.index.reserve(raw.size());
  for (int64_t i : raw) {
    if (i < 0 || i >= spec->slots)
      damaged(m.source.name, at + "route_index", "slot " + std::to_string(i),
              "slots 0 to " + std::to_string(spec->slots - 1));
    routes.index.push_back(uint32_t(i));
  }
  routes.weight = m.read<double>(run_index, at + "route_weight", place, 0, -1, progress);
  if (const DatasetInfo* decay = run.find(at + "log_decay")) {
    routes.per_slot_decay = decay->shape.size() == 3;
    if (decay->shape.size() < 2 || decay->shape[0] != routes.rows ||
        (routes.per_slot_decay && decay->shape[2] != routes.top_k))
      damaged(m.source.name, at + "log_decay", "another shape than route_index", "[T,H_r] or [T,H_r,K]");
    routes.log_decay = m.read<double>(run_index, at + "log_decay", place, 0, -1, progress);
  }
  const DatasetInfo* strength = run.find(at + "write_strength");
  if (strength && strength->shape == index.shape) {
    routes.strength = m.read<double>(run_index, at + "write_strength", place, 0, -1, progress);
  } else if (routes.has_decay()) {
    routes.strength.resize(routes.weight.size());
    for (int64_t row = 0; row < routes.rows; ++row)
      for (int k = 0; k < routes.top_k; ++k) {
        const size_t i = size_t(row * routes.top_k + k);
        routes.strength[i] =
            -std::expm1(routes.decay(row, k) * routes.weight[i]);  // 1 - exp(a r), exact for small a r
      }
  }
  return routes;
}

std::vector<std::vector<uint32_t>> Trace::counters(int run, int layer, std::string_view field) const {
  const std::string path = "layers/" + std::to_string(layer) + "/" + std::string(field);
  if (run < 0 || run >= run_count() || !impl_->runs[size_t(run)].find(path)) return {};
  const DatasetInfo& info = *impl_->runs[size_t(run)].find(path);
  const auto values = impl_->read<int64_t>(run, path, -1, 0, -1, nullptr);
  const size_t columns = info.shape.empty() ? 1 : size_t(info.shape.back());
  std::vector<std::vector<uint32_t>> counters;
  for (size_t at = 0; columns > 0 && at + columns <= values.size(); at += columns) {
    counters.emplace_back();
    for (size_t i = at; i < at + columns; ++i) {
      if (values[i] < 0 || values[i] > int64_t(UINT32_MAX))
        damaged(impl_->source.name, path, "a count of " + std::to_string(values[i]));
      counters.back().push_back(uint32_t(values[i]));
    }
  }
  const auto& layers = impl_->runs[size_t(run)].layers;
  const auto spec =
      std::find_if(layers.begin(), layers.end(), [&](const LayerSpec& l) { return l.index == layer; });
  const auto* captured = spec == layers.end() ? nullptr : captured_heads(*spec);
  if (!captured || info.shape.size() != 2) return counters;
  std::vector<std::vector<uint32_t>> placed(size_t(std::clamp<int64_t>(spec->route_heads, 0, 1 << 20)));
  for (size_t i = 0; i < counters.size() && i < captured->size(); ++i)
    if ((*captured)[i] >= 0 && size_t((*captured)[i]) < placed.size())
      placed[size_t((*captured)[i])] = std::move(counters[i]);
  return placed;
}

std::string_view RunInfo::token_bytes(int64_t t) const {
  if (t < 0 || t + 1 >= int64_t(byte_offsets.size())) return {};
  const auto begin = size_t(byte_offsets[size_t(t)]), end = size_t(byte_offsets[size_t(t) + 1]);
  return std::string_view(reinterpret_cast<const char*>(bytes.data()) + begin, end - begin);
}

const DatasetInfo* RunInfo::find(std::string_view path) const {
  for (const DatasetInfo& d : datasets)
    if (d.path == path) return &d;
  return nullptr;
}

const Span* RunInfo::span(std::string_view name) const {
  for (const Span& s : spans)
    if (s.name == name) return &s;
  return nullptr;
}

}  // namespace slotscope::trace
