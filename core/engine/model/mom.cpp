// Mixture of Memories (spec: model-zoo 14): a router sends every token to a few memories, each a gated delta state over its
// own tokens alone, its convolutions included; a shared memory sees all of them. A slot is a memory.
#include <cmath>

#include "core/engine/model/delta_rule.h"
#include "core/engine/model/families.h"
#include "core/engine/model/slot_memory.h"

namespace slotscope::engine {
namespace {

struct MomConfig : formats::ModelConfig {
  MatrixSizes sizes;  // of one memory
  QkvConfig qkv;
  int64_t memories = 4, topk = 2;  // E, and how many of them a token is sent to
  bool shared = true;              // one more memory that every token is sent to, with weight 1
  bool single = false;             // every memory uses the projections of the shared one
  bool gate = true;

  int64_t slots() const { return memories + shared; }
  LayerShape shape() const;
  void tensors(formats::TensorList& list) const;
  MemoryCard card() const;
};

MomConfig read(const formats::Checkpoint& checkpoint) {
  MomConfig c;
  MatrixSizes& s = c.sizes;
  formats::ModelReader r(checkpoint, c);
  r.read_sizes(2048, 24);
  if (r.cfg.value("attn"))
    r.refuse("attn", "attention layers (a hybrid)", "null",
             "The code that defines this family cannot run its hybrids: there is no reference to be equal to.");
  s.family = "mom";
  s.hidden = c.hidden_size;
  s.heads = s.state_heads = r.read_heads("num_heads", 4);
  s.d_k = r.cfg.get_int("head_dim", 256, 1, 1 << 20);
  s.d_v = r.read_expanded("expand_v", 1, s.d_k);
  s.scale = 1 / std::sqrt(double(s.d_k));
  c.memories = r.cfg.get_int("num_memories", 4, 1, 1 << 12);
  c.topk = r.cfg.get_int("topk", 2, 1, c.memories);
  c.shared = r.cfg.get_bool("shared_mem", true);
  c.single = r.cfg.get_bool("single_kv_proj", false);
  c.gate = r.cfg.get_bool("use_output_gate", true);
  r.cfg.get_choice("mom_backend", "gated_deltanet", {"gated_deltanet"});
  c.qkv = {c.hidden_size, s.heads * s.d_k, s.heads * s.d_k, s.heads * s.d_v};
  c.qkv.read_conv(r, true);
  c.qkv.unit_norm = true;
  if (!c.qkv.conv) r.refuse("use_short_conv", "false", "true: memories without convolutions are not defined");
  r.read_embedding();
  r.read_mlp();
  r.note_ignored({"capacity", "aux_loss_scale", "use_layer_wise_balance"});
  r.finish();
  return c;
}

LayerShape MomConfig::shape() const {
  LayerShape shape = matrix_shape(sizes);
  shape.route_kind = "sparse";
  shape.route_heads = 1;
  shape.slots = slots();
  shape.top_k = topk + shared;
  shape.strength = Columns::selected;
  shape.state_elements *= slots();
  shape.fields = {Field::route_index, Field::route_weight, Field::write_strength, Field::state,
                  Field::esl,         Field::selected,     Field::ties,           Field::margin,
                  Field::read_out,    Field::memory_query, Field::memory_key,     Field::memory_value,
                  Field::memory_decay, Field::memory_strength};
  shape.note = std::to_string(topk) + " of " + std::to_string(memories) + " memories" + (shared ? " and a shared one" : "");
  shape.attributes = {{"slot", std::string("memory: a gated delta state of every head")},
                      {"scale", sizes.scale},
                      {"delta", int64_t(1)},
                      {"readout", std::string("inner products with the query, weighted by the route")},
                      {"shared_slot", shared ? memories : int64_t(-1)},
                      {"write_strength", std::string("beta inside the memory, the mean over its heads")},
                      {"keep", std::string("of a routed memory exp(g) (I - beta k k^T) per head, else 1")}};
  return shape;
}

void MomConfig::tensors(formats::TensorList& list) const {
  const int64_t D = sizes.hidden, H = sizes.heads, k = H * sizes.d_k, v = H * sizes.d_v;
  list.add("q_proj.weight", {k, D}, "H d_k, D");
  list.add("gate.weight", {memories, D}, "E, D");
  qkv.conv_tensors(list);
  const auto memory = [&](const std::string& key, const std::string& value, const std::string& beta, const std::string& decay) {
    list.add(key + ".weight", {k, D}, "H d_k, D");
    list.add(value + ".weight", {v, D}, "H d_v, D");
    list.add(beta + ".weight", {H, D}, "H, D");
    list.add(decay + ".weight", {H, D}, "H, D");
  };
  for (int64_t e = 0; e < memories && !single; ++e) {
    const std::string i = std::to_string(e);
    memory("k_proj." + i, "v_proj." + i, "b_proj." + i, "a_proj." + i);
  }
  if (single || shared) memory("shared_k", "shared_v", "shared_b", "shared_a");
  list.add("A_log", {H}, "H");
  list.add("dt_bias", {H}, "H");
  list.add_if(gate, "g_proj.weight", {v, D}, "H d_v, D");
  list.add("o_norm.weight", {sizes.d_v}, "d_v");
  list.add("o_proj.weight", {D, v}, "D, H d_v");
}

MemoryCard MomConfig::card() const {
  const std::string router = "top-" + std::to_string(topk) + " of " + std::to_string(memories) + " memories, softmax";
  return {shared ? router + ", and a shared one" : router, "in a memory (v - S^T k)_i k, strength beta",
          "in a routed memory scalar per head, else none", "weighted sum of the routed memories",
          {"r_t = norm(top_k(softmax(W_r x_t))), shared: 1",
           "β_t (v_t − α_t S_{t−1}^e k_t) k_t^⊤ of each memory e with r_t[e] ≠ 0",
           "α_t = exp g_t where written, else 1",
           "o_t = Σ_e r_t[e] S_t^e q_t / √d"}};
}

class Mom final : public MatrixMixer {
 public:
  Mom(const MomConfig& c, int layer, const std::string& p, const Weights& w)
      : MatrixMixer(c.shape(), layer, w.numerics(), c.slots() * c.qkv.tail_elements()),
        c_(c),
        router_(w.router(p + "gate.weight")),
        a_log_(w.exact(p + "A_log")),
        dt_bias_(w.exact(p + "dt_bias")),
        gate_(w.if_present(c.gate, p + "g_proj.weight")),
        norm_(w.exact(p + "o_norm.weight")),
        out_(w.get(p + "o_proj.weight")) {
    for (int64_t e = 0; e < c.slots(); ++e) {
      if (e > 0 && c.single) {
        memories_.push_back(memories_[0]);
        continue;
      }
      const bool common = c.single || e == c.memories;
      const auto name = [&](const std::string& stream) {
        return common ? "shared_" + stream : stream + "_proj." + std::to_string(e);
      };
      const auto weight = [&](const std::string& stream) { return p + name(stream) + ".weight"; };
      memories_.push_back({e == 0 ? QkvProjection(c.qkv, p, w, {name("k"), name("v")})
                                  : memories_[0].qkv.with(w.get(weight("k")), w.get(weight("v"))),
                           w.router(weight("b")), w.router(weight("a"))});
    }
  }

  // {matrices [B,M,H,d_v,d_k], tails of the three convolutions [B,M,K-1,width]}
  MixerState initial_state(int64_t batch) const override {
    const MatrixSizes& s = c_.sizes;
    MixerState state;
    state.tensors = {at::zeros({batch, c_.slots(), s.heads, s.d_v, s.d_k}, n_.options(n_.exact))};
    for (const at::Tensor& tail : memories_[0].qkv.initial_tails(batch, n_))
      state.tensors.push_back(tail.unsqueeze(1).repeat({1, c_.slots(), 1, 1}));
    return state;
  }

  at::Tensor forward(const at::Tensor& x, MixerState& state, Observer& observer) const override {
    const MatrixSizes& s = c_.sizes;
    const int64_t batch = x.size(0), tokens = x.size(1);
    const Route route = choose(x, observer);
    for (at::Tensor& t : state.tensors) t = t.clone();  // memories that no token is sent to stay as they are
    at::Tensor o = at::zeros({batch, tokens, s.heads, s.d_v}, n_.options(n_.exact));
    at::Tensor strength = at::zeros({batch, tokens, c_.slots()}, n_.options(n_.exact));
    Inside inside = told_inside(batch * tokens * shape_.top_k, observer);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t e = 0; e < c_.slots(); ++e) {
        const at::Tensor weight =
            at::where(route.index[b] == e, route.weight[b].to(n_.exact), 0.0).sum({-2, -1});  // [T]
        const at::Tensor rows = at::nonzero(weight).squeeze(1);  // in the order of time
        if (rows.size(0) == 0) continue;
        inside.place = (b * tokens + rows) * shape_.top_k +
                       (route.index[b].squeeze(1) == e).to(at::kLong).argmax(-1).index_select(0, rows);
        const at::Tensor y = visit(e, x[b].index_select(0, rows).unsqueeze(0), state, b, rows, strength, inside);
        const at::Tensor share = weight.index_select(0, rows).view({-1, 1, 1});
        o[b].index_copy_(0, rows, o[b].index_select(0, rows) + share * y);
      }
    if (observer.wants(Field::write_strength, layer_)) {
      const at::Tensor index = route.index.to(at::kLong);
      const at::Tensor beta = at::gather(strength.unsqueeze(2), 3, index.clamp_min(0));
      observer.tell(Field::write_strength, layer_, at::where(index < 0, 0.0, beta));
    }
    tell_inside(inside, batch, tokens, observer);
    tell(observer, Field::read_out, o);
    state.position += tokens;
    return gated_output(x, o, norm_, c_.norm_eps, gate_, out_);
  }

  at::Tensor state_field(const MixerState& state, Field field) const override {
    return field == Field::state ? state.tensors[0].unsqueeze(1) : at::Tensor();
  }

  int64_t work_bytes(int64_t tokens, int64_t before) const override {
    return MatrixMixer::work_bytes(tokens, before) * 2 + tokens * (8 * shape_.top_k + c_.slots()) * element();
  }

 private:
  struct Memory {
    QkvProjection qkv;
    at::Tensor beta, decay;
  };

  // What each token asked for and wrote in each of its memories, [B T K, H, ...]; undefined: nobody wants it.
  struct Inside {
    at::Tensor query, key, value, decay, strength;
    at::Tensor place;  // rows of the present memory's tokens
  };
  static constexpr Field kInside[] = {Field::memory_query, Field::memory_key, Field::memory_value, Field::memory_decay,
                                      Field::memory_strength};

  Inside told_inside(int64_t rows, Observer& observer) const {
    if (std::none_of(std::begin(kInside), std::end(kInside), [&](Field f) { return observer.wants(f, layer_); })) return {};
    const MatrixSizes& s = c_.sizes;
    const auto zeros = [&](at::IntArrayRef shape) { return at::zeros(shape, n_.options(n_.exact)); };
    return {zeros({rows, s.heads, s.d_k}), zeros({rows, s.heads, s.d_k}), zeros({rows, s.heads, s.d_v}),
            zeros({rows, s.heads}), zeros({rows, s.heads}), {}};
  }

  void tell_inside(const Inside& inside, int64_t batch, int64_t tokens, Observer& observer) const {
    if (!inside.query.defined()) return;
    const at::Tensor* values[] = {&inside.query, &inside.key, &inside.value, &inside.decay, &inside.strength};
    for (size_t i = 0; i < std::size(kInside); ++i)  // -> [B,T,H,K,...]
      tell(observer, kInside[i], values[i]->unflatten(0, {batch, tokens, shape_.top_k}).transpose(2, 3));
  }

  // Softmax over the memories, the best of them with weights that sum to 1; the shared one last (spec: 14.3 step 1).
  Route choose(const at::Tensor& x, Observer& observer) const {
    const at::Tensor score = at::softmax(linear_in(n_.router, x, router_), -1).unsqueeze(2);  // [B,T,1,E]
    const Selection best = select_slots(score, c_.topk);
    Route route{best.index, at::gather(score, -1, best.index.to(at::kLong))};
    route.weight = route.weight / route.weight.sum(-1, true);
    if (c_.shared) {
      const at::Tensor last = route.index.slice(-1, 0, 1);
      route = {at::cat({route.index, at::full_like(last, c_.memories)}, -1),
               at::cat({route.weight, at::ones_like(last, route.weight.options())}, -1)};
    }
    route = observer.edit_route(layer_, route);
    observer.tell_route(layer_, route, best.gap);
    return route;
  }

  // The tokens x [1,n,D] of memory e, at `rows` of the segment: its state moves on. -> [n,H,d_v]
  at::Tensor visit(int64_t e, const at::Tensor& x, MixerState& state, int64_t b, const at::Tensor& rows,
                   at::Tensor& strength, Inside& inside) const {
    const MatrixSizes& s = c_.sizes;
    const Memory& memory = memories_[size_t(e)];
    const auto part = [&](size_t i) { return state.tensors[i][b][e].unsqueeze(0); };
    std::vector<at::Tensor> tails = {part(1), part(2), part(3)};
    MatrixStateInput in = delta_input(memory.qkv.activated(x, tails), s.heads, s, n_.exact);
    in.strength = delta_strength(x, memory.beta, false, n_.exact);
    in.log_decay = head_log_decay(x, memory.decay, a_log_, dt_bias_, n_.exact);
    in.state = part(0);
    if (inside.query.defined()) {
      const auto put = [&](at::Tensor& into, const at::Tensor& value) {
        into.index_copy_(0, inside.place, value[0].to(into.scalar_type()));
      };
      put(inside.query, in.query), put(inside.key, in.key), put(inside.value, in.value);
      put(inside.decay, in.log_decay), put(inside.strength, in.strength);
    }
    const MatrixStateOutput out = matrix_state_scan(in);
    state.tensors[0][b][e].copy_(out.state[0]);
    for (size_t i = 0; i < 3; ++i) state.tensors[i + 1][b][e].copy_(tails[i][0]);
    strength[b].select(1, e).index_copy_(0, rows, in.strength.mean(-1)[0]);
    return out.output[0];
  }

  MomConfig c_;
  at::Tensor router_;
  std::vector<Memory> memories_;
  at::Tensor a_log_, dt_bias_, gate_, norm_, out_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_mom(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "fla", "mom");
  return std::make_unique<FamilyOf<MomConfig, Mom>>(read(checkpoint));
}

}  // namespace slotscope::engine
