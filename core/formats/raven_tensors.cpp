// Names and shapes of a Raven model, and their comparison with a checkpoint.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <unordered_set>

#include "core/error.h"
#include "core/formats/float8_scales.h"
#include "core/formats/raven_check.h"
#include "core/formats/raven_config.h"
#include "core/formats/utf8.h"
#include "core/formats/values.h"

namespace slotscope::formats {
namespace {

using Shape = std::vector<int64_t>;

void add_attention(std::vector<ExpectedTensor>& out, const std::string& p, const AttentionConfig& a,
                   int64_t hidden) {
  const int64_t q = a.heads * a.head_dim, kv = a.kv_heads * a.head_dim;
  out.push_back({p + "q_proj.weight", {q, hidden}, "D, D"});
  out.push_back({p + "k_proj.weight", {kv, hidden}, "H_kv d, D"});
  out.push_back({p + "v_proj.weight", {kv, hidden}, "H_kv d, D"});
  if (a.qkv_bias) {
    out.push_back({p + "q_proj.bias", {q}, "D"});
    out.push_back({p + "k_proj.bias", {kv}, "H_kv d"});
    out.push_back({p + "v_proj.bias", {kv}, "H_kv d"});
  }
  out.push_back({p + "o_proj.weight", {hidden, q}, "D, D"});
}

void add_raven(std::vector<ExpectedTensor>& out, const std::string& p, const RavenConfig& c) {
  const int64_t D = c.hidden_size, M = c.slots, Hr = c.kv_heads;
  out.push_back({p + "q_proj.weight", {c.key_width(), D}, "H d_k, D"});
  out.push_back({p + "k_proj.weight", {Hr * c.d_k, D}, "H_kv d_k, D"});
  out.push_back({p + "v_proj.weight", {Hr * c.d_v, D}, "H_kv d_v, D"});
  if (c.feature_map == FeatureMap::t2r)
    out.push_back({p + "feature_map.layer.weight", {c.d_k, c.d_k}, "d_k, d_k"});
  if (c.elementwise_affine) {
    out.push_back({p + "q_norm.weight", {c.d_k}, "d_k"});
    out.push_back({p + "k_norm.weight", {c.d_k}, "d_k"});
  }
  if (c.router_type == RouterType::lin) {
    out.push_back({p + "r_proj.weight", {Hr * M, D}, "H_r M, D"});
  } else {
    out.push_back({p + "r_proj.0.weight", {D, D}, "D, D"});
    out.push_back({p + "r_proj.0.bias", {D}, "D"});
    out.push_back({p + "r_proj.2.weight", {Hr * M, D}, "H_r M, D"});
  }
  if (c.bias_rmm) out.push_back({p + "r_bias", {Hr, M}, "H_r, M"});
  if (c.decay_type == DecayType::mamba2) {
    out.push_back({p + "a_proj.weight", {Hr, D}, "H_r, D"});
    out.push_back({p + "A_log", {Hr}, "H_r"});
    out.push_back({p + "dt_bias", {Hr}, "H_r"});
  } else {
    out.push_back({p + "f_proj.weight", {Hr * M, D}, "H_kv M, D"});
  }
  if (c.output_gate) {
    out.push_back({p + "o_gate_proj.weight", {c.value_width(), D}, "H d_v, D"});
    if (c.o_norm_affine) out.push_back({p + "o_norm.weight", {c.d_v}, "d_v"});
  } else if (c.elementwise_affine) {
    out.push_back({p + "g_norm.weight", {c.flavour == Flavour::fla ? c.value_width() : D}, "H d_v"});
  }
  out.push_back({p + "o_proj.weight", {D, c.value_width()}, "D, H d_v"});
}

std::string file_of(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  return checkpoint.files()[size_t(tensor.file)].string();
}
std::string quoted(const std::string& name) { return "tensor '" + printable(name, 120) + "'"; }

bool ignorable(const std::string& name, const RavenConfig& config) {
  return (config.tied && name == "lm_head.weight") || name.ends_with("rotary.inv_freq") ||
         name.ends_with("rotary_emb.inv_freq");
}

[[noreturn]] void missing(const Checkpoint& checkpoint, const RavenConfig& config,
                          const ExpectedTensor& first, size_t count) {
  const std::string folder = checkpoint.folder().string();
  if (first.name == "lm_head.weight")
    throw Error({folder, quoted(first.name), "missing, and tie_word_embeddings is false",
                 "shape " + shape_text(first.shape) + ", or tie_word_embeddings true in config.json",
                 config.prefix.empty()
                     ? "This is a base model without a head: save the ForCausalLM class."
                     : "Set the flag only if the model was trained with it: a head is never made up."});
  throw Error({folder, quoted(first.name),
               count > 1 ? "missing, with " + std::to_string(count - 1) + " others" : "missing",
               "shape " + shape_text(first.shape) + " (" + first.meaning + ")",
               "Is config.json the one of these weights, and are all files there?"});
}

[[noreturn]] void unexpected(const Checkpoint& checkpoint, const RavenConfig& config, const TensorInfo& first,
                             size_t count) {
  std::string why = "a tensor of this model", advice = "Is config.json the one of these weights?";
  const std::string& name = first.name;
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (has("attn_res_") || has("mlp_res_") || has("res_proj") || has("res_norm"))
    advice = "Attention residuals (AttnRes) are not supported.";
  else if (has("conv1d"))
    advice = "Short convolutions are not part of Raven.";
  const std::string layers = config.prefix + "layers.";
  if (name.starts_with(layers) && std::atoll(name.c_str() + layers.size()) >= config.layers)
    why = "a layer from 0 to " + std::to_string(config.layers - 1);
  throw Error({file_of(checkpoint, first), quoted(name),
               "not part of the model" +
                   (count > 1 ? ", nor are " + std::to_string(count - 1) + " others" : std::string()),
               why, advice});
}

// Reals only. FP8 is read as it is, with the checkpoint's warning, unless a scale is stored beside it (B10).
void check_weight_dtype(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  const std::string dtype = "dtype " + printable(tensor.dtype_text, 20);
  switch (tensor.dtype) {
    case DType::bf16:
    case DType::f16:
    case DType::f32:
    case DType::f64:
      return;
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      if (const TensorInfo* scale = find_scale(checkpoint.tensors(), tensor))
        throw Error({file_of(checkpoint, tensor), quoted(tensor.name), dtype + " with the scale " + quoted(scale->name),
                     "weights that need no scale",
                     "Quantised weights are not supported: save the model in bfloat16."});
      return;
    default:
      throw Error({file_of(checkpoint, tensor), quoted(tensor.name), dtype, "BF16, F16, F32, F64 or FP8",
                   "Quantised weights are not supported: save the model in bfloat16."});
  }
}

// R13: the decay is computed in at least float32, but what was stored in 16 bits has been rounded already.
void note_decay_dtypes(const Checkpoint& checkpoint, RavenConfig& config) {
  if (config.decay_type != DecayType::mamba2) return;
  for (const char* name : {"A_log", "dt_bias"}) {
    std::set<std::string> dtypes;
    bool narrow = false;
    for (int64_t i = 0; i < config.layers; ++i)
      if (const TensorInfo* tensor =
              config.is_attention(i) ? nullptr : checkpoint.find(config.layer_prefix(i) + "attn." + name)) {
        dtypes.insert(tensor->dtype_text);
        narrow |= dtype_bits(tensor->dtype) < 32;
      }
    std::string list;
    for (const auto& dtype : dtypes) list += (list.empty() ? "" : ", ") + dtype;
    if (list.empty()) continue;
    if (narrow)
      config.warnings.push_back(std::string(name) + " is stored as " + list +
                                ": the decay was rounded when it was saved");
    else
      config.notes.push_back(std::string(name) + " is stored as " + list);
  }
}

}  // namespace

std::vector<ExpectedTensor> raven_tensors(const RavenConfig& c) {
  const int64_t D = c.hidden_size, I = c.intermediate;
  std::vector<ExpectedTensor> out;
  out.push_back({c.prefix + "embeddings.weight", {c.vocab, D}, "V, D"});
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string p = c.layer_prefix(i);
    out.push_back({p + "attn_norm.weight", {D}, "D"});
    if (c.is_attention(i))
      add_attention(out, p + "attn.", *c.attention[size_t(i)], D);
    else
      add_raven(out, p + "attn.", c);
    out.push_back({p + "mlp_norm.weight", {D}, "D"});
    out.push_back({p + "mlp.gate_proj.weight", {I, D}, "I, D"});
    out.push_back({p + "mlp.up_proj.weight", {I, D}, "I, D"});
    out.push_back({p + "mlp.down_proj.weight", {D, I}, "D, I"});
  }
  out.push_back({c.prefix + "norm.weight", {D}, "D"});
  if (!c.tied) out.push_back({"lm_head.weight", {c.vocab, D}, "V, D"});
  return out;
}

void check_raven_tensors(const Checkpoint& checkpoint, RavenConfig& config) {
  const std::vector<ExpectedTensor> expected = raven_tensors(config);
  std::unordered_set<std::string> names;
  const ExpectedTensor* first_missing = nullptr;
  size_t missing_count = 0;
  for (const ExpectedTensor& want : expected) {
    names.insert(want.name);
    const TensorInfo* found = checkpoint.find(want.name);
    if (!found) {
      if (!first_missing) first_missing = &want;
      ++missing_count;
      continue;
    }
    if (found->shape != want.shape)
      throw Error({file_of(checkpoint, *found), quoted(want.name), "shape " + shape_text(found->shape),
                   shape_text(want.shape) + " (" + want.meaning + ")",
                   "Is config.json the one of these weights?"});
    check_weight_dtype(checkpoint, *found);
  }
  if (first_missing) missing(checkpoint, config, *first_missing, missing_count);
  const TensorInfo* first_extra = nullptr;
  size_t extra = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (names.contains(tensor.name) || ignorable(tensor.name, config)) continue;
    if (!first_extra) first_extra = &tensor;
    ++extra;
  }
  if (first_extra) unexpected(checkpoint, config, *first_extra, extra);
  note_decay_dtypes(checkpoint, config);
}

void check_raven_values(const Checkpoint& checkpoint, RavenConfig& config) {
  double low = INFINITY, high = -INFINITY;
  for (int64_t i = 0; config.bias_rmm && i < config.layers; ++i) {
    const TensorInfo* bias =
        config.is_attention(i) ? nullptr : checkpoint.find(config.layer_prefix(i) + "attn.r_bias");
    if (!bias) continue;
    const std::vector<double> values = read_values(checkpoint, *bias, 0, element_count(*bias));
    for (size_t k = 0; k < values.size(); ++k) {
      if (!std::isfinite(values[k]))
        throw Error(
            {file_of(checkpoint, *bias), quoted(bias->name),
             number_text(values[k]) + " at [" + std::to_string(k / size_t(config.slots)) + ", " +
                 std::to_string(k % size_t(config.slots)) + "]",
             "finite numbers",
             "The goombalab code starts r_bias as uninitialised memory: this model cannot be trusted."});
      low = std::min(low, values[k]), high = std::max(high, values[k]);
    }
  }
  if (low <= high)
    config.notes.push_back("r_bias is finite, from " + number_text(low) + " to " + number_text(high));
  const TensorInfo* head = config.tied ? checkpoint.find("lm_head.weight") : nullptr;
  const TensorInfo* embedding = checkpoint.find(config.prefix + "embeddings.weight");
  if (!head || !embedding) return;
  const bool same = head->shape == embedding->shape && head->dtype == embedding->dtype &&
                    std::memcmp(checkpoint.data(*head).bytes.data(), checkpoint.data(*embedding).bytes.data(),
                                head->bytes) == 0;
  if (same)
    config.notes.push_back("the stored lm_head.weight equals the embedding");
  else
    config.warnings.push_back(
        "the stored lm_head.weight differs from the embedding, which is used for the logits");
}

}  // namespace slotscope::formats
