#include "core/analysis/trace_access.h"

#include <algorithm>

#include "core/error.h"

namespace slotscope::analysis {
namespace {

std::string path_of(const trace::LayerSpec& layer, std::string_view field) {
  return "layers/" + std::to_string(layer.index) + "/" + std::string(field);
}

const trace::DatasetInfo* find(const trace::Trace& trace, int run, const trace::LayerSpec& layer,
                               std::string_view field) {
  return trace.run(run).find(path_of(layer, field));
}

}  // namespace

const trace::RunInfo& run_info(const trace::Trace& trace, int run) {
  if (run < 0 || run >= trace.run_count())
    throw Error({.file = trace.path().string(),
                 .item = "run " + std::to_string(run),
                 .found = "not in this trace",
                 .expected = "0 to " + std::to_string(trace.run_count() - 1)});
  return trace.run(run);
}

const trace::LayerSpec& layer_spec(const trace::Trace& trace, int run, int layer) {
  const auto& layers = run_info(trace, run).layers;
  const auto at =
      std::find_if(layers.begin(), layers.end(), [&](const trace::LayerSpec& l) { return l.index == layer; });
  if (at == layers.end())
    throw Error({.file = trace.path().string(),
                 .item = "layer " + std::to_string(layer),
                 .found = "not in this trace"});
  // Sizes come from the file; every array of the analyses has M or H_r entries.
  if (at->slots < 0 || at->slots > int64_t(1) << 24 || at->route_heads < 0 || at->route_heads > 65536 ||
      at->heads < 0 || at->heads > 65536)
    throw Error({.file = trace.path().string(),
                 .item = "layer " + std::to_string(layer),
                 .found = std::to_string(at->slots) + " slots, " + std::to_string(at->route_heads) +
                          " route heads, " + std::to_string(at->heads) + " heads",
                 .expected = "at most 16777216 slots and 65536 heads",
                 .advice = "The file may be damaged"});
  return *at;
}

std::string why_no_routes(const trace::Trace& trace, int run, const trace::LayerSpec& layer) {
  if (trace.has_routes(run, layer.index)) return "";
  if (layer.route_kind == "sparse")
    return "not captured: run again with layer " + std::to_string(layer.index);
  return layer.family.empty() ? "no routes" : layer.family + ": no routes";
}

int64_t head_place(const trace::LayerSpec& layer, std::string_view attribute, int head) {
  for (const auto& [name, value] : layer.attributes) {
    if (name != attribute) continue;
    const auto* list = std::get_if<std::vector<int64_t>>(&value);
    if (!list) break;
    const auto at = std::find(list->begin(), list->end(), int64_t(head));
    return at == list->end() ? -1 : at - list->begin();
  }
  return head;
}

std::vector<uint32_t> head_counters(const trace::Trace& trace, int run, const trace::LayerSpec& layer,
                                    std::string_view field, int head) {
  auto all = trace.counters(run, layer.index, field);
  if (size_t(head) >= all.size() || all[size_t(head)].size() != size_t(layer.slots)) return {};
  return std::move(all[size_t(head)]);
}

int64_t head_ties(const trace::Trace& trace, int run, const trace::LayerSpec& layer, int head) {
  const auto all = trace.counters(run, layer.index, "ties");
  const int64_t place = head_place(layer, "captured_route_heads", head);
  if (all.size() != 1 || place < 0 || size_t(place) >= all[0].size()) return -1;
  return all[0][size_t(place)];
}

std::vector<double> head_margin(const trace::Trace& trace, int run, const trace::LayerSpec& layer, int head) {
  const auto* info = find(trace, run, layer, "margin");
  const int64_t place = head_place(layer, "captured_route_heads", head);
  if (!info || info->shape.size() != 2 || place < 0 || place >= info->shape[1]) return {};
  return trace.read_head(run, info->path, int(place));
}

std::vector<int64_t> read_tokens(const trace::Trace& trace, int run, const trace::LayerSpec& layer) {
  if (!find(trace, run, layer, "read_weight") || !find(trace, run, layer, "read_token")) return {};
  return trace.read_int(run, path_of(layer, "read_token"));
}

HeadReads head_reads(const trace::Trace& trace, int run, const trace::LayerSpec& layer, int head,
                     int64_t first, int64_t count) {
  HeadReads out;
  const auto* info = find(trace, run, layer, "read_weight");
  if (!info || !find(trace, run, layer, "read_token") || info->shape.size() != 3 ||
      info->shape[2] != layer.slots || layer.route_heads <= 0 || layer.heads < layer.route_heads)
    return out;
  out.token = trace.read_int(run, path_of(layer, "read_token"));
  // In a file that was cut off one of the two may be a chunk ahead.
  const int64_t rows = std::min<int64_t>(int64_t(out.token.size()), info->shape[0]);
  first = std::clamp<int64_t>(first, 0, rows);
  count = count < 0 ? rows - first : std::min(count, rows - first);
  out.token = {out.token.begin() + first, out.token.begin() + first + count};
  // Query head h reads the slots of head floor(h / group) (model-zoo 1.5).
  const int group = int(layer.heads / layer.route_heads);
  std::vector<std::vector<double>> each;
  for (int h = head * group; h < (head + 1) * group; ++h) {
    const int64_t place = head_place(layer, "captured_heads", h);
    if (place < 0 || place >= info->shape[1]) continue;
    out.heads.push_back(h);
    each.push_back(trace.read_head(run, info->path, int(place), first, count));
  }
  if (out.heads.empty()) return {};
  if (each.size() == 1) {
    out.weight = std::move(each[0]);
    return out;
  }
  const size_t slots = size_t(layer.slots);
  for (size_t row = 0; row < out.token.size(); ++row)
    for (const auto& one : each)
      out.weight.insert(out.weight.end(), one.begin() + int64_t(row * slots),
                        one.begin() + int64_t((row + 1) * slots));
  return out;
}

}  // namespace slotscope::analysis
