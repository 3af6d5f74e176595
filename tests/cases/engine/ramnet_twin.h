// Small RAM-Net checkpoints, and their forward pass written a second time from the equations (spec: ramnet 1): plain loops in
// double, one token after another, every address by a full sort of all slots. Shares no code with the engine or the kernels.
#pragma once

#include <set>

#include "tests/cases/engine/tiny_checkpoint.h"

namespace slotscope::testing {

// Two layers with random weights. `options` overrides keys of config.json, `memory` those of its "ramnet". `parts`: of the
// tensors that may be left out, which are there: "bias", "log_scale", "gate", "norm".
inline TinyCheckpoint made_ramnet(const nlohmann::json& memory = {}, const std::set<std::string>& parts = {"log_scale", "gate"},
                                  const nlohmann::json& options = {}) {
  TinyCheckpoint c;
  nlohmann::json own = {{"order", 3}, {"codes_per_factor", 3}, {"top_k", 5}, {"cape_heads", {{0, 2}, {1}}}};
  if (!memory.is_null()) own.update(memory);
  c.config = {{"model_type", "ramnet"},
              {"architectures", {"RamNetForCausalLM"}},
              {"hidden_size", 32},
              {"num_hidden_layers", 2},
              {"num_attention_heads", 4},
              {"head_dim", 6},
              {"intermediate_size", 48},
              {"vocab_size", 53},
              {"hidden_act", "silu"},
              {"rms_norm_eps", 1e-6},
              {"tie_word_embeddings", false},
              {"eos_token_id", 60}};
  if (!options.is_null()) c.config.update(options);
  c.config["ramnet"] = own;
  const int64_t d = c.config["hidden_size"], heads = c.config["num_attention_heads"], inner = c.config["intermediate_size"],
                vocab = c.config["vocab_size"], wide = heads * c.config["head_dim"].get<int64_t>(),
                rows = heads * own["order"].get<int64_t>() * own["codes_per_factor"].get<int64_t>();
  const bool bias = parts.contains("bias");
  const auto linear = [&](const std::string& name, int64_t out, int64_t in, bool with_bias) {
    c.matrix(name + ".weight", out, in);
    if (with_bias) c.add(name + ".bias", {out}, 0, 0.3);
  };
  c.matrix("model.embed_tokens.weight", vocab, d);
  for (int64_t i = 0; i < c.config["num_hidden_layers"].get<int64_t>(); ++i) {
    const std::string p = "model.layers." + std::to_string(i) + ".", a = p + "attn.";
    c.add(p + "input_layernorm.weight", {d}, 1, 0.3);
    c.add(p + "post_attention_layernorm.weight", {d}, 1, 0.3);
    linear(a + "r_proj", rows, d, bias);
    linear(a + "w_proj", rows, d, bias);
    linear(a + "v_proj", wide, d, bias);
    c.matrix(a + "o_proj.weight", d, wide);
    if (parts.contains("log_scale"))
      for (const char* name : {"r_log_scale", "w_log_scale"}) c.add(a + name, {heads}, 0.2, 0.4);
    if (own.value("update_rule", "gsu") == "gsu" && !own.value("cumulative", false)) {
      c.matrix(a + "gamma_proj.weight", heads, d);
      c.add(a + "gamma_proj.bias", {heads}, -0.5, 1);
    }
    if (parts.contains("gate")) {
      c.matrix(a + "g_proj.weight", wide, d);
      c.add(a + "g_proj.bias", {wide}, 0.5, 0.5);
    }
    if (parts.contains("norm")) c.add(a + "o_norm.weight", {c.config["head_dim"].get<int64_t>()}, 1, 0.3);
    linear(p + "mlp.gate_proj", inner, d, false);
    linear(p + "mlp.up_proj", inner, d, false);
    linear(p + "mlp.down_proj", d, inner, false);
  }
  c.add("model.norm.weight", {d}, 1, 0.3);
  if (!c.config["tie_word_embeddings"].get<bool>()) c.matrix("lm_head.weight", vocab, d);
  return c;
}

struct MadeRamNet {
  std::string name;
  nlohmann::json memory = nlohmann::json::object();
  std::set<std::string> parts = {"log_scale", "gate"};
  nlohmann::json options = {};
  TinyCheckpoint checkpoint() const { return made_ramnet(memory, parts, options); }
};

// Every option that changes numbers, in at least one of them.
inline const std::vector<MadeRamNet>& made_ramnet_models() {
  static const std::vector<MadeRamNet> list = {
      {"gsu"},
      {"gsu eps 0, biases, norm", {{"state_eps", 0.0}}, {"bias", "gate", "norm", "log_scale"}},
      {"mass-aware", {{"readout", "mass_aware"}, {"cape_direction", -1}}},
      {"mass-aware eps 0, most significant first",
       {{"readout", "mass_aware"},
        {"state_eps", 0.0},
        {"slot_order", "factor0_most_significant"},
        {"codes_per_factor", 4},
        {"order", 2}},
       {}},
      {"cumulative, renormalised", {{"cumulative", true}, {"renormalize_topk", true}, {"state_eps", 1e-3}}},
      {"all slots", {{"order", 2}, {"top_k", 40}, {"cape_heads", {nlohmann::json::array(), {0, 1, 2, 3}}}}, {"bias"}},
      {"pdma", {{"update_rule", "pdma"}, {"pdma_gamma", 0.5}}},
      {"pdma gamma 1, eps 0, minus", {{"update_rule", "pdma"}, {"state_eps", 0.0}, {"cape_direction", -1}}, {"norm"}},
      {"pdma mass-aware", {{"update_rule", "pdma"}, {"pdma_gamma", 2.5}, {"readout", "mass_aware"}, {"state_eps", 1e-2}}},
      {"pdma gamma 0", {{"update_rule", "pdma"}, {"pdma_gamma", 0.0}}, {"gate"}},
      {"one factor, tied", {{"order", 1}, {"codes_per_factor", 16}}, {"log_scale"}, {{"tie_word_embeddings", true}}},
      {"K = 1 renormalised", {{"top_k", 1}, {"renormalize_topk", true}}},
      {"two codes, five factors", {{"order", 5}, {"codes_per_factor", 2}, {"top_k", 9}}},
  };
  return list;
}

class RamNetTwin {
 public:
  using Vec = std::vector<double>;
  struct Address {
    std::vector<size_t> slot;
    Vec weight;
    double lost = 0, gap = 0;
  };
  // What one head did at one token.
  struct Step {
    Address read, write;
    double gamma = 0;
    Vec value, out;
    Vec strength, keep, p;  // at the write slots, at the read slots
    double read_mass = 0;
  };
  struct Head {
    Vec mass;               // [M]: m, or z
    std::vector<Vec> slot;  // [M] of [d_v]: s, or S
    std::set<size_t> written;
    std::vector<Step> steps;
  };
  std::vector<std::vector<Head>> layers;
  Vec logits;  // [T,V]

  explicit RamNetTwin(const TinyCheckpoint& checkpoint) : c_(checkpoint), j_(c_.config), m_(j_.at("ramnet")) {
    heads_ = j_.at("num_attention_heads");
    d_v_ = j_.at("head_dim");
    U_ = m_.at("order");
    d_p_ = m_.at("codes_per_factor");
    for (size_t u = 0; u < U_; ++u) M_ *= d_p_;
    pdma_ = m_.value("update_rule", "gsu") == "pdma";
    eps_ = m_.value("state_eps", 1e-6);
    layers.assign(j_.at("num_hidden_layers").get<size_t>(), std::vector<Head>(heads_, empty()));
  }

  size_t slots() const { return M_; }
  Head empty() const {
    Head head;
    head.mass.assign(M_, pdma_ ? 1.0 / double(M_) : 0.0);
    head.slot.assign(M_, Vec(d_v_, 0.0));
    return head;
  }
  void feed(int32_t token) {
    Vec x = row(tensor("model.embed_tokens.weight"), size_t(token));
    for (size_t i = 0; i < layers.size(); ++i) {
      const std::string p = "model.layers." + std::to_string(i) + ".";
      add(x, mixer(i, p + "attn.", normed(p + "input_layernorm.weight", x)));
      add(x, mlp(p + "mlp.", normed(p + "post_attention_layernorm.weight", x)));
    }
    const bool tied = j_.at("tie_word_embeddings");
    const Vec y = times(tensor(tied ? "model.embed_tokens.weight" : "lm_head.weight"), normed("model.norm.weight", x));
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
  // A[t, 0..t] of one head from its steps: each write's share of what the token reads (spec: ramnet 1.7).
  static Vec induced(const Head& head, size_t t) {
    Vec a(t + 1, 0.0);
    const Step& now = head.steps[t];
    for (size_t k = 0; k < now.read.slot.size(); ++k) {
      double keep = 1;
      for (size_t s = t + 1; s-- > 0;) {
        const Step& step = head.steps[s];
        for (size_t n = 0; n < step.write.slot.size(); ++n)
          if (step.write.slot[n] == now.read.slot[k]) {
            a[s] += now.p[k] * step.strength[n] * keep;
            keep *= step.keep[n];
          }
      }
    }
    return a;
  }

  bool cape(size_t layer, size_t head) const {
    if (!m_.contains("cape_heads")) return false;
    for (const auto& h : m_["cape_heads"][layer])
      if (h.get<size_t>() == head) return true;
    return false;
  }
  // The most probable slots, from the probability of all of them; `shift`: a head with CAPE.
  Address address(const double* logit, bool shift, size_t position) const {
    std::vector<std::pair<double, size_t>> all;  // -log p, slot
    for (size_t slot = 0; slot < M_; ++slot) {
      double log_p = 0;
      size_t rest = slot;
      for (size_t digit = 0; digit < U_; ++digit, rest /= d_p_) {
        const size_t u =
            m_.value("slot_order", "factor0_least_significant") == "factor0_least_significant" ? digit : U_ - 1 - digit;
        double sum = 0;
        for (size_t j = 0; j < d_p_; ++j) sum += std::exp(logit[u * d_p_ + j]);
        log_p += logit[u * d_p_ + rest % d_p_] - std::log(sum);
      }
      all.emplace_back(-log_p, slot);
    }
    std::sort(all.begin(), all.end());
    Address a;
    const size_t k = std::min(m_.at("top_k").get<size_t>(), M_);
    double kept = 0;
    for (size_t i = 0; i < k; ++i) {
      const auto step = std::ptrdiff_t(position % M_) * m_.value("cape_direction", 1);
      a.slot.push_back(shift ? size_t((std::ptrdiff_t(all[i].second) + step + std::ptrdiff_t(M_)) % std::ptrdiff_t(M_))
                             : all[i].second);
      a.weight.push_back(std::exp(-all[i].first));
      kept += a.weight.back();
    }
    a.lost = k == M_ ? 0 : 1 - kept;
    a.gap = k == M_ ? NAN : all[k].first - all[k - 1].first;
    if (m_.value("renormalize_topk", false))
      for (double& w : a.weight) w /= kept;
    return a;
  }
  // What a token writes, then what it reads (spec: ramnet 1.5, 1.6). Address, value and gamma are those of the step.
  void write(Head& head, Step& step) const {
    for (size_t k = 0; k < step.write.slot.size(); ++k) {
      const size_t i = step.write.slot[k];
      const double w = step.write.weight[k];
      double& m = head.mass[i];
      if (pdma_) {
        const double keep = std::pow(1 - w, m_.value("pdma_gamma", 1.0));
        m = keep * m + w;
        for (size_t n = 0; n < d_v_; ++n) head.slot[i][n] = keep * head.slot[i][n] + w * step.value[n];
        step.strength.push_back(w);
        step.keep.push_back(keep);
      } else {
        const double rho = m_.value("cumulative", false) ? 1 : sigmoid(std::log((1 - w) / w) - step.gamma);
        m = rho * m + w;
        const double eta = w / (m + eps_);
        for (size_t n = 0; n < d_v_; ++n) head.slot[i][n] += eta * (step.value[n] - head.slot[i][n]);
        step.strength.push_back(eta);
        step.keep.push_back(1 - eta);
      }
      head.written.insert(i);
    }
  }
  void read(const Head& head, Step& step) const {
    double divisor = 0;
    const bool aware = m_.value("readout", "standard") == "mass_aware";
    for (size_t k = 0; k < step.read.slot.size(); ++k) divisor += step.read.weight[k] * head.mass[step.read.slot[k]];
    step.out.assign(d_v_, 0.0);
    for (size_t k = 0; k < step.read.slot.size(); ++k) {
      const size_t i = step.read.slot[k];
      const double r = step.read.weight[k];
      step.p.push_back(!aware ? r : divisor == 0 ? 0 : r * head.mass[i] / divisor);
      if (pdma_) step.p.back() /= head.mass[i] + eps_;
      for (size_t n = 0; n < d_v_; ++n) step.out[n] += step.p.back() * head.slot[i][n];
      if (head.written.contains(i)) step.read_mass += r;
    }
  }

 private:
  const TinyTensor& tensor(const std::string& name) const { return c_.tensors.at(name); }
  const TinyTensor* maybe(const std::string& name) const {
    const auto at = c_.tensors.find(name);
    return at == c_.tensors.end() ? nullptr : &at->second;
  }
  Vec linear(const std::string& name, const Vec& x) const {
    Vec y = times(tensor(name + ".weight"), x);
    if (const TinyTensor* bias = maybe(name + ".bias"))
      for (size_t o = 0; o < y.size(); ++o) y[o] += double(bias->values[o]);
    return y;
  }
  Vec normed(const std::string& name, const Vec& x) const {
    double square = 0;
    for (const double v : x) square += v * v / double(x.size());
    Vec y;
    for (size_t i = 0; i < x.size(); ++i)
      y.push_back(x[i] / std::sqrt(square + j_.value("rms_norm_eps", 1e-6)) * double(tensor(name).values[i]));
    return y;
  }
  static double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }
  static void add(Vec& x, const Vec& y) {
    for (size_t n = 0; n < x.size(); ++n) x[n] += y[n];
  }
  Vec mlp(const std::string& p, const Vec& x) const {
    Vec gate = linear(p + "gate_proj", x);
    const Vec up = linear(p + "up_proj", x);
    for (size_t n = 0; n < gate.size(); ++n) gate[n] = gate[n] * sigmoid(gate[n]) * up[n];
    return linear(p + "down_proj", gate);
  }

  Vec mixer(size_t layer, const std::string& p, const Vec& x) {
    Vec r = linear(p + "r_proj", x), w = linear(p + "w_proj", x), all;
    const Vec v = linear(p + "v_proj", x);
    const size_t wide = U_ * d_p_;
    for (size_t h = 0; h < heads_; ++h) {
      for (const auto& [logit, name] : {std::pair{&r, "r_log_scale"}, std::pair{&w, "w_log_scale"}})
        if (const TinyTensor* scale = maybe(p + name))
          for (size_t n = 0; n < wide; ++n) (*logit)[h * wide + n] *= std::exp(double(scale->values[h]));
      Head& head = layers[layer][h];
      Step step;
      step.read = address(r.data() + h * wide, cape(layer, h), position_);
      step.write = address(w.data() + h * wide, cape(layer, h), position_);
      if (maybe(p + "gamma_proj.weight")) step.gamma = linear(p + "gamma_proj", x)[h];
      step.value.assign(v.begin() + std::ptrdiff_t(h * d_v_), v.begin() + std::ptrdiff_t((h + 1) * d_v_));
      write(head, step);
      read(head, step);
      Vec o = step.out;
      if (maybe(p + "o_norm.weight")) o = normed(p + "o_norm.weight", o);
      all.insert(all.end(), o.begin(), o.end());
      head.steps.push_back(std::move(step));
    }
    if (maybe(p + "g_proj.weight")) {
      const Vec gate = linear(p + "g_proj", x);
      for (size_t n = 0; n < all.size(); ++n) all[n] *= sigmoid(gate[n]);
    }
    return linear(p + "o_proj", all);
  }

  const TinyCheckpoint& c_;
  const nlohmann::json& j_;
  const nlohmann::json& m_;
  size_t heads_ = 0, d_v_ = 0, U_ = 0, d_p_ = 0, M_ = 1, position_ = 0;
  bool pdma_ = false;
  double eps_ = 1e-6;
};

}  // namespace slotscope::testing
