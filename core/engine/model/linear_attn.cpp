// Linear attention (spec: model-zoo 12): a matrix state that keeps everything, over a feature map of query and key.
#include <cmath>

#include "core/engine/model/families.h"
#include "core/engine/model/matrix_state.h"

namespace slotscope::engine {
namespace {

struct LinearConfig : formats::ModelConfig {
  MatrixSizes sizes;  // d_k is the width behind the feature map
  QkvConfig qkv;
  int64_t head_width = 0;  // in front of it
  std::string map;
  bool tied_map = false;  // only feature_map_q is stored and serves both
  bool norm_q = false, norm_k = false, norm_output = false, affine = true;

  LayerShape shape() const;
  void tensors(formats::TensorList& list) const;
  MemoryCard card() const;
};

LinearConfig read(const formats::Checkpoint& checkpoint) {
  LinearConfig c;
  MatrixSizes& s = c.sizes;
  formats::ModelReader r(checkpoint, c);
  r.read_sizes(2048, 24);
  r.read_hybrid(false);
  s.family = "linear_attn";
  s.hidden = c.hidden_size;
  s.heads = r.read_heads("num_heads", 4);
  s.state_heads = r.read_kv_heads("num_kv_heads", s.heads);
  c.head_width = r.read_width({"expand_k", nullptr, 1, "q_proj", "d_k", s.heads, s.heads}, r.mixer_axis("q_proj.weight", 0));
  s.d_v = r.read_width({"expand_v", nullptr, 1, "v_proj", "d_v", s.heads, s.state_heads},
                       r.mixer_axis("v_proj.weight", 0));
  c.map = r.cfg.get_choice("feature_map", "elementwise_product",
                           {"elementwise_product", "hedgehog", "t2r", "elu", "relu", "identity", "dpfp"});
  s.d_k = c.head_width * (c.map == "hedgehog" ? 2 : c.map == "dpfp" ? 8 : 1);
  s.scale = 1 / std::sqrt(double(s.d_k));
  const bool tied = r.cfg.get_bool("tie_feature_map_qk", false);
  c.tied_map = tied && !r.mixer_tensor("feature_map_k.layer.weight") && !r.mixer_tensor("feature_map_k.layer1.weight");
  c.norm_q = r.cfg.get_bool("norm_q", false);
  c.norm_k = r.cfg.get_bool("norm_k", false);
  c.norm_output = r.cfg.get_bool("norm_feature_map", false);
  c.affine = r.cfg.get_bool("elementwise_affine", true);
  c.qkv = {c.hidden_size, s.heads * c.head_width, s.state_heads * c.head_width, s.state_heads * s.d_v};
  r.read_embedding();
  r.read_mlp();
  r.finish();
  return c;
}

LayerShape LinearConfig::shape() const {
  LayerShape shape = matrix_shape(sizes);
  shape.note += ", feature map " + map;
  shape.attributes.emplace_back("write_strength", 1.0);
  shape.attributes.emplace_back("keep", 1.0);
  // Read out as S^T q / (z . q): the weights of a row sum to 1.
  if (norm_output) shape.attributes.emplace_back("normalised", int64_t(1));
  return shape;
}

void LinearConfig::tensors(formats::TensorList& list) const {
  const MatrixSizes& s = sizes;
  const int64_t d = head_width;
  qkv.tensors(list);
  for (const std::string p : {"feature_map_q.", "feature_map_k."}) {
    if (p == "feature_map_k." && tied_map) continue;
    const bool product = map == "elementwise_product", one = map == "hedgehog" || map == "t2r";
    list.add_if(product, p + "layer1.weight", {d, d}, "d_k, d_k");
    list.add_if(product, p + "layer1.bias", {d}, "d_k");
    list.add_if(product, p + "layer2.weight", {d, d}, "d_k, d_k");
    list.add_if(product, p + "layer2.bias", {d}, "d_k");
    list.add_if(one, p + "layer.weight", {d, d}, "d_k, d_k");
    list.add_if(map == "hedgehog", p + "layer.bias", {d}, "d_k");
  }
  list.add_if(affine, "norm.weight", {s.d_v}, "d_v");
  list.add("o_proj.weight", {s.hidden, s.heads * s.d_v}, "D, H d_v");
}

MemoryCard LinearConfig::card() const {
  return {"all value channels", "v_i k", "none", "inner product with q",
          {"r_t[i] = 1", "v_t[i] φ(k_t)", "S_t = S_{t−1} + v_t φ(k_t)^⊤", "o_t = S_t φ(q_t) / √d"}};
}

// phi of one stream; the learned ones have their weights.
struct FeatureMap {
  std::string kind;
  at::Tensor weight, bias, weight2, bias2;

  at::Tensor operator()(const at::Tensor& z) const {
    if (kind == "elementwise_product") return linear_map(z, weight, bias) * linear_map(z, weight2, bias2);
    if (kind == "hedgehog") {
      const at::Tensor y = 2 * linear_map(z, weight, bias);
      return at::softmax(at::cat({y, -y}, -1), -1);
    }
    if (kind == "t2r") return at::relu(linear_map(z, weight));
    if (kind == "elu") return at::elu(z) + 1;
    if (kind == "relu") return at::relu(z);
    if (kind != "dpfp") return z;
    const at::Tensor c = at::cat({at::relu(z), -at::relu(z)}, -1);
    std::vector<at::Tensor> parts;
    for (int64_t j = 1; j <= 4; ++j) parts.push_back(c * at::roll(c, {j}, {-1}));
    return at::cat(parts, -1);
  }
};

FeatureMap load_map(const LinearConfig& c, const std::string& p, const Weights& w) {
  FeatureMap map{c.map};
  const bool product = c.map == "elementwise_product", hedgehog = c.map == "hedgehog";
  if (product || hedgehog || c.map == "t2r") map.weight = w.get(p + (product ? "layer1.weight" : "layer.weight"));
  if (product || hedgehog) map.bias = w.get(p + (product ? "layer1.bias" : "layer.bias"));
  map.weight2 = w.if_present(product, p + "layer2.weight");
  map.bias2 = w.if_present(product, p + "layer2.bias");
  return map;
}

class LinearAttention final : public MatrixMixer {
 public:
  LinearAttention(const LinearConfig& c, int layer, const std::string& p, const Weights& w)
      : MatrixMixer(c.shape(), layer, w.numerics(), c.sizes.state_heads * c.sizes.d_k),
        c_(c),
        qkv_(c.qkv, p, w),
        map_q_(load_map(c, p + "feature_map_q.", w)),
        map_k_(c.tied_map ? map_q_ : load_map(c, p + "feature_map_k.", w)),
        norm_(w.exact_if(c.affine, p + "norm.weight")),
        out_(w.get(p + "o_proj.weight")) {}

  MixerState initial_state(int64_t batch) const override {
    const at::Tensor z = at::zeros({batch, c_.sizes.state_heads, c_.sizes.d_k}, n_.options(n_.exact));
    return {{empty_matrix(batch), z}, 0};
  }

  at::Tensor forward(const at::Tensor& x, MixerState& state, Observer& observer) const override {
    const MatrixSizes& s = c_.sizes;
    std::vector<at::Tensor> tails;
    at::Tensor matrix = state.tensors[0], sum = state.tensors[1];
    const Qkv qkv = qkv_(x, tails);
    MatrixStateInput in;
    in.query = normalised(map_q_(split(qkv.query, s.heads)).to(n_.exact), c_.norm_q);
    in.key = normalised(map_k_(split(qkv.key, s.state_heads)).to(n_.exact), c_.norm_k);
    in.value = split(qkv.value, s.state_heads);
    in.scale = s.scale;
    at::Tensor o = scan(in, matrix, observer);
    if (c_.norm_output) {
      // q . z_t with z_t the sum of all keys up to t
      const at::Tensor z = sum.unsqueeze(1) + at::cumsum(in.key, 1);
      sum = z.select(1, x.size(1) - 1).clone();
      o = o / (s.scale * (in.query * repeat_heads(z, s.heads)).sum(-1, true) + 1e-10);
    }
    tell(observer, Field::read_out, o);
    state = {{matrix, sum}, state.position + x.size(1)};
    return head_output(o, norm_, c_.norm_eps, {}, out_, n_.exact);
  }

 private:
  static at::Tensor normalised(const at::Tensor& z, bool on) { return on ? z / (z.sum(-1, true) + 1e-4) : z; }

  LinearConfig c_;
  QkvProjection qkv_;
  FeatureMap map_q_, map_k_;
  at::Tensor norm_, out_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_linear_attn(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "fla", "linear_attn");
  return std::make_unique<FamilyOf<LinearConfig, LinearAttention>>(read(checkpoint));
}

}  // namespace slotscope::engine
