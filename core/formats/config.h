// Typed access to config.json with the provenance of every value (spec: model-zoo 1.9, bad-inputs B23-B28).
// No weights here.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/checkpoint.h"

namespace slotscope::formats {

// One effective value and where it came from: "config.json", "default", "exapnd_k", "text_config", "weights",
// "rule" ...
struct ConfigRow {
  std::string key, value, source;
};

// RoPE settings as they count, whichever spelling the file uses (B24).
struct RopeSettings {
  double theta = 10000;
  std::string theta_source;      // "rope_theta", "rope_parameters.rope_theta", "default"
  std::string type = "default";  // rope_type / type of rope_parameters or rope_scaling
  std::string type_source;       // "rope_parameters", "rope_scaling" or empty
  double factor = 1;
  // Numbers that only some types have; nothing: not given.
  std::optional<double> given_factor, low_freq_factor, high_freq_factor, original_positions, partial;
};

// One softmax attention layer (spec: model-zoo 1.6, 1.10, 16).
struct AttentionConfig {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t window = 0;  // tokens seen, the current one included; 0 = full causal
  double rope_theta = 10000;
  bool use_rope = true;
  bool qkv_bias = false;
  bool o_bias = false;
};

class Config {
 public:
  // `root` is copied. Throws Error when it is no object.
  Config(nlohmann::json root, std::string file);
  // The config of a checkpoint. Throws Error when the folder has none.
  explicit Config(const Checkpoint& checkpoint);

  const nlohmann::json& root() const { return root_; }
  const std::string& file() const { return file_; }
  bool has(std::string_view key) const;                     // present, null included
  const nlohmann::json* value(std::string_view key) const;  // null pointer when absent or null

  // Value of `key`, else `fallback` when the key is absent or null. Each adds one row. Throw Error (file,
  // key, found, expected) for another JSON type or a value outside the range.
  int64_t get_int(std::string_view key, int64_t fallback, int64_t least = 1, int64_t most = int64_t(1) << 40);
  double get_double(std::string_view key, double fallback);    // finite
  double get_positive(std::string_view key, double fallback);  // finite, > 0
  bool get_bool(std::string_view key, bool fallback);
  std::string get_string(std::string_view key, std::string fallback);
  std::string get_choice(std::string_view key, std::string fallback,
                         std::initializer_list<std::string_view> choices);
  // Absent -> fallback; null -> nothing (the caller has a rule and tells it with set_row). Adds a row unless
  // it returns nothing.
  std::optional<int64_t> get_optional_int(std::string_view key, std::optional<int64_t> fallback,
                                          int64_t least = 1, int64_t most = int64_t(1) << 40);

  // B23: `key`, else its misspelling (with a note), else the fallback. `misspelt_counts` false: the
  // misspelling has no effect.
  double get_misspelt(std::string_view key, std::string_view misspelt, double fallback,
                      bool misspelt_counts = true);
  // B24: dtype, else torch_dtype, else "" ; conflict is a warning.
  std::string get_dtype();
  // B24: rope_parameters.rope_theta, else `theta_key`, else the fallback; conflict is a warning.
  RopeSettings get_rope(double fallback_theta, const char* theta_key = "rope_theta");
  // B27: top level, else text_config, else the class default.
  bool get_tied(bool class_default);
  // B26: head_dim when given, else hidden / heads; Error when that does not divide.
  int64_t get_head_dim(int64_t hidden, int64_t heads);
  // B28, model-zoo 1.10: `attn` as null, dict or list of dicts -> one entry per layer. Errors name
  // attn[i].layers[j]. `read_use_rope`: goombalab reads attn.use_rope (default true); fla always applies RoPE
  // and gets a warning for false.
  std::vector<std::optional<AttentionConfig>> get_hybrid(int64_t hidden, int64_t layers, bool read_use_rope);

  // Replaces the row of `key` or appends one.
  void set_row(std::string_view key, std::string value, std::string source);
  void note(std::string text) { notes.push_back(std::move(text)); }
  void warn(std::string text) { warnings.push_back(std::move(text)); }

  std::vector<ConfigRow> rows;
  std::vector<std::string> notes, warnings;

 private:
  [[noreturn]] void refuse(std::string_view key, const nlohmann::json& found, std::string expected) const;
  AttentionConfig hybrid_entry(const nlohmann::json& entry, const std::string& where, int64_t hidden,
                               bool read_use_rope);

  nlohmann::json root_;
  std::string file_;
};

// B28: 256 * ceil(int(hidden * ratio * 2 / 3) / 256), evaluated in double left to right (model-zoo 1.7).
int64_t gated_mlp_width(int64_t hidden, double ratio);

// B28: config.json's model_type when it is one of `known`, else Error with the list.
std::string require_model_type(const Config& config, const std::vector<std::string>& known);

std::string shape_text(const std::vector<int64_t>& shape);  // "[4, 32]"
std::string number_text(double value);                      // shortest text that reads back: "0.5", "1e-06"

}  // namespace slotscope::formats
