#include "core/engine/capture/recorder.h"

#include <algorithm>
#include <cstring>

#include "core/engine/cuda_stream.h"
#include "kernels/route_counters.h"

namespace slotscope::engine {
namespace {

using trace::ElementType;

// Same bits, a dtype that every device copies: int32 holds uint32, int16 holds uint16.
at::ScalarType torch_type(ElementType type) {
  switch (type) {
    case ElementType::u8:
      return at::kByte;
    case ElementType::u16:
      return at::kShort;
    case ElementType::u32:
    case ElementType::i32:
      return at::kInt;
    case ElementType::i64:
      return at::kLong;
    case ElementType::f16:
      return at::kHalf;
    case ElementType::f32:
      return at::kFloat;
    case ElementType::f64:
      return at::kDouble;
  }
  return at::kFloat;
}

std::vector<std::byte> to_bytes(const at::Tensor& value) {
  const at::Tensor host = value.to(at::kCPU).contiguous();
  std::vector<std::byte> bytes(host.nbytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), host.const_data_ptr(), bytes.size());
  return bytes;
}

bool in_ranges(const Ranges& ranges, int64_t at) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [at](const auto& r) { return at >= r.first && at < r.second; });
}

bool on_route_heads(Field field, const LayerShape& shape) {
  if (field == Field::log_decay) return shape.decay != Columns::query_head;
  if (field_name(field).starts_with("memory_")) return false;
  return field != Field::read_weight && field != Field::query && field != Field::query_rot && field != Field::read_out;
}

}  // namespace

Recorder::Recorder(const RunCapture& capture, const ModelShape& model, int run, trace::Sink& sink,
                   at::Device device)
    : capture_(capture),
      model_(model),
      run_(run),
      sink_(sink),
      device_(device),
      counters_(model.layers.size()) {
  const auto options = at::TensorOptions().dtype(at::kInt).device(device);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerShape& layer = model.layers[i];
    if (layer.route_kind != "sparse") continue;
    counters_[i].ties = at::zeros({layer.route_heads}, options);
    if (capture.layers[i].of(Field::esl) >= 0)
      counters_[i].esl = at::zeros({layer.route_heads, layer.slots}, options);
    if (capture.layers[i].of(Field::selected) >= 0)
      counters_[i].selected = at::zeros({layer.route_heads, layer.slots}, options);
  }
}

void Recorder::begin_segment(int64_t first, int64_t count, bool answer) {
  drop_segment();
  first_ = first;
  count_ = count;
  all_rows_ = capture_.tokens.empty();
  row_list_.clear();
  read_rows_.clear();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + i;
    if (!all_rows_ && in_ranges(capture_.tokens, at)) row_list_.push_back(i);
    const bool query = capture_.read_query && (answer || at == capture_.spec.prompt_tokens - 1);
    if (query || capture_.read_all || in_ranges(capture_.read_at, at)) read_rows_.push_back(i);
  }
  if (all_rows_) return;
  rows_ = at::tensor(row_list_, at::kLong).to(device_);
  std::vector<int64_t> positions;
  for (const int64_t row : row_list_) positions.push_back(first + row);
  const at::Tensor value = at::tensor(positions, at::kLong);
  for (const LayerCapture& layer : capture_.layers) keep(layer.token, value);
}

void Recorder::drop_segment() {
  pending_.clear();
  pending_routes_.clear();
}

void Recorder::keep(int dataset, const at::Tensor& rows) {
  if (dataset < 0 || rows.size(0) == 0) return;
  pending_.push_back(
      {dataset, rows.size(0), rows.to(torch_type(capture_.spec.datasets[size_t(dataset)].type))});
}

bool Recorder::wants(Field field, int layer) const {
  const LayerCapture& capture = capture_.layers[size_t(layer)];
  if (field == Field::read_weight) return capture.of(field) >= 0 && !read_rows_.empty();
  return capture.of(field) >= 0 && (all_rows_ || !row_list_.empty());
}

at::Tensor Recorder::token_rows(const at::Tensor& value) const {
  const at::Tensor first = value.select(0, 0);
  return all_rows_ ? first : first.index_select(0, rows_);
}

at::Tensor Recorder::choose_heads(Field field, int layer, const at::Tensor& value, int64_t axis) const {
  const LayerCapture& capture = capture_.layers[size_t(layer)];
  if (capture.all_heads) return value;
  const auto& heads = on_route_heads(field, model_.layers[size_t(layer)]) ? capture.route_heads : capture.heads;
  return value.index_select(axis, at::tensor(heads, at::kLong).to(value.device()));
}

void Recorder::tell(Field field, int layer, const at::Tensor& value) {
  const LayerCapture& capture = capture_.layers[size_t(layer)];
  const int dataset = capture.of(field);
  if (field == Field::read_weight) {
    at::Tensor rows = value.select(0, 0);
    // Attention that grows: the row is as long as the run is planned to be.
    const int64_t width = capture_.spec.datasets[size_t(dataset)].shape.back();
    if (rows.size(-1) < width) rows = at::constant_pad_nd(rows, {0, width - rows.size(-1)});
    keep(dataset, choose_heads(field, layer, rows, 1));
    std::vector<int64_t> positions;
    for (const int64_t row : read_rows_) positions.push_back(first_ + row);
    keep(capture.read_token, at::tensor(positions, at::kLong));
    return;
  }
  const bool stream = field == Field::hidden || field == Field::mixer_in || field == Field::mixer_out;
  keep(dataset, stream ? token_rows(value) : choose_heads(field, layer, token_rows(value), 1));
}

void Recorder::tell_route(int layer, const Route& route, const at::Tensor& gap) {
  if (wants(Field::route_index, layer)) tell(Field::route_index, layer, route.index);
  if (wants(Field::route_weight, layer)) tell(Field::route_weight, layer, route.weight);
  if (wants(Field::margin, layer)) tell(Field::margin, layer, gap);
  pending_routes_.push_back({layer, route, gap});
}

void Recorder::states(int64_t token, const std::vector<MixerState>& states,
                      const std::vector<const Mixer*>& mixers) {
  for (size_t i = 0; i < mixers.size(); ++i) {
    const LayerCapture& capture = capture_.layers[i];
    if (capture.state_token < 0) continue;
    for (const Field field : kStateFields)
      if (capture.of(field) >= 0)
        keep(capture.of(field), choose_heads(field, int(i), mixers[i]->state_field(states[i], field), 1));
    keep(capture.state_token, at::tensor({token}, at::kLong));
  }
}

void Recorder::logits(const at::Tensor& value) {
  if (!all_rows_ && row_list_.empty()) return;
  keep(capture_.logits, token_rows(value));
  if (capture_.logits_token < 0) return;
  std::vector<int64_t> positions;
  for (const int64_t row : row_list_) positions.push_back(first_ + row);
  keep(capture_.logits_token, at::tensor(positions, at::kLong));
}

void Recorder::count(const PendingRoute& p) {
  Counters& c = counters_[size_t(p.layer)];
  c.ties += (p.gap.select(0, 0) == 0).sum(0).to(at::kInt);
  if (!c.esl.defined() && !c.selected.defined()) return;
  const LayerShape& shape = model_.layers[size_t(p.layer)];
  const at::Tensor index = p.route.index.select(0, 0).contiguous();
  // The counter reads float weights: "not zero" is decided in the run's own dtype, a float64 weight may
  // underflow in float32.
  const at::Tensor weight = p.route.weight.select(0, 0).ne(0).to(at::kFloat).contiguous();
  const auto counter = [](const at::Tensor& t) {
    return t.defined() ? reinterpret_cast<uint32_t*>(t.data_ptr<int32_t>()) : nullptr;
  };
  const kernels::RouteCounterInput in{reinterpret_cast<const uint32_t*>(index.const_data_ptr<int32_t>()),
                                      weight.const_data_ptr<float>(),
                                      nullptr,
                                      index.size(0),
                                      int(shape.route_heads),
                                      int(index.size(2)),
                                      int(shape.slots)};
  const kernels::RouteCounterOutput out{counter(c.esl), counter(c.selected), nullptr};
  if (index.is_cuda())
    kernels::count_routes_cuda(in, out, current_cuda_stream(index.device().index()));
  else
    kernels::count_routes_cpu(in, out);
}

void Recorder::end_segment() {
  for (const PendingRoute& route : pending_routes_) count(route);
  for (const Pending& p : pending_) sink_.append(run_, p.dataset, p.rows, to_bytes(p.value));
  drop_segment();
}

void Recorder::write_counters(const std::vector<const Mixer*>& mixers) {
  for (size_t i = 0; i < counters_.size(); ++i) {
    const auto write = [&](Field field, const at::Tensor& value) {
      const int dataset = capture_.layers[i].of(field);
      if (dataset >= 0) sink_.write(run_, dataset, to_bytes(choose_heads(field, int(i), value, 0)));
    };
    write(Field::esl, counters_[i].esl);
    write(Field::selected, counters_[i].selected);
    write(Field::ties, counters_[i].ties);
    for (const Field field : {Field::skip, Field::state_rate})
      if (capture_.layers[i].of(field) >= 0) write(field, mixers[i]->constant_field(field));
  }
}

int64_t Recorder::ties() const {
  int64_t total = 0;
  for (const Counters& c : counters_)
    if (c.ties.defined()) total += c.ties.sum().item<int64_t>();
  return total;
}

}  // namespace slotscope::engine
