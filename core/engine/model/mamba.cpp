// Mamba, the first (spec: model-zoo 8): channel c keeps N states of its own, with a step size per channel. No MLP.
#include <cmath>

#include "core/engine/model/families.h"
#include "core/engine/model/matrix_state.h"

namespace slotscope::engine {
namespace {

struct MambaConfig : formats::ModelConfig {
  MatrixSizes sizes;  // one head whose I channels are its slots: d_v = I, d_k = N
  int64_t rank = 0;   // R
  int64_t taps = 4;
  bool bias = false, conv_bias = true;

  LayerShape shape() const;
  void tensors(formats::TensorList& list) const;
  MemoryCard card() const;
};

MambaConfig read(const formats::Checkpoint& checkpoint) {
  MambaConfig c;
  MatrixSizes& s = c.sizes;
  c.names = mamba_names(checkpoint);
  formats::ModelReader r(checkpoint, c);
  r.read_sizes(2048, 48, 1e-5, "layer_norm_epsilon");
  r.cfg.get_choice("hidden_act", "silu", {"silu", "swish"});
  s.family = "mamba";
  s.hidden = c.hidden_size;
  s.heads = s.state_heads = 1;
  s.d_k = r.cfg.get_int("state_size", 16, 1, 1 << 16);
  s.d_v = r.read_expanded("expand", 2, c.hidden_size);
  if (r.cfg.value("intermediate_size")) s.d_v = r.cfg.get_int("intermediate_size", s.d_v, 1, 1 << 24);
  const char* key = r.cfg.value("dt_rank") ? "dt_rank" : "time_step_rank";
  const nlohmann::json* rank = r.cfg.value(key);
  c.rank = (c.hidden_size + 15) / 16;
  if (rank && !(rank->is_string() && *rank == "auto"))
    c.rank = r.cfg.get_int(key, c.rank, 1, 1 << 20);
  else
    r.cfg.set_row("dt_rank", std::to_string(c.rank), "rule: ceil(hidden_size / 16)");
  c.taps = r.cfg.get_int("conv_kernel", 4, 1, 1024);
  c.bias = r.cfg.get_bool("use_bias", false);
  c.conv_bias = r.cfg.get_bool("use_conv_bias", true);
  r.read_embedding(r.cfg.has("layer_norm_epsilon"));
  r.note_ignored({"residual_in_fp32", "dt_scale"});
  r.finish();
  return c;
}

LayerShape MambaConfig::shape() const {
  LayerShape shape = matrix_shape(sizes);
  shape.strength = Columns::slot;
  shape.fields.insert(shape.fields.end(), {Field::write_strength, Field::skip, Field::state_rate});
  shape.note += ", state-space model";
  shape.attributes.emplace_back("skip", int64_t(1));
  shape.attributes.emplace_back("decay", std::string("channel and state"));
  shape.attributes.emplace_back("keep", std::string("exp(strength A) per channel and state, A = -exp(A_log)"));
  return shape;
}

void MambaConfig::tensors(formats::TensorList& list) const {
  const int64_t I = sizes.d_v, N = sizes.d_k, D = sizes.hidden, R = rank;
  list.add("in_proj.weight", {2 * I, D}, "2I, D");
  list.add_if(bias, "in_proj.bias", {2 * I}, "2I");
  list.add("conv1d.weight", {I, 1, taps}, "I, 1, K");
  list.add_if(conv_bias, "conv1d.bias", {I}, "I");
  list.add("x_proj.weight", {R + 2 * N, I}, "R + 2N, I");
  list.add("dt_proj.weight", {I, R}, "I, R");
  list.add("dt_proj.bias", {I}, "I");
  list.add("A_log", {I, N}, "I, N");
  list.add("D", {I}, "I");
  list.add("out_proj.weight", {D, I}, "D, I");
  list.add_if(bias, "out_proj.bias", {D}, "D");
}

MemoryCard MambaConfig::card() const {
  return {"all channels, strength dt", "u_c B", "per channel and state, exp(dt A)", "inner product with C",
          {"r_t[i] = 1",
           "Δ_t[c] u_t[c] B_t",
           "S_t[c] = exp(Δ_t[c] A[c]) ⊙ S_{t−1}[c] + Δ_t[c] u_t[c] B_t",
           "y_t[c] = S_t[c] C_t + D[c] u_t[c]"}};
}

class Mamba final : public MatrixMixer {
 public:
  Mamba(const MambaConfig& c, int layer, const std::string& p, const Weights& w)
      : MatrixMixer(c.shape(), layer, w.numerics(), (c.taps - 1) * c.sizes.d_v),
        c_(c),
        in_(w.get(p + "in_proj.weight")),
        in_bias_(w.if_present(c.bias, p + "in_proj.bias")),
        conv_{w.exact(p + "conv1d.weight"), w.exact_if(c.conv_bias, p + "conv1d.bias")},
        x_(w.get(p + "x_proj.weight")),
        dt_(w.router(p + "dt_proj.weight")),
        dt_bias_(w.exact(p + "dt_proj.bias")),
        a_(-at::exp(w.exact(p + "A_log"))),
        d_(w.exact(p + "D")),
        out_(w.get(p + "out_proj.weight")),
        out_bias_(w.if_present(c.bias, p + "out_proj.bias")) {}

  at::Tensor constant_field(Field field) const override {
    return field == Field::skip ? d_.unsqueeze(0) : field == Field::state_rate ? a_.unsqueeze(0) : at::Tensor();
  }

  MixerState initial_state(int64_t batch) const override {
    return {{empty_matrix(batch), at::zeros({batch, c_.taps - 1, c_.sizes.d_v}, n_.options(n_.compute))}, 0};
  }

  at::Tensor forward(const at::Tensor& x, MixerState& state, Observer& observer) const override {
    const int64_t inner = c_.sizes.d_v, states = c_.sizes.d_k, tokens = x.size(1);
    at::Tensor matrix = state.tensors[0], tail = state.tensors[1];
    const auto parts = linear_map(x, in_, in_bias_).split_with_sizes({inner, inner}, -1);
    const at::Tensor u = conv_(parts[0], tail);
    const auto steps = linear_map(u, x_).split_with_sizes({c_.rank, states, states}, -1);
    const at::Tensor dt = at::softplus(linear_in(n_.exact, steps[0], dt_) + dt_bias_);  // [B,T,I]
    // To the scan every channel is a head of one value channel; B and C are shared by all of them.
    MatrixStateInput in;
    in.key = steps[1].unsqueeze(2);
    in.query = steps[2].unsqueeze(2);
    in.value = u.unsqueeze(-1);
    in.strength = dt;
    in.state = matrix.view({x.size(0), inner, 1, states});
    tell(observer, Field::query, in.query);
    tell(observer, Field::key, in.key);
    tell(observer, Field::value, u.unsqueeze(2));
    tell(observer, Field::write_strength, dt.unsqueeze(2));
    std::vector<at::Tensor> outputs;
    for (int64_t begin = 0; begin < tokens; begin += piece()) {  // [T,I,N] decays: in bounded pieces
      const int64_t end = std::min(tokens, begin + piece());
      const auto cut = [&](const at::Tensor& t) { return t.slice(1, begin, end); };
      MatrixStateInput part{cut(in.query), cut(in.key), cut(in.value), cut(dt).unsqueeze(-1) * a_, cut(dt)};
      part.state = in.state;
      const MatrixStateOutput out = matrix_state_scan(part);
      in.state = out.state;
      outputs.push_back(out.output.squeeze(-1));
    }
    state = {{in.state.view({x.size(0), 1, inner, states}), tail}, state.position + tokens};
    const at::Tensor read = at::cat(outputs, 1) + d_ * u.to(n_.exact);
    tell(observer, Field::read_out, read.unsqueeze(2));
    const at::Tensor y = read * at::silu(parts[1]);
    return linear_map(y.to(n_.compute), out_, out_bias_);
  }

  int64_t work_bytes(int64_t tokens, int64_t before) const override {
    return MatrixMixer::work_bytes(tokens, before) + 3 * piece() * c_.sizes.d_v * c_.sizes.d_k * element();
  }

 private:
  // Tokens per scan; on a GPU a scan has to be worth its start.
  int64_t piece() const { return n_.device.is_cpu() ? 64 : 256; }

  MambaConfig c_;
  at::Tensor in_, in_bias_;
  ShortConv conv_;
  at::Tensor x_, dt_, dt_bias_, a_, d_, out_, out_bias_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_mamba(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "fla", "mamba");
  return std::make_unique<FamilyOf<MambaConfig, Mamba>>(read(checkpoint));
}

}  // namespace slotscope::engine
