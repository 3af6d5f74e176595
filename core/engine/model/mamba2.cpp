// Mamba-2 (spec: model-zoo 7): a matrix state per head, decayed and written by one step size dt. FLA and Hugging Face
// folders; no MLP.
#include <cmath>

#include "core/engine/model/families.h"
#include "core/engine/model/matrix_state.h"

namespace slotscope::engine {
namespace {

struct Mamba2Config : formats::ModelConfig {
  MatrixSizes sizes;        // H heads of P = d_v channels over N = d_k states
  int64_t inner = 0;        // I = H P
  int64_t groups = 1;       // heads of B and C; consecutive heads share one
  int64_t norm_groups = 1;  // of the gate norm
  int64_t taps = 4;
  bool bias = false, conv_bias = true, gate_norm = true, norm_first = false, wide_d = false;
  double dt_low = 0, dt_high = INFINITY;

  int64_t conv_width() const { return inner + 2 * groups * sizes.d_k; }
  LayerShape shape() const;
  void tensors(formats::TensorList& list) const;
  MemoryCard card() const;
};

// dt_limit, or its name in Hugging Face folders and older FLA: two numbers, infinity as a token or {"__float__": ...}.
void read_limits(formats::ModelReader& r, Mamba2Config& c) {
  const char* key = r.cfg.value("dt_limit") ? "dt_limit" : "time_step_limit";
  const nlohmann::json* limit = r.cfg.value(key);
  if (!limit) return;
  const auto number = [&](const nlohmann::json& v) {
    if (v.is_number()) return v.get<double>();
    if (v.is_object() && v.contains("__float__") && v["__float__"] == "Infinity") return double(INFINITY);
    return double(NAN);
  };
  if (limit->is_array() && limit->size() == 2) c.dt_low = number((*limit)[0]), c.dt_high = number((*limit)[1]);
  if (!limit->is_array() || limit->size() != 2 || !(c.dt_low >= 0 && c.dt_low <= c.dt_high))
    r.refuse(key, "no pair of numbers in order", "[least, most], 0 or more, most may be Infinity");
  r.cfg.set_row(key, formats::number_text(c.dt_low) + ", " + formats::number_text(c.dt_high), "config.json");
}

Mamba2Config read(const formats::Checkpoint& checkpoint) {
  Mamba2Config c;
  MatrixSizes& s = c.sizes;
  c.names = mamba_names(checkpoint);
  formats::ModelReader r(checkpoint, c);
  r.read_sizes(2048, 48, 1e-5, "layer_norm_epsilon");
  r.cfg.get_choice("hidden_act", "silu", {"silu", "swish"});
  const bool hf = r.cfg.has("layer_norm_epsilon");
  s.family = "mamba2";
  s.hidden = c.hidden_size;
  s.d_v = r.cfg.get_int("head_dim", 64, 1, 1 << 16);
  s.d_k = r.cfg.get_int("state_size", 128, 1, 1 << 16);
  c.inner = r.read_expanded("expand", 2, c.hidden_size);
  if (c.inner % s.d_v)
    r.refuse("head_dim", std::to_string(s.d_v), "a divisor of the inner width " + std::to_string(c.inner));
  s.heads = s.state_heads = c.inner / s.d_v;
  if (r.cfg.value("num_heads") && r.cfg.get_int("num_heads", s.heads, 1, 1 << 24) != s.heads)
    r.refuse("num_heads", std::to_string(r.cfg.get_int("num_heads", 1)),
             std::to_string(s.heads) + " = expand x hidden_size / head_dim");
  c.groups = r.cfg.get_int("n_groups", hf ? 8 : 1, 1, 1 << 16);
  if (s.heads % c.groups || c.inner % c.groups)
    r.refuse("n_groups", std::to_string(c.groups), "a divisor of the " + std::to_string(s.heads) + " heads");
  // Hugging Face and FLA until 2026-04 (rms_norm, time_step_limit): the gate norm goes over the full width.
  const bool old = hf || r.cfg.has("rms_norm") || r.cfg.has("time_step_limit");
  c.norm_groups = old ? 1 : c.groups;
  c.taps = r.cfg.get_int("conv_kernel", 4, 1, 1024);
  c.bias = r.cfg.get_bool("use_bias", false);
  c.conv_bias = r.cfg.get_bool("use_conv_bias", true);
  c.gate_norm = old ? true : r.cfg.get_bool("rmsnorm", true);
  c.norm_first = r.cfg.get_bool("norm_before_gate", false);
  c.wide_d = r.cfg.get_bool("D_has_hdim", false);
  read_limits(r, c);
  r.read_embedding();
  r.note_ignored({"chunk_size", "residual_in_fp32", "rms_norm", "time_step_rank"});
  r.finish();
  return c;
}

LayerShape Mamba2Config::shape() const {
  LayerShape shape = matrix_shape(sizes);
  shape.fields.insert(shape.fields.end(), {Field::log_decay, Field::write_strength, Field::skip});
  shape.note += ", state-space model";
  shape.attributes.emplace_back("skip", int64_t(1));
  return shape;
}

void Mamba2Config::tensors(formats::TensorList& list) const {
  const MatrixSizes& s = sizes;
  const int64_t in = inner + conv_width() + s.heads;
  list.add("in_proj.weight", {in, s.hidden}, "2I + 2gN + H, D");
  list.add_if(bias, "in_proj.bias", {in}, "2I + 2gN + H");
  list.add("conv1d.weight", {conv_width(), 1, taps}, "I + 2gN, 1, K");
  list.add_if(conv_bias, "conv1d.bias", {conv_width()}, "I + 2gN");
  list.add("dt_bias", {s.heads}, "H");
  list.add("A_log", {s.heads}, "H");
  list.add("D", {wide_d ? inner : s.heads}, wide_d ? "I" : "H");
  list.add_if(gate_norm, "norm.weight", {inner}, "I");
  list.add("out_proj.weight", {s.hidden, inner}, "D, I");
  list.add_if(bias, "out_proj.bias", {s.hidden}, "D");
}

MemoryCard Mamba2Config::card() const {
  return {"all value channels, strength dt", "X_p B", "scalar per head, exp(dt A)", "inner product with C",
          {"r_t[i] = 1", "Δ_t X_t[p] B_t", "S_t = exp(Δ_t A_h) S_{t−1} + Δ_t X_t B_t^⊤", "y_t = S_t C_t + D X_t"}};
}

class Mamba2 final : public MatrixMixer {
 public:
  Mamba2(const Mamba2Config& c, int layer, const std::string& p, const Weights& w)
      : MatrixMixer(c.shape(), layer, w.numerics(), (c.taps - 1) * c.conv_width()),
        c_(c),
        in_(w.get(p + "in_proj.weight")),
        in_bias_(w.if_present(c.bias, p + "in_proj.bias")),
        conv_{w.exact(p + "conv1d.weight"), w.exact_if(c.conv_bias, p + "conv1d.bias")},
        dt_bias_(w.exact(p + "dt_bias")),
        a_log_(w.exact(p + "A_log")),
        d_(w.exact(p + "D")),
        norm_(w.exact_if(c.gate_norm, p + "norm.weight")),
        out_(w.get(p + "out_proj.weight")),
        out_bias_(w.if_present(c.bias, p + "out_proj.bias")) {
    d_ = c.wide_d ? d_.view({c.sizes.heads, c.sizes.d_v}) : d_.unsqueeze(-1);
  }

  at::Tensor constant_field(Field field) const override {
    return field == Field::skip ? d_.expand({c_.sizes.heads, c_.sizes.d_v}) : at::Tensor();
  }

  MixerState initial_state(int64_t batch) const override {
    return {{empty_matrix(batch), at::zeros({batch, c_.taps - 1, c_.conv_width()}, n_.options(n_.compute))}, 0};
  }

  at::Tensor forward(const at::Tensor& x, MixerState& state, Observer& observer) const override {
    const MatrixSizes& s = c_.sizes;
    at::Tensor matrix = state.tensors[0], tail = state.tensors[1];
    const auto parts = linear_map(x, in_, in_bias_).split_with_sizes({c_.inner, c_.conv_width(), s.heads}, -1);
    const at::Tensor z = parts[0];
    const int64_t width = c_.groups * s.d_k;
    const auto streams = conv_(parts[1], tail).split_with_sizes({c_.inner, width, width}, -1);
    MatrixStateInput in;
    in.value = heads_of(streams[0], s.heads);
    in.key = heads_of(streams[1], c_.groups);
    in.query = heads_of(streams[2], c_.groups);
    in.strength = at::softplus(parts[2].to(n_.exact) + dt_bias_).clamp(c_.dt_low, c_.dt_high);
    in.log_decay = -at::exp(a_log_) * in.strength;
    at::Tensor y = scan(in, matrix, observer) + d_ * in.value.to(n_.exact);
    tell(observer, Field::read_out, y);
    state = {{matrix, tail}, state.position + x.size(1)};
    y = gated(y.flatten(2), at::silu(z));
    return linear_map(y.to(n_.compute), out_, out_bias_);
  }

 private:
  static at::Tensor heads_of(const at::Tensor& y, int64_t heads) {
    return y.reshape({y.size(0), y.size(1), heads, y.size(2) / heads});
  }

  // The gate silu(z) before the norm or behind it; the norm in groups.
  at::Tensor gated(const at::Tensor& y, const at::Tensor& gate) const {
    if (!norm_.defined()) return y * gate;
    const auto norm = [&](const at::Tensor& u) {
      return rms_norm_exact(heads_of(u, c_.norm_groups), {}, c_.norm_eps, n_.exact).flatten(2) * norm_;
    };
    return c_.norm_first ? norm(y) * gate : norm(y * gate);
  }

  Mamba2Config c_;
  at::Tensor in_, in_bias_;
  ShortConv conv_;
  at::Tensor dt_bias_, a_log_, d_, norm_, out_, out_bias_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_mamba2(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "fla", "mamba2");
  return std::make_unique<FamilyOf<Mamba2Config, Mamba2>>(read(checkpoint));
}

}  // namespace slotscope::engine
