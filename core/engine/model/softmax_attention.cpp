#include "core/engine/model/softmax_attention.h"

#include <algorithm>
#include <cmath>

#include "core/engine/model/blocks.h"

namespace slotscope::engine {
namespace {

// The largest score matrix of one chunk of queries. Bounds memory for any length.
constexpr int64_t kScoreBytes = int64_t(64) << 20;
constexpr int64_t kMostQueries = 256;

class SoftmaxAttention final : public LayerMixer {
 public:
  SoftmaxAttention(const AttentionOptions& options, AttentionWeights weights, const Numerics& numerics)
      : LayerMixer(attention_shape(options), options.layer, numerics), o_(options), w_(std::move(weights)) {}

  MixerState initial_state(int64_t batch) const override {
    const at::Tensor empty = at::zeros({batch, 0, o_.kv_heads, o_.head_dim}, n_.options(n_.compute));
    MixerState state{{empty, empty}, 0};
    if (o_.forget) state.tensors.push_back(at::zeros({batch, 0, o_.heads}, n_.options(at::kDouble)));
    return state;
  }

  at::Tensor forward(const at::Tensor& x, MixerState& state, Observer& observer) const override {
    const int64_t batch = x.size(0), tokens = x.size(1);
    at::Tensor q = split_heads(x, w_.q, w_.q_bias, w_.q_norm, o_.heads);
    at::Tensor k = split_heads(x, w_.k, w_.k_bias, w_.k_norm, o_.kv_heads);
    const at::Tensor v = split_heads(x, w_.v, w_.v_bias, {}, o_.kv_heads);
    tell(observer, Field::query, q);
    tell(observer, Field::key, k);
    tell(observer, Field::value, v);
    if (o_.use_rope) {
      q = rotate(q, state.position, o_.rope, n_.exact);
      k = rotate(k, state.position, o_.rope, n_.exact);
      tell(observer, Field::query_rot, q);
      tell(observer, Field::key_rot, k);
    }
    const at::Tensor keys = at::cat({state.tensors[0], k}, 1), values = at::cat({state.tensors[1], v}, 1);
    const at::Tensor gates = o_.forget ? forget_sums(x, state, observer) : at::Tensor();
    at::Tensor attended = attend(q, keys, values, gates, state.position, observer);
    tell(observer, Field::read_out, attended);
    const int64_t seen = keys.size(1), keep = o_.window > 0 ? std::min(seen, o_.window) : seen;
    state = {{keys.slice(1, seen - keep), values.slice(1, seen - keep)}, state.position + tokens};
    // A slice keeps the whole segment alive: copy what is carried when it is the smaller part.
    if (keep < seen)
      for (at::Tensor& t : state.tensors) t = t.clone();
    if (o_.forget) state.tensors.push_back(gates);
    attended = attended.reshape({batch, tokens, o_.heads * o_.head_dim});
    if (w_.gate.defined()) attended = at::sigmoid(linear_map(x, w_.gate)) * attended;
    return linear_map(attended, w_.o, w_.o_bias);
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
    return rows * (2 * o_.kv_heads * o_.head_dim * int64_t(at::elementSize(n_.compute)) + (o_.forget ? 8 * o_.heads : 0));
  }

  int64_t work_bytes(int64_t tokens, int64_t before) const override {
    const int64_t element = int64_t(at::elementSize(n_.exact));
    const int64_t wide = tokens * (3 * o_.heads + 4 * o_.kv_heads) * o_.head_dim * element;
    const int64_t cache = 2 * state_bytes(before + tokens);  // the old one and its copy with the new tokens
    return wide + cache + 3 * std::min(kScoreBytes, o_.heads * tokens * (before + tokens) * element);
  }

 private:
  at::Tensor split_heads(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias,
                         const at::Tensor& norm, int64_t heads) const {
    at::Tensor y = linear_map(x, w, bias);
    const bool whole = norm.defined() && norm.size(0) != o_.head_dim;
    if (whole && !w_.grouped_norm) y = rms_norm(y, norm, o_.norm_eps, n_.exact);
    y = split(y, heads);
    if (whole && w_.grouped_norm) y = rms_norm(y, norm.view({heads, o_.head_dim}), o_.norm_eps, n_.exact);
    return norm.defined() && !whole ? rms_norm(y, norm, o_.norm_eps, n_.exact) : y;
  }

  // c_s = sum of the log forget gates up to s, for every key that is seen: [B,S,H] in float64, because differences of sums
  // over a long prompt are taken (spec: model-zoo 13.3).
  at::Tensor forget_sums(const at::Tensor& x, const MixerState& state, Observer& observer) const {
    const at::Tensor log_gate = at::log_sigmoid(linear_in(n_.exact, x, w_.forget, w_.forget_bias));
    tell(observer, Field::log_decay, log_gate);
    at::Tensor sums = at::cumsum(log_gate.to(at::kDouble), 1);
    const at::Tensor& before = state.tensors[2];
    if (before.size(1) > 0) sums = sums + before.slice(1, before.size(1) - 1);
    return at::cat({before, sums}, 1);
  }

  // q [B,T,H,d] at positions first.., keys and values [B,S,H_kv,d] ending at the last query's position. ->
  // [B,T,H,d]
  at::Tensor attend(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values,
                    const at::Tensor& gates, int64_t first, Observer& observer) const {
    const int64_t tokens = q.size(1), total = first + tokens, base = total - keys.size(1);
    const int64_t element = int64_t(at::elementSize(n_.exact));
    const int64_t reach = o_.window > 0 ? std::min(keys.size(1), o_.window + kMostQueries) : keys.size(1);
    const int64_t chunk = std::clamp<int64_t>(
        kScoreBytes / std::max<int64_t>(1, q.size(0) * o_.heads * reach * element), 1, kMostQueries);
    const bool read = observer.wants(Field::read_weight, o_.layer) && !observer.read_rows().empty();
    std::vector<at::Tensor> outputs, rows;
    for (int64_t begin = 0; begin < tokens; begin += chunk) {
      const int64_t end = std::min(tokens, begin + chunk);
      const int64_t low = o_.window > 0 ? std::max(base, first + begin - o_.window + 1) : base;
      at::Tensor bias;  // c_t - c_s, [B,H_kv,G,C,S]
      if (gates.defined()) {
        const at::Tensor at_keys = gates.slice(1, 0, first + end - base).transpose(1, 2).unsqueeze(2);
        const at::Tensor at_queries = gates.slice(1, first + begin - base, first + end - base).transpose(1, 2);
        bias = (at_queries.unsqueeze(3) - at_keys).to(n_.exact).unflatten(1, {o_.kv_heads, -1});
      }
      const at::Tensor p = weights_of(q.slice(1, begin, end), keys.slice(1, low - base, first + end - base),
                                      bias, first + begin, low);
      const at::Tensor v =
          values.slice(1, low - base, first + end - base).to(n_.exact).permute({0, 2, 1, 3});
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
  at::Tensor weights_of(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& bias, int64_t first,
                        int64_t low) const {
    const int64_t batch = q.size(0), count = q.size(1), seen = keys.size(1), group = o_.heads / o_.kv_heads;
    const at::Tensor queries =
        q.to(n_.exact).view({batch, count, o_.kv_heads, group, o_.head_dim}).permute({0, 2, 3, 1, 4});
    const at::Tensor scores = at::matmul(queries.reshape({batch, o_.kv_heads, group * count, o_.head_dim}),
                                         keys.to(n_.exact).permute({0, 2, 3, 1})) /
                              std::sqrt(double(o_.head_dim));
    const auto options = q.options().dtype(at::kLong);
    const at::Tensor query_at = at::arange(first, first + count, options).unsqueeze(1);
    const at::Tensor key_at = at::arange(low, low + seen, options).unsqueeze(0);
    at::Tensor hidden = key_at > query_at;
    if (o_.window > 0) hidden = hidden | (key_at <= query_at - o_.window);
    const at::Tensor split_scores = scores.view({batch, o_.kv_heads, group, count, seen});
    return at::softmax(
        (bias.defined() ? split_scores + bias : split_scores).masked_fill(hidden, -INFINITY), -1);
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
};

}  // namespace

LayerShape attention_shape(const AttentionOptions& o) {
  LayerShape shape;
  shape.family = o.family;
  shape.route_kind = o.window > 0 ? "ring" : "append";
  shape.hidden = o.hidden;
  shape.heads = o.heads;
  shape.route_heads = o.kv_heads;
  shape.slots = o.window;
  shape.top_k = 1;
  shape.d_k = shape.d_v = o.head_dim;
  shape.decay = Columns::query_head;
  shape.state_elements = 2 * o.kv_heads * o.head_dim * (o.window > 0 ? o.window : 1);
  shape.fields = {Field::read_weight, Field::query, Field::key, Field::value, Field::read_out};
  if (o.use_rope) shape.fields.insert(shape.fields.end(), {Field::query_rot, Field::key_rot});
  if (o.window > 0) shape.fields.insert(shape.fields.end(), {Field::state_k, Field::state_v});
  if (o.forget) shape.fields.push_back(Field::log_decay);
  shape.note = o.window > 0 ? "window " + std::to_string(o.window) : "full attention";
  shape.note += o.use_rope ? ", RoPE theta " + formats::number_text(o.rope.theta) : ", no RoPE";
  if (o.use_rope && o.rope.width > 0) shape.note += " on " + std::to_string(o.rope.width) + " channels";
  if (o.use_rope && o.rope.scaling != Rope::Scaling::none)
    shape.note += std::string(o.rope.scaling == Rope::Scaling::linear ? ", linear" : ", llama3") + " scaling " +
                  formats::number_text(o.rope.factor);
  if (o.forget) shape.note += ", forget gate";
  shape.attributes = {{"rule", o.window > 0 ? std::string("slot t mod window, weight 1")
                                            : std::string("slot t, weight 1")},
                      {"window", o.window},
                      {"rope", int64_t(o.use_rope)},
                      {"rope_theta", o.rope.theta},
                      {"scale", 1 / std::sqrt(double(o.head_dim))}};
  if (o.rope.width > 0) shape.attributes.emplace_back("rope_width", o.rope.width);
  if (o.rope.scaling != Rope::Scaling::none) {
    shape.attributes.emplace_back("rope_factor", o.rope.factor);
    shape.attributes.emplace_back("rope_scaling", std::string(o.rope.scaling == Rope::Scaling::linear ? "linear" : "llama3"));
  }
  return shape;
}

MemoryCard attention_card(const std::vector<int64_t>& windows) {
  const int64_t window = windows.empty() ? 0 : *std::max_element(windows.begin(), windows.end());
  const std::string content = "(k_t, v_t)", readout = "o_t = softmax(q_t K_t^⊤ / √d) V_t", w = std::to_string(window);
  if (window == 0)
    return {"slot t (append)", "k, v", "none", "softmax over positions", {"r_t = e_t, one new slot", content, "1", readout}};
  const std::string ring = "slot t mod " + w + " (ring)", route = "r_t = e_{t mod " + w + "}";
  if (std::find(windows.begin(), windows.end(), 0) == windows.end())
    return {ring, "k, v", "0 at the slot written, 1 elsewhere", "softmax over filled slots",
            {route, content, "1 − r_t[i]", readout}};
  return {"slot t (append); in sliding layers " + ring, "k, v", "none; in sliding layers 0 at the slot written, 1 elsewhere",
          "softmax over positions or filled slots",
          {"r_t = e_t, one new slot; in sliding layers " + route, content, "1; in sliding layers 1 − r_t[i]", readout}};
}

std::unique_ptr<Mixer> make_softmax_attention(const AttentionOptions& options, AttentionWeights weights,
                                              const Numerics& numerics) {
  return std::make_unique<SoftmaxAttention>(options, std::move(weights), numerics);
}

AttentionOptions attention_options(const formats::AttentionConfig& a, int64_t hidden, int layer) {
  AttentionOptions o;
  o.layer = layer;
  o.hidden = hidden;
  o.heads = a.heads;
  o.kv_heads = a.kv_heads;
  o.head_dim = a.head_dim;
  o.window = a.window;
  o.use_rope = a.use_rope;
  o.rope.theta = a.rope_theta;
  return o;
}

AttentionWeights attention_weights(const std::string& p, const formats::AttentionConfig& a, const Weights& w) {
  AttentionWeights weights{w.get(p + "q_proj.weight"), w.get(p + "k_proj.weight"), w.get(p + "v_proj.weight"),
                           w.get(p + "o_proj.weight")};
  weights.q_bias = w.if_present(a.qkv_bias, p + "q_proj.bias");
  weights.k_bias = w.if_present(a.qkv_bias, p + "k_proj.bias");
  weights.v_bias = w.if_present(a.qkv_bias, p + "v_proj.bias");
  weights.o_bias = w.if_present(a.o_bias, p + "o_proj.bias");
  return weights;
}

}  // namespace slotscope::engine
