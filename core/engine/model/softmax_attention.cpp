#include "core/engine/model/softmax_attention.h"

#include <algorithm>
#include <cmath>

#include "core/engine/model/blocks.h"

namespace slotscope::engine {
namespace {

// The largest score matrix of one chunk of queries. Bounds memory for any length.
constexpr int64_t kScoreBytes = int64_t(64) << 20;
constexpr int64_t kMostQueries = 256;

class SoftmaxAttention final : public Mixer {
 public:
  SoftmaxAttention(const AttentionOptions& options, AttentionWeights weights, const Numerics& numerics)
      : o_(options), w_(std::move(weights)), numerics_(numerics) {
    shape_.family = "attention";
    shape_.route_kind = o_.window > 0 ? "ring" : "append";
    shape_.hidden = o_.hidden;
    shape_.heads = o_.heads;
    shape_.route_heads = o_.kv_heads;
    shape_.slots = o_.window;
    shape_.top_k = 1;
    shape_.d_k = shape_.d_v = o_.head_dim;
    shape_.fields = {Field::read_weight, Field::query, Field::key, Field::value};
    if (o_.use_rope) shape_.fields.insert(shape_.fields.end(), {Field::query_rot, Field::key_rot});
    if (o_.window > 0) shape_.fields.insert(shape_.fields.end(), {Field::state_k, Field::state_v});
    shape_.note = o_.window > 0 ? "window " + std::to_string(o_.window) : "full attention";
    char theta[32];
    std::snprintf(theta, sizeof theta, "%g", o_.rope_theta);
    shape_.note += o_.use_rope ? std::string(", RoPE theta ") + theta : ", no RoPE";
    shape_.attributes = {{"rule", o_.window > 0 ? std::string("slot t mod window, weight 1")
                                                : std::string("slot t, weight 1")},
                         {"window", o_.window},
                         {"rope", int64_t(o_.use_rope)},
                         {"rope_theta", o_.rope_theta},
                         {"scale", 1 / std::sqrt(double(o_.head_dim))}};
  }

  const LayerShape& shape() const override { return shape_; }

  MixerState initial_state(int64_t batch) const override {
    const at::Tensor empty =
        at::zeros({batch, 0, o_.kv_heads, o_.head_dim}, numerics_.options(numerics_.compute));
    return {{empty, empty}, 0};
  }

  at::Tensor forward(const at::Tensor& x, MixerState& state, Observer& observer) const override {
    const int64_t batch = x.size(0), tokens = x.size(1);
    at::Tensor q = split_heads(x, w_.q, w_.q_bias, w_.q_norm, o_.heads);
    at::Tensor k = split_heads(x, w_.k, w_.k_bias, w_.k_norm, o_.kv_heads);
    const at::Tensor v = split_heads(x, w_.v, w_.v_bias, {}, o_.kv_heads);
    if (observer.wants(Field::query, o_.layer)) observer.tell(Field::query, o_.layer, q);
    if (observer.wants(Field::key, o_.layer)) observer.tell(Field::key, o_.layer, k);
    if (observer.wants(Field::value, o_.layer)) observer.tell(Field::value, o_.layer, v);
    if (o_.use_rope) {
      q = rope(q, state.position, o_.rope_theta, numerics_.exact);
      k = rope(k, state.position, o_.rope_theta, numerics_.exact);
      if (observer.wants(Field::query_rot, o_.layer)) observer.tell(Field::query_rot, o_.layer, q);
      if (observer.wants(Field::key_rot, o_.layer)) observer.tell(Field::key_rot, o_.layer, k);
    }
    const at::Tensor keys = at::cat({state.tensors[0], k}, 1), values = at::cat({state.tensors[1], v}, 1);
    const at::Tensor attended = attend(q, keys, values, state.position, observer);
    const int64_t seen = keys.size(1), keep = o_.window > 0 ? std::min(seen, o_.window) : seen;
    state = {{keys.slice(1, seen - keep), values.slice(1, seen - keep)}, state.position + tokens};
    // A slice keeps the whole segment alive: copy what is carried when it is the smaller part.
    if (keep < seen)
      for (at::Tensor& t : state.tensors) t = t.clone();
    return linear_map(attended.reshape({batch, tokens, o_.heads * o_.head_dim}), w_.o);
  }

  at::Tensor state_field(const MixerState& state, Field field) const override {
    if (o_.window == 0 || (field != Field::state_k && field != Field::state_v)) return {};
    const at::Tensor& rows = state.tensors[field == Field::state_k ? 0 : 1];
    at::Tensor ring = at::zeros({rows.size(0), o_.window, o_.kv_heads, o_.head_dim}, rows.options());
    const at::Tensor slot =
        at::arange(state.position - rows.size(1), state.position, rows.options().dtype(at::kLong))
            .remainder(o_.window);
    return ring.index_copy(1, slot, rows).transpose(1, 2);
  }

  int64_t state_bytes(int64_t tokens) const override {
    const int64_t rows = o_.window > 0 ? std::min(tokens, o_.window) : tokens;
    return 2 * rows * o_.kv_heads * o_.head_dim * int64_t(at::elementSize(numerics_.compute));
  }

  int64_t work_bytes(int64_t tokens, int64_t before) const override {
    const int64_t element = int64_t(at::elementSize(numerics_.exact));
    const int64_t wide = tokens * (3 * o_.heads + 4 * o_.kv_heads) * o_.head_dim * element;
    const int64_t cache = 2 * state_bytes(before + tokens);  // the old one and its copy with the new tokens
    return wide + cache + 3 * std::min(kScoreBytes, o_.heads * tokens * (before + tokens) * element);
  }

 private:
  at::Tensor split_heads(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias,
                         const at::Tensor& norm, int64_t heads) const {
    const at::Tensor y = linear_map(x, w, bias).view({x.size(0), x.size(1), heads, o_.head_dim});
    return norm.defined() ? rms_norm(y, norm, o_.norm_eps, numerics_.exact) : y;
  }

  // q [B,T,H,d] at positions first.., keys and values [B,S,H_kv,d] ending at the last query's position. ->
  // [B,T,H,d]
  at::Tensor attend(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, int64_t first,
                    Observer& observer) const {
    const int64_t tokens = q.size(1), total = first + tokens, base = total - keys.size(1);
    const int64_t element = int64_t(at::elementSize(numerics_.exact));
    const int64_t reach = o_.window > 0 ? std::min(keys.size(1), o_.window + kMostQueries) : keys.size(1);
    const int64_t chunk = std::clamp<int64_t>(
        kScoreBytes / std::max<int64_t>(1, q.size(0) * o_.heads * reach * element), 1, kMostQueries);
    const bool read = observer.wants(Field::read_weight, o_.layer) && !observer.read_rows().empty();
    std::vector<at::Tensor> outputs, rows;
    for (int64_t begin = 0; begin < tokens; begin += chunk) {
      const int64_t end = std::min(tokens, begin + chunk);
      const int64_t low = o_.window > 0 ? std::max(base, first + begin - o_.window + 1) : base;
      const at::Tensor p = weights_of(q.slice(1, begin, end), keys.slice(1, low - base, first + end - base),
                                      first + begin, low);
      const at::Tensor v =
          values.slice(1, low - base, first + end - base).to(numerics_.exact).permute({0, 2, 1, 3});
      const at::Tensor o =
          at::matmul(p.flatten(2, 3), v).view({q.size(0), o_.kv_heads, -1, end - begin, o_.head_dim});
      outputs.push_back(o.permute({0, 3, 1, 2, 4}).flatten(2, 3).to(q.scalar_type()));
      if (!read) continue;
      for (const int64_t row : observer.read_rows())
        if (row >= begin && row < end)
          rows.push_back(read_row(p.select(3, row - begin).flatten(1, 2), low, first + row, total));
    }
    if (read) observer.tell(Field::read_weight, o_.layer, at::stack(rows, 1));
    return outputs.size() == 1 ? outputs.front() : at::cat(outputs, 1);
  }

  // Softmax weights [B,H_kv,G,C,S] of C queries starting at position `first` over S keys starting at position
  // `low`.
  at::Tensor weights_of(const at::Tensor& q, const at::Tensor& keys, int64_t first, int64_t low) const {
    const int64_t batch = q.size(0), count = q.size(1), seen = keys.size(1), group = o_.heads / o_.kv_heads;
    const at::Tensor queries =
        q.to(numerics_.exact).view({batch, count, o_.kv_heads, group, o_.head_dim}).permute({0, 2, 3, 1, 4});
    const at::Tensor scores = at::matmul(queries.reshape({batch, o_.kv_heads, group * count, o_.head_dim}),
                                         keys.to(numerics_.exact).permute({0, 2, 3, 1})) /
                              std::sqrt(double(o_.head_dim));
    const auto options = q.options().dtype(at::kLong);
    const at::Tensor query_at = at::arange(first, first + count, options).unsqueeze(1);
    const at::Tensor key_at = at::arange(low, low + seen, options).unsqueeze(0);
    at::Tensor hidden = key_at > query_at;
    if (o_.window > 0) hidden = hidden | (key_at <= query_at - o_.window);
    return at::softmax(scores.view({batch, o_.kv_heads, group, count, seen}).masked_fill(hidden, -INFINITY),
                       -1);
  }

  // p [B,H,S] over keys from position `low` -> one row on the slot axis: position mod W, or the position
  // itself.
  at::Tensor read_row(const at::Tensor& p, int64_t low, int64_t token, int64_t total) const {
    const int64_t oldest = o_.window > 0 ? std::max(low, token - o_.window + 1) : low;
    at::Tensor position = at::arange(oldest, token + 1, p.options().dtype(at::kLong));
    if (o_.window > 0) position = position.remainder(o_.window);
    const at::Tensor row = at::zeros({p.size(0), p.size(1), o_.window > 0 ? o_.window : total}, p.options());
    return row.index_copy(2, position, p.slice(2, oldest - low, token + 1 - low));
  }

  AttentionOptions o_;
  AttentionWeights w_;
  Numerics numerics_;
  LayerShape shape_;
};

}  // namespace

std::unique_ptr<Mixer> make_softmax_attention(const AttentionOptions& options, AttentionWeights weights,
                                              const Numerics& numerics) {
  return std::make_unique<SoftmaxAttention>(options, std::move(weights), numerics);
}

}  // namespace slotscope::engine
