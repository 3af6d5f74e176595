#include "core/formats/skeleton.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/formats/planned_checkpoint.h"
#include "core/formats/state_spaces.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {

using nlohmann::json;

bool ModelConfig::hybrid() const {
  return std::any_of(attention.begin(), attention.end(), [](const auto& a) { return a.has_value(); });
}

std::string ModelConfig::layer_prefix(int64_t layer) const {
  return prefix + "layers." + std::to_string(layer) + ".";
}

std::string ModelConfig::mixer_prefix(int64_t layer) const { return layer_prefix(layer) + names.mixer; }

ModelReader::ModelReader(const Checkpoint& checkpoint, ModelConfig& config)
    : cfg(model_config(checkpoint)), checkpoint_(checkpoint), c_(config) {
  if (checkpoint.tensors().empty() && !is_planned(checkpoint))
    throw Error({checkpoint.folder().string(), "", "no weights", "the tensors of the model",
                 "Download the weights."});
  if (const json* block = cfg.value("attnres_block_size"))
    refuse("attnres_block_size", block->dump(), "null", "Attention residuals are not supported.");
  for (const char* key : {"quantization_config", "compression_config"}) {
    const json* quantised = cfg.value(key);
    if (!quantised) continue;
    const auto method = quantised->is_object() ? quantised->find("quant_method") : quantised->end();
    const bool named = quantised->is_object() && method != quantised->end() && method->is_string();
    refuse(key, "quantised weights, " + (named ? printable(method->get<std::string>(), 40) : "of a method not named"),
           "null",
           "That would need the unpacking of this method: save the model unquantised, in bfloat16, and without this key.");
  }
}

void ModelReader::refuse(std::string item, std::string found, std::string expected, std::string advice) const {
  throw Error({cfg.file(), std::move(item), std::move(found), std::move(expected), std::move(advice)});
}

const TensorInfo* ModelReader::tensor(int64_t layer, std::string_view name) const {
  return checkpoint_.find(c_.layer_prefix(layer) + std::string(name));
}

const TensorInfo* ModelReader::mixer_tensor(std::string_view name) const {
  for (int64_t i = 0; i < c_.layers; ++i)
    if (!c_.is_attention(i)) return checkpoint_.find(c_.mixer_prefix(i) + std::string(name));
  return nullptr;
}

int64_t ModelReader::mixer_axis(std::string_view name, size_t which) const {
  const TensorInfo* t = mixer_tensor(name);
  return t && t->shape.size() == 2 ? t->shape[which] : 0;
}

int64_t ModelReader::read_slots(int64_t d_k) {
  const auto slots = cfg.get_optional_int("num_slots", 64, 1, 1 << 24);
  if (!slots) cfg.set_row("num_slots", std::to_string(d_k), "rule: key dim per head");
  return slots.value_or(d_k);
}

void ModelReader::read_sizes(int64_t default_hidden, int64_t default_layers, double default_eps,
                             const char* other_eps) {
  const bool other = other_eps && !cfg.value("norm_eps") && cfg.value(other_eps);
  read_layers(default_hidden, default_layers, other ? other_eps : "norm_eps", default_eps);
}

void ModelReader::read_layers(int64_t default_hidden, int64_t default_layers, const char* eps_key, double default_eps) {
  c_.hidden_size = cfg.get_int("hidden_size", default_hidden, 1, 1 << 20);
  c_.layers = cfg.get_int("num_hidden_layers", default_layers, 1, 1 << 14);
  c_.norm_eps = c_.mlp_norm_eps = cfg.get_positive(eps_key, default_eps);
  c_.attention.assign(size_t(c_.layers), std::nullopt);
  find_prefix();
}

void ModelReader::find_prefix() {
  c_.prefix = c_.names.root;
  if (checkpoint_.find(c_.prefix + c_.names.embedding) || !checkpoint_.find(c_.names.embedding)) return;
  c_.prefix = "";
  cfg.note("saved as a base model: names lack the leading '" + c_.names.root + "'");
}

int64_t ModelReader::read_heads(std::string_view key, int64_t fallback) {
  return cfg.get_int(key, fallback, 1, 1 << 16);
}

int64_t ModelReader::read_kv_heads(std::string_view key, int64_t heads) {
  const auto given = cfg.get_optional_int(key, std::nullopt, 1, 1 << 16);
  if (!given) {
    cfg.set_row(key, std::to_string(heads), "rule: num_heads");
    return heads;
  }
  if (heads % *given)
    refuse(std::string(key), std::to_string(*given), "a divisor of the " + std::to_string(heads) + " heads");
  return *given;
}

int64_t ModelReader::read_value_heads(int64_t heads) {
  const auto given = cfg.get_optional_int("num_v_heads", std::nullopt, 1, 1 << 16);
  if (!given) cfg.set_row("num_v_heads", std::to_string(heads), "rule: num_heads");
  if (given && *given % heads)
    refuse("num_v_heads", std::to_string(*given), "a multiple of num_heads " + std::to_string(heads));
  return given.value_or(heads);
}

int64_t ModelReader::read_expanded(const char* key, double fallback, int64_t width) {
  const double product = double(width) * cfg.get_positive(key, fallback);
  if (!(product >= 1 && product <= double(1 << 24)))
    refuse(key, number_text(product / double(width)), "a factor that gives a width from 1 to 16777216");
  if (double(int64_t(product)) != product)
    cfg.warn(std::string(key) + ": " + number_text(product) + " is cut to " + std::to_string(int64_t(product)));
  return int64_t(product);
}

void ModelReader::accept_old_norms() {
  const bool old = !tensor(0, c_.names.mixer_norm) && tensor(0, c_.names.mixer + "norm.weight") &&
                   tensor(0, "mlp.norm.weight");
  if (!old) return;
  c_.names.mixer_norm = c_.names.mixer + "norm.weight";
  c_.names.mlp_norm = "mlp.norm.weight";
  c_.mlp_norm_eps = 1e-5;
  cfg.note("older layout (norm_first): the block norms are stored as attn.norm and mlp.norm, the latter with eps 1e-5");
}

RopeSettings ModelReader::read_hybrid(bool mixer_rope, bool read_use_rope) {
  c_.attention = cfg.get_hybrid(c_.hidden_size, c_.layers, read_use_rope);
  const bool rope = mixer_rope || std::any_of(c_.attention.begin(), c_.attention.end(),
                                              [](const auto& a) { return a && a->use_rope; });
  if (!rope) {
    if (cfg.value("rope_scaling")) cfg.note("rope_scaling has no effect: no layer uses RoPE");
    return {};
  }
  const RopeSettings settings = cfg.get_rope(10000);
  if (settings.type != "default")
    refuse(settings.type_source + ".type", "\"" + printable(settings.type, 40) + "\"", "default or null",
           "Scaled RoPE is not part of this model family, and ignoring it would give wrong numbers.");
  return settings;
}

namespace {

// What running a kind of RoPE scaling would need that is not here.
std::string need_of_scaling(const std::string& type) {
  if (type == "dynamic") return "theta would have to follow the length of the prompt, and all keys be rotated again as it grows.";
  if (type == "yarn") return "It would need yarn's blend of frequencies (beta_fast, beta_slow) and its attention factor.";
  if (type == "longrope" || type == "su")
    return "It would need a factor per channel (short_factor, long_factor) and the switch between the two.";
  if (type == "mrope") return "It would need positions with several axes (mrope_section).";
  return "Its formula would have to be known here.";
}

}  // namespace

RopeSettings ModelReader::read_scaled_rope(double default_theta, const char* theta_key) {
  RopeSettings rope = cfg.get_rope(default_theta, theta_key);
  const std::string& where = rope.type_source;
  if (rope.type == "default") return rope;
  if (rope.type != "linear" && rope.type != "llama3")
    refuse(where + ".type", "\"" + printable(rope.type, 40) + "\"", "default, linear or llama3",
           "This kind of RoPE scaling is not supported, and ignoring it would give wrong numbers. " +
               need_of_scaling(rope.type));
  const auto need = [&](const std::optional<double>& given, const char* key) {
    if (!given) refuse(where + "." + key, "missing", "a number above 0: RoPE scaling " + rope.type + " needs it");
    cfg.set_row(std::string("rope_") + key, number_text(*given), where);
  };
  need(rope.given_factor, "factor");
  if (rope.factor < 1) cfg.warn(where + ".factor " + number_text(rope.factor) + " is below 1");
  if (rope.type == "linear") return rope;
  need(rope.low_freq_factor, "low_freq_factor");
  need(rope.high_freq_factor, "high_freq_factor");
  need(rope.original_positions, "original_max_position_embeddings");
  if (!(*rope.high_freq_factor > *rope.low_freq_factor))
    refuse(where + ".high_freq_factor", number_text(*rope.high_freq_factor),
           "more than low_freq_factor " + number_text(*rope.low_freq_factor));
  return rope;
}

int64_t ModelReader::read_width(const Width& rule, int64_t rows) {
  const double expand = rule.misspelt
                            ? cfg.get_misspelt(rule.key, rule.misspelt, rule.fallback, rule.misspelt_counts)
                            : cfg.get_positive(rule.key, rule.fallback);
  const double product = double(c_.hidden_size) * expand;
  if (product > double(1 << 24)) refuse(rule.key, number_text(expand), "a smaller factor");
  const auto width = int64_t(product);
  if (double(width) != product)
    cfg.warn(std::string(rule.key) + ": hidden_size x " + number_text(expand) + " = " + number_text(product) +
             " is cut to " + std::to_string(width));
  const int64_t expected = width / rule.heads * rule.projection_heads;
  if (rows != 0 && rows % rule.projection_heads == 0 && rows != expected) {
    const std::string found = std::to_string(rows / rule.projection_heads);
    cfg.warn(std::string(rule.projection) + " has " + std::to_string(rows) + " rows, " + rule.key + " " +
             number_text(expand) + " gives " + std::to_string(expected) + ": the weights decide, " + rule.name +
             " = " + found);
    cfg.set_row(rule.name, found, "weights");
    return rows / rule.projection_heads;
  }
  if (width < rule.heads || width % rule.heads)
    refuse(rule.key, "hidden_size x " + number_text(expand) + " = " + std::to_string(width),
           "a multiple of num_heads " + std::to_string(rule.heads));
  cfg.set_row(rule.name, std::to_string(width / rule.heads),
              std::string("rule: hidden_size x ") + rule.key + " / num_heads");
  return width / rule.heads;
}

void ModelReader::read_embedding(bool class_default_tied, int64_t default_vocab) {
  // Rows that only the tensors know for sure; the shape check runs afterwards with what is found here.
  const TensorInfo* embedding = checkpoint_.find(c_.prefix + c_.names.embedding);
  const int64_t vocab = cfg.get_int("vocab_size", default_vocab, 1, INT32_MAX);
  c_.vocab = embedding && embedding->shape.size() == 2 ? embedding->shape[0] : vocab;
  if (c_.vocab != vocab) {
    cfg.note("vocab_size is " + std::to_string(vocab) + ", the embedding has " + std::to_string(c_.vocab) +
             " rows: the tensor counts");
    cfg.set_row("vocab_size", std::to_string(c_.vocab), "weights");
  }
  c_.tied = cfg.get_tied(class_default_tied);
  if (c_.tied) {
    cfg.note("tied: logits use the embedding");
    if (checkpoint_.find(c_.names.head))
      cfg.warn("tie_word_embeddings is true, but " + c_.names.head +
               " is stored as well: the embedding is used, the stored head is not");
  }
  cfg.get_dtype();
}

void ModelReader::read_mlp(double default_ratio) {
  cfg.get_choice("hidden_act", "swish", {"swish", "silu"});
  const double ratio = cfg.value("hidden_ratio") ? cfg.get_positive("hidden_ratio", default_ratio)
                       : cfg.has("hidden_ratio") ? 4  // null counts as 4 in every family
                                                 : default_ratio;
  if (ratio > 1e6) refuse("hidden_ratio", number_text(ratio), "at most 1000000");
  const auto given = cfg.get_optional_int("intermediate_size", std::nullopt, 1, 1 << 28);
  const int64_t expected = given.value_or(gated_mlp_width(c_.hidden_size, ratio));
  if (!given)
    cfg.set_row("intermediate_size", std::to_string(expected),
                "rule: 256 ceil(int(hidden_size ratio 2/3) / 256)");
  const TensorInfo *gate = tensor(0, "mlp.gate_proj.weight"), *down = tensor(0, "mlp.down_proj.weight");
  if (gate && down && gate->shape.size() == 2 && down->shape.size() == 2 && !tensor(0, "mlp.up_proj.weight") &&
      down->shape[1] <= (int64_t(1) << 40) && gate->shape[0] == 2 * down->shape[1]) {
    c_.fused_mlp = true;
    cfg.note("older layout: mlp.gate_proj holds gate and up");
  }
  count_mlp_rows(gate, "gate_proj", expected);
}

void ModelReader::read_plain_mlp(int64_t default_width) {
  const std::string& name = c_.names.mlp_gate.empty() ? c_.names.mlp_up : c_.names.mlp_gate;
  count_mlp_rows(tensor(0, name + ".weight"), name, cfg.get_int("intermediate_size", default_width, 1, 1 << 28));
}

void ModelReader::count_mlp_rows(const TensorInfo* first, const std::string& name, int64_t expected) {
  c_.intermediate = expected;
  if (!first || first->shape.size() != 2) return;
  c_.intermediate = c_.fused_mlp ? first->shape[0] / 2 : first->shape[0];
  if (c_.intermediate == expected) return;
  cfg.note("intermediate_size gives " + std::to_string(expected) + ", " + name + " has " +
           std::to_string(c_.intermediate) + " rows: the tensor counts");
  cfg.set_row("intermediate_size", std::to_string(c_.intermediate), "weights");
}

void ModelReader::note_ignored(std::initializer_list<const char*> keys) {
  std::string ignored;
  for (const char* key : keys)
    if (cfg.has(key)) ignored += (ignored.empty() ? "" : ", ") + std::string(key);
  if (!ignored.empty()) cfg.note("keys without effect in this model: " + ignored);
  const json* architectures = cfg.value("architectures");
  if (architectures && architectures->is_array() && architectures->size() > 1)
    cfg.note("architectures lists " + std::to_string(architectures->size()) + " classes; model_type decides");
}

void ModelReader::finish() {
  c_.rows = std::move(cfg.rows);
  c_.notes.insert(c_.notes.begin(), cfg.notes.begin(), cfg.notes.end());
  c_.warnings = std::move(cfg.warnings);
}

}  // namespace slotscope::formats
