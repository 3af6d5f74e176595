// Small checkpoints of the Hugging Face families, and their forward pass written a second time from the equations (spec:
// model-zoo 16): plain loops in double, one token after another. Shares no code with the engine.
#pragma once

#include <optional>

#include "tests/cases/engine/tiny_checkpoint.h"

namespace slotscope::testing {

// Two layers with random weights. `options` overrides keys of config.json, which say what tensors there are.
inline TinyCheckpoint made_hf(const std::string& type, const nlohmann::json& options = {}) {
  TinyCheckpoint c;
  c.config = {{"model_type", type},      {"hidden_size", 32}, {"num_hidden_layers", 2},       {"num_attention_heads", 4},
              {"intermediate_size", 48}, {"vocab_size", 53},  {"tie_word_embeddings", false}, {"eos_token_id", 60}};
  if (!options.is_null()) c.config.update(options);
  const int64_t d = c.config["hidden_size"], inner = c.config["intermediate_size"], vocab = c.config["vocab_size"];
  const int64_t heads = c.config["num_attention_heads"], layers = c.config["num_hidden_layers"];
  const bool neox = type == "gpt_neox", tied = c.config["tie_word_embeddings"];
  const auto vector = [&](const std::string& name, int64_t size, double mean) { c.add(name, {size}, mean, 0.3); };
  const auto linear = [&](const std::string& name, int64_t out, int64_t in, bool bias) {
    c.matrix(name + ".weight", out, in);
    if (bias) vector(name + ".bias", out, 0);
  };
  if (neox) {
    const bool bias = c.config.value("attention_bias", true);
    c.matrix("gpt_neox.embed_in.weight", vocab, d);
    for (int64_t i = 0; i < layers; ++i) {
      const std::string p = "gpt_neox.layers." + std::to_string(i) + ".";
      for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
        vector(p + norm + ".weight", d, 1);
        vector(p + norm + ".bias", d, 0);
      }
      linear(p + "attention.query_key_value", 3 * d, d, bias);
      linear(p + "attention.dense", d, d, bias);
      linear(p + "mlp.dense_h_to_4h", inner, d, true);
      linear(p + "mlp.dense_4h_to_h", d, inner, true);
    }
    vector("gpt_neox.final_layer_norm.weight", d, 1);
    vector("gpt_neox.final_layer_norm.bias", d, 0);
    if (!tied) c.matrix("embed_out.weight", vocab, d);
    return c;
  }
  const int64_t kv = c.config.value("num_key_value_heads", heads), width = c.config.value("head_dim", d / heads);
  c.config["num_key_value_heads"] = kv;
  const bool bias = c.config.value("attention_bias", false), qkv = bias || type == "qwen2";
  const bool mlp = c.config.value("mlp_bias", false);
  c.matrix("model.embed_tokens.weight", vocab, d);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string p = "model.layers." + std::to_string(i) + ".";
    vector(p + "input_layernorm.weight", d, 1);
    vector(p + "post_attention_layernorm.weight", d, 1);
    linear(p + "self_attn.q_proj", heads * width, d, qkv);
    linear(p + "self_attn.k_proj", kv * width, d, qkv);
    linear(p + "self_attn.v_proj", kv * width, d, qkv);
    linear(p + "self_attn.o_proj", d, heads * width, bias);
    linear(p + "mlp.gate_proj", inner, d, mlp);
    linear(p + "mlp.up_proj", inner, d, mlp);
    linear(p + "mlp.down_proj", d, inner, mlp);
  }
  vector("model.norm.weight", d, 1);
  if (!tied) c.matrix("lm_head.weight", vocab, d);
  return c;
}

class HfTwin {
 public:
  using Vec = std::vector<double>;
  struct Layer {
    std::vector<Vec> query, key, value, query_rot, key_rot;  // [T] of [heads * d]
    std::vector<std::vector<Vec>> weight;                    // [T][H] of one number per position seen, the first at `oldest`
    std::vector<size_t> oldest;                              // [T]
  };
  std::vector<Layer> layers;
  Vec logits;  // [T,V]

  explicit HfTwin(const TinyCheckpoint& checkpoint)
      : layers(checkpoint.config.at("num_hidden_layers").get<size_t>()), c_(checkpoint), j_(c_.config) {
    neox_ = j_.at("model_type") == "gpt_neox";
    heads_ = j_.at("num_attention_heads");
    kv_ = neox_ ? heads_ : j_.at("num_key_value_heads").get<size_t>();
    d_ = j_.value("head_dim", j_.at("hidden_size").get<size_t>() / heads_);
    const double share = neox_ ? parameter("partial_rotary_factor", j_.value("rotary_pct", 0.25)) : 1;
    rotated_ = size_t(double(d_) * share);
    theta_ = parameter("rope_theta", j_.value(neox_ ? "rotary_emb_base" : "rope_theta", 10000.0));
  }

  void feed(int32_t token) {
    Vec x = row(embedding(), size_t(token));
    for (size_t i = 0; i < layers.size(); ++i) block(i, x);
    const std::string norm = neox_ ? "gpt_neox.final_layer_norm" : "model.norm";
    const TinyTensor& head = j_.at("tie_word_embeddings") ? embedding() : tensor(neox_ ? "embed_out.weight" : "lm_head.weight");
    const Vec y = times(head, normed(norm, x));
    logits.insert(logits.end(), y.begin(), y.end());
    ++position_;
  }
  void feed(const std::vector<int32_t>& tokens) {
    for (const int32_t token : tokens) feed(token);
  }
  int32_t likeliest() const {
    const auto last = logits.end() - j_.at("vocab_size").get<std::ptrdiff_t>();
    return int32_t(std::max_element(last, logits.end()) - last);
  }

 private:
  double parameter(const char* key, double fallback) const {
    return j_.contains("rope_parameters") ? j_["rope_parameters"].value(key, fallback) : fallback;
  }
  const TinyTensor& tensor(const std::string& name) const { return c_.tensors.at(name); }
  const TinyTensor& embedding() const { return tensor(neox_ ? "gpt_neox.embed_in.weight" : "model.embed_tokens.weight"); }
  Vec linear(const std::string& name, const Vec& x) const {
    Vec y = times(tensor(name + ".weight"), x);
    if (const auto bias = c_.tensors.find(name + ".bias"); bias != c_.tensors.end())
      for (size_t o = 0; o < y.size(); ++o) y[o] += double(bias->second.values[o]);
    return y;
  }
  Vec normed(const std::string& name, const Vec& x) const {
    const double eps = neox_ ? j_.value("layer_norm_eps", 1e-5) : j_.value("rms_norm_eps", 1e-6), n = double(x.size());
    double mean = 0, square = 0;
    if (neox_)
      for (const double v : x) mean += v / n;
    for (const double v : x) square += (v - mean) * (v - mean) / n;
    Vec y;
    for (size_t i = 0; i < x.size(); ++i)
      y.push_back((x[i] - mean) / std::sqrt(square + eps) * double(tensor(name + ".weight").values[i]) +
                  (neox_ ? double(tensor(name + ".bias").values[i]) : 0));
    return y;
  }
  double frequency(size_t pair) const {
    const double plain = 1 / std::pow(theta_, 2 * double(pair) / double(rotated_));
    for (const char* place : {"rope_scaling", "rope_parameters"}) {
      if (!j_.contains(place) || !j_[place].is_object()) continue;
      const nlohmann::json& s = j_[place];
      const std::string type = s.value("rope_type", s.value("type", "default"));
      if (type == "linear") return plain / s.at("factor").get<double>();
      if (type != "llama3") continue;
      const double wave = 2 * 3.14159265358979323846 / plain, factor = s.at("factor"), low = s.at("low_freq_factor"),
                   high = s.at("high_freq_factor"), original = s.at("original_max_position_embeddings");
      if (wave < original / high) return plain;
      if (wave > original / low) return plain / factor;
      const double share = (original / wave - low) / (high - low);
      return (1 - share) * plain / factor + share * plain;
    }
    return plain;
  }
  Vec turned(Vec x) const {
    for (size_t head = 0; head < x.size() / d_; ++head)
      for (size_t pair = 0; pair < rotated_ / 2; ++pair) {
        const double angle = double(position_) * frequency(pair);
        double &a = x[head * d_ + pair], &b = x[head * d_ + pair + rotated_ / 2];
        const double before = a;
        a = a * std::cos(angle) - b * std::sin(angle);
        b = before * std::sin(angle) + b * std::cos(angle);
      }
    return x;
  }
  // Tokens that layer i sees, itself included; 0: all.
  size_t window(size_t i) const {
    const std::string type = j_.at("model_type");
    const auto size = [&] { return j_.value("sliding_window", nlohmann::json()).is_number() ? j_["sliding_window"].get<size_t>() : 0; };
    if (j_.contains("layer_types")) return j_["layer_types"][i] == "sliding_attention" ? size() : 0;
    if (type == "mistral") return size();
    if (type == "qwen2" && j_.value("use_sliding_window", false) && i >= j_.at("max_window_layers").get<size_t>()) return size();
    return 0;
  }
  Vec attention(size_t i, const std::string& p, const Vec& x) {
    Vec q, k, v;
    if (neox_) {
      const Vec all = linear(p + "query_key_value", x);
      for (size_t h = 0; h < heads_; ++h)
        for (size_t part = 0; part < 3; ++part)
          for (size_t n = 0; n < d_; ++n) (part == 0 ? q : part == 1 ? k : v).push_back(all[(h * 3 + part) * d_ + n]);
    } else {
      q = linear(p + "q_proj", x);
      k = linear(p + "k_proj", x);
      v = linear(p + "v_proj", x);
    }
    Layer& layer = layers[i];
    layer.query.push_back(q);
    layer.key.push_back(k);
    layer.value.push_back(v);
    layer.query_rot.push_back(turned(q));
    layer.key_rot.push_back(turned(k));
    const size_t seen = window(i), from = seen && position_ + 1 > seen ? position_ + 1 - seen : 0;
    layer.oldest.push_back(from);
    layer.weight.emplace_back();
    Vec out;
    for (size_t h = 0; h < heads_; ++h) {
      const size_t g = h / (heads_ / kv_);
      Vec p_row;
      double sum = 0;
      for (size_t s = from; s <= position_; ++s) {
        double dot = 0;
        for (size_t n = 0; n < d_; ++n) dot += layer.query_rot.back()[h * d_ + n] * layer.key_rot[s][g * d_ + n];
        sum += p_row.emplace_back(std::exp(dot / std::sqrt(double(d_))));
      }
      for (double& w : p_row) w /= sum;
      for (size_t n = 0; n < d_; ++n) {
        double o = 0;
        for (size_t s = from; s <= position_; ++s) o += p_row[s - from] * layer.value[s][g * d_ + n];
        out.push_back(o);
      }
      layer.weight.back().push_back(p_row);
    }
    return linear(p + (neox_ ? "dense" : "o_proj"), out);
  }
  Vec mlp(const std::string& p, const Vec& x) const {
    if (!neox_) {
      Vec gate = linear(p + "gate_proj", x);
      const Vec up = linear(p + "up_proj", x);
      for (size_t n = 0; n < gate.size(); ++n) gate[n] = gate[n] / (1 + std::exp(-gate[n])) * up[n];
      return linear(p + "down_proj", gate);
    }
    const std::string act = j_.value("hidden_act", "gelu");
    Vec y = linear(p + "dense_h_to_4h", x);
    for (double& z : y)
      z = act == "gelu" ? z / 2 * (1 + std::erf(z / std::sqrt(2.0)))
                        : z / 2 * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (z + 0.044715 * z * z * z)));
    return linear(p + "dense_4h_to_h", y);
  }
  void block(size_t i, Vec& x) {
    const std::string p = (neox_ ? "gpt_neox.layers." : "model.layers.") + std::to_string(i) + ".";
    const Vec before = x;
    add(x, attention(i, p + (neox_ ? "attention." : "self_attn."), normed(p + "input_layernorm", x)));
    const bool parallel = neox_ && j_.value("use_parallel_residual", true);
    add(x, mlp(p + "mlp.", normed(p + "post_attention_layernorm", parallel ? before : x)));
  }
  static void add(Vec& x, const Vec& y) {
    for (size_t n = 0; n < x.size(); ++n) x[n] += y[n];
  }

  const TinyCheckpoint& c_;
  const nlohmann::json& j_;
  bool neox_ = false;
  size_t heads_ = 0, kv_ = 0, d_ = 0, rotated_ = 0, position_ = 0;
  double theta_ = 10000;
};

}  // namespace slotscope::testing
