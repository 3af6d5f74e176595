// Raven checkpoints made on the fly: a config, random weights with a fixed seed, and single tensors replaced
// by hand.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/formats/checkpoint.h"

namespace slotscope::testing {

struct TinyTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

class TinyCheckpoint {
 public:
  nlohmann::json config;
  std::map<std::string, TinyTensor> tensors;

  // model_type raven, FLA flavour, Mamba2 decay, lin router, no output gate; `options` overrides config keys.
  static TinyCheckpoint raven(const nlohmann::json& options = {}) {
    TinyCheckpoint c;
    c.config = {{"model_type", "raven"},
                {"architectures", {"RavenForCausalLM"}},
                {"hidden_size", 32},
                {"num_hidden_layers", 2},
                {"num_heads", 4},
                {"num_kv_heads", nullptr},
                {"num_slots", 8},
                {"topk", 3},
                {"intermediate_size", 48},
                {"vocab_size", 53},
                {"use_rope", false},
                {"attnres_block_size", nullptr},
                {"attn", nullptr},
                {"eos_token_id", 2},
                {"norm_eps", 1e-6},
                {"use_output_gate", false},
                {"tie_word_embeddings", false}};
    if (!options.is_null()) c.config.update(options);
    c.fill();
    return c;
  }

  // A folder with one float32 file, to be changed and written elsewhere.
  static TinyCheckpoint from(const std::filesystem::path& folder) {
    TinyCheckpoint c;
    const auto checkpoint = formats::Checkpoint::open(folder);
    c.config = *checkpoint->config();
    // JSON has no infinity: write it as newer libraries do.
    for (auto& [key, value] : c.config.items())
      if (value.is_array())
        for (auto& item : value)
          if (item.is_number_float() && std::isinf(item.get<double>())) item = {{"__float__", "Infinity"}};
    for (const formats::TensorInfo& info : checkpoint->tensors()) {
      int64_t count = 1;
      for (const int64_t n : info.shape) count *= n;
      const auto values = formats::read_values(*checkpoint, info, 0, uint64_t(count));
      c.tensors[info.name] = {info.shape, {values.begin(), values.end()}};
    }
    return c;
  }

  void rename(const std::string& from, const std::string& to) {
    auto node = tensors.extract(from);
    if (node.empty()) throw std::runtime_error(from + ": no such tensor");
    node.key() = to;
    tensors.insert(std::move(node));
  }
  // A tensor of zeros in place of what is there.
  void shape(const std::string& name, std::vector<int64_t> shape) {
    int64_t count = 1;
    for (const int64_t n : shape) count *= n;
    tensors[name] = {std::move(shape), std::vector<float>(size_t(count), 0.0f)};
  }

  void set(const std::string& name, std::vector<float> values) {
    TinyTensor& t = tensors.at(name);
    if (t.values.size() != values.size()) throw std::runtime_error(name + ": wrong number of values");
    t.values = std::move(values);
  }

  // Normal values, from the generator of this checkpoint.
  void add(const std::string& name, std::vector<int64_t> shape, double mean, double deviation) {
    int64_t count = 1;
    for (const int64_t n : shape) count *= n;
    std::normal_distribution<double> normal(mean, deviation);
    TinyTensor t{std::move(shape), {}};
    for (int64_t i = 0; i < count; ++i) t.values.push_back(float(normal(random_)));
    tensors[name] = std::move(t);
  }
  void matrix(const std::string& name, int64_t out, int64_t in) {
    add(name, {out, in}, 0, 1.2 / std::sqrt(double(in)));
  }

  // config.json and model.safetensors (float32) in `folder`.
  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << config.dump(1);
    nlohmann::json header;
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      const size_t begin = data.size();
      data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * 4);
      header[name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    const uint64_t length = text.size();
    std::ofstream file(folder / "model.safetensors", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), 8);
    file << text << data;
  }

 private:
  int64_t number(const char* key, int64_t fallback) const {
    return config.contains(key) && config[key].is_number() ? config[key].get<int64_t>() : fallback;
  }

  void attention(const std::string& p, const nlohmann::json& attn, int64_t d) {
    const int64_t heads = attn.at("num_heads"), width = d / heads;
    const int64_t kv = attn.contains("num_kv_heads") && attn["num_kv_heads"].is_number()
                           ? attn["num_kv_heads"].get<int64_t>()
                           : heads;
    matrix(p + "q_proj.weight", d, d);
    matrix(p + "k_proj.weight", kv * width, d);
    matrix(p + "v_proj.weight", kv * width, d);
    matrix(p + "o_proj.weight", d, d);
    if (attn.value("qkv_bias", false))
      for (const auto& [name, size] :
           {std::pair{"q", d}, std::pair{"k", kv * width}, std::pair{"v", kv * width}})
        add(p + name + "_proj.bias", {size}, 0, 0.3);
  }

  void raven_mixer(const std::string& p, int64_t d) {
    const int64_t heads = number("num_heads", 4), kv = number("num_kv_heads", heads), width = d / heads;
    const int64_t slots = number("num_slots", width);
    matrix(p + "q_proj.weight", d, d);
    matrix(p + "k_proj.weight", kv * width, d);
    matrix(p + "v_proj.weight", kv * width, d);
    matrix(p + "o_proj.weight", d, d);
    matrix(p + "r_proj.weight", kv * slots, d);
    if (config.value("decay_type", "Mamba2") == "GLA") {
      matrix(p + "f_proj.weight", kv * slots, d);
    } else {
      matrix(p + "a_proj.weight", kv, d);
      add(p + "A_log", {kv}, 0.5, 0.3);
      add(p + "dt_bias", {kv}, -1, 0.5);
    }
    if (config.value("bias_rmm", false)) add(p + "r_bias", {kv, slots}, 0, 0.3);
    add(p + "q_norm.weight", {width}, 1, 0.3);
    add(p + "k_norm.weight", {width}, 1, 0.3);
    if (config.value("use_output_gate", false)) {
      matrix(p + "o_gate_proj.weight", d, d);
      add(p + "o_norm.weight", {width}, 1, 0.3);
    } else {
      add(p + "g_norm.weight", {d}, 1, 0.3);
    }
  }

  void fill() {
    const int64_t d = number("hidden_size", 32), inner = number("intermediate_size", 48),
                  vocab = number("vocab_size", 53);
    nlohmann::json attn = config["attn"];
    if (attn.is_object()) attn = nlohmann::json::array({attn});
    matrix("model.embeddings.weight", vocab, d);
    for (int i = 0; i < number("num_hidden_layers", 2); ++i) {
      const std::string p = "model.layers." + std::to_string(i) + ".";
      const nlohmann::json* entry = nullptr;
      if (attn.is_array())
        for (const auto& a : attn)
          for (const auto& layer : a.at("layers"))
            if (layer == i) entry = &a;
      if (entry)
        attention(p + "attn.", *entry, d);
      else
        raven_mixer(p + "attn.", d);
      add(p + "attn_norm.weight", {d}, 1, 0.3);
      add(p + "mlp_norm.weight", {d}, 1, 0.3);
      matrix(p + "mlp.gate_proj.weight", inner, d);
      matrix(p + "mlp.up_proj.weight", inner, d);
      matrix(p + "mlp.down_proj.weight", d, inner);
    }
    add("model.norm.weight", {d}, 1, 0.3);
    if (!config.value("tie_word_embeddings", false)) matrix("lm_head.weight", vocab, d);
  }

  std::mt19937_64 random_{20260101};
};

// Row i of a matrix, and the matrix [out,in] times a vector, in double precision: for the twins, models written a second time.
inline std::vector<double> row(const TinyTensor& w, size_t i) {
  const auto n = size_t(w.shape[1]);
  return {w.values.begin() + std::ptrdiff_t(i * n), w.values.begin() + std::ptrdiff_t((i + 1) * n)};
}
inline std::vector<double> times(const TinyTensor& w, const std::vector<double>& x) {
  std::vector<double> y(size_t(w.shape[0]), 0.0);
  for (size_t o = 0; o < y.size(); ++o)
    for (size_t i = 0; i < x.size(); ++i) y[o] += double(w.values[o * x.size() + i]) * x[i];
  return y;
}

}  // namespace slotscope::testing
