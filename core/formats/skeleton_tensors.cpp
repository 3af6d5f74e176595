// Names and shapes of a model, and their comparison with a checkpoint.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <unordered_set>

#include "core/error.h"
#include "core/formats/float8_scales.h"
#include "core/formats/json.h"
#include "core/formats/mapped_file.h"
#include "core/formats/skeleton.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

// Numbers of a config multiply: no model of today has a tenth of these.
constexpr size_t kMostTensors = 1'000'000;

std::string file_of(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  return checkpoint.files()[size_t(tensor.file)].string();
}
std::string quoted(const std::string& name) { return "tensor '" + printable(name, 120) + "'"; }

bool ignorable(const std::string& name, const ModelConfig& config) {
  if (config.tied && name == config.names.head) return true;
  if (name.ends_with("rotary.inv_freq") || name.ends_with("rotary_emb.inv_freq")) return true;
  for (const std::string& end : config.ignorable)
    if (name.ends_with(end)) return true;
  return false;
}

// "self_attn.rotary_emb.inv_freq" of "model.layers.3.self_attn.rotary_emb.inv_freq"
std::string without_layer(const std::string& name, const ModelConfig& config) {
  const std::string layers = config.prefix + "layers.";
  const size_t dot = name.starts_with(layers) ? name.find('.', layers.size()) : std::string::npos;
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

[[noreturn]] void missing(const Checkpoint& checkpoint, const ModelConfig& config, const ExpectedTensor& first,
                          size_t count) {
  const std::string folder = checkpoint.folder().string();
  if (first.name == config.names.head)
    throw Error({folder, quoted(first.name), "missing, and tie_word_embeddings is false",
                 "shape " + shape_text(first.shape) + ", or tie_word_embeddings true in config.json",
                 config.prefix.empty()
                     ? "This is a base model without a head: save the ForCausalLM class."
                     : "Set the flag only if the model was trained with it: a head is never made up."});
  const bool shared = checkpoint.find(config.mixer_prefix(0) + "h_conv1d.weight") != nullptr;
  throw Error({folder, quoted(first.name),
               count > 1 ? "missing, with " + std::to_string(count - 1) + " others" : "missing",
               "shape " + shape_text(first.shape) + " (" + first.meaning + ")",
               shared ? "One convolution for all streams (h_conv1d, FLA until 2024-07) is not supported."
                      : "Is config.json the one of these weights, and are all files there?"});
}

[[noreturn]] void unexpected(const Checkpoint& checkpoint, const ModelConfig& config, const TensorInfo& first,
                             size_t count) {
  std::string why = "a tensor of this model", advice = "Is config.json the one of these weights?";
  const std::string& name = first.name;
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (has("attn_res_") || has("mlp_res_") || has("res_proj") || has("res_norm"))
    advice = "Attention residuals (AttnRes) are not supported.";
  else if (has("conv1d"))
    advice = "Short convolutions are not part of this model, or use_short_conv is false.";
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

// In pieces whose pages are given back: two heads of a large model would fill the memory.
bool equal_bytes(const Checkpoint& checkpoint, const TensorInfo& a, const TensorInfo& b) {
  constexpr size_t kPiece = size_t(32) << 20;
  const TensorData left = checkpoint.data(a), right = checkpoint.data(b);
  if (left.bytes.size() != right.bytes.size()) return false;
  for (size_t at = 0; at < left.bytes.size(); at += kPiece) {
    const size_t count = std::min(kPiece, left.bytes.size() - at);
    const auto l = left.bytes.subspan(at, count), r = right.bytes.subspan(at, count);
    const bool same = std::memcmp(l.data(), r.data(), count) == 0;
    if (!left.owner) release_pages(l);
    if (!right.owner) release_pages(r);
    if (!same) return false;
  }
  return true;
}

// R13: the decay is computed in at least float32, but what was stored in 16 bits has been rounded already.
void note_decay_dtypes(const Checkpoint& checkpoint, const std::vector<ExpectedTensor>& expected,
                       ModelConfig& config) {
  for (const std::string name : {"A_log", "dt_bias"}) {
    std::set<std::string> dtypes;
    bool narrow = false;
    for (const ExpectedTensor& want : expected)
      if (const TensorInfo* tensor = want.name.ends_with("." + name) ? checkpoint.find(want.name) : nullptr) {
        dtypes.insert(tensor->dtype_text);
        narrow |= dtype_bits(tensor->dtype) < 32;
      }
    std::string list;
    for (const auto& dtype : dtypes) list += (list.empty() ? "" : ", ") + dtype;
    if (list.empty()) continue;
    if (narrow)
      config.warnings.push_back(name + " is stored as " + list +
                                ": the decay was rounded when it was saved");
    else
      config.notes.push_back(name + " is stored as " + list);
  }
}

}  // namespace

std::string bias_of(const std::string& weight) { return weight.substr(0, weight.rfind("weight")) + "bias"; }

void add_attention_tensors(TensorList& list, const AttentionConfig& a, int64_t hidden) {
  const int64_t q = a.heads * a.head_dim, kv = a.kv_heads * a.head_dim;
  list.add("q_proj.weight", {q, hidden}, "H d, D");
  list.add("k_proj.weight", {kv, hidden}, "H_kv d, D");
  list.add("v_proj.weight", {kv, hidden}, "H_kv d, D");
  list.add_if(a.qkv_bias, "q_proj.bias", {q}, "H d");
  list.add_if(a.qkv_bias, "k_proj.bias", {kv}, "H_kv d");
  list.add_if(a.qkv_bias, "v_proj.bias", {kv}, "H_kv d");
  list.add("o_proj.weight", {hidden, q}, "D, H d");
  list.add_if(a.o_bias, "o_proj.bias", {hidden}, "D");
}

std::vector<ExpectedTensor> model_tensors(const ModelConfig& c,
                                          const std::function<void(TensorList&, int64_t)>& mixer) {
  const int64_t D = c.hidden_size, I = c.intermediate;
  std::vector<ExpectedTensor> out;
  TensorList root(out, c.prefix);
  const auto add_norm = [&](TensorList& list, const std::string& name) {
    list.add(name, {D}, "D");
    list.add_if(c.layer_norm, bias_of(name), {D}, "D");
  };
  const auto add_matrix = [&](TensorList& list, const std::string& name, std::vector<int64_t> shape, const char* text) {
    const int64_t rows = shape[0];
    list.add(name + ".weight", std::move(shape), text);
    list.add_if(c.mlp_bias, name + ".bias", {rows}, "its rows");
  };
  root.add(c.names.embedding, {c.vocab, D}, "V, D");
  for (int64_t i = 0; i < c.layers; ++i) {
    if (out.size() > kMostTensors)
      throw Error({"config.json", "tensors", "more than " + thousands(kMostTensors) + " for " + std::to_string(c.layers) + " layers",
                   "a model that can be listed", "Fewer layers, or fewer memories in each."});
    TensorList block(out, c.layer_prefix(i)), inner(out, c.mixer_prefix(i));
    add_norm(block, c.names.mixer_norm);
    if (c.is_attention(i))
      add_attention_tensors(inner, *c.attention[size_t(i)], D);
    else
      mixer(inner, i);
    if (I == 0) continue;
    add_norm(block, c.names.mlp_norm);
    if (!c.names.mlp_gate.empty())
      add_matrix(block, c.names.mlp_gate, {c.fused_mlp ? 2 * I : I, D}, c.fused_mlp ? "2I, D" : "I, D");
    if (!c.fused_mlp) add_matrix(block, c.names.mlp_up, {I, D}, "I, D");
    add_matrix(block, c.names.mlp_down, {D, I}, "D, I");
  }
  add_norm(root, c.names.final_norm);
  if (!c.tied) out.push_back({c.names.head, {c.vocab, D}, "V, D"});
  return out;
}

void check_tensors(const Checkpoint& checkpoint, const std::vector<ExpectedTensor>& expected,
                   ModelConfig& config) {
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
  std::map<std::string, size_t> unused;  // by the name without the layer
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (names.contains(tensor.name)) continue;
    if (ignorable(tensor.name, config)) {
      if (tensor.name != config.names.head) ++unused[without_layer(tensor.name, config)];
      continue;
    }
    if (!first_extra) first_extra = &tensor;
    ++extra;
  }
  if (first_extra) unexpected(checkpoint, config, *first_extra, extra);
  for (const auto& [name, count] : unused)
    config.notes.push_back("not used: " + printable(name, 120) + " of " + std::to_string(count) +
                           (count == 1 ? " layer" : " layers") + ", stored by older code");
  note_decay_dtypes(checkpoint, expected, config);
}

void check_tied_head(const Checkpoint& checkpoint, ModelConfig& config) {
  const TensorInfo* head = config.tied ? checkpoint.find(config.names.head) : nullptr;
  const TensorInfo* embedding = checkpoint.find(config.prefix + config.names.embedding);
  if (!head || !embedding) return;
  const bool same =
      head->shape == embedding->shape && head->dtype == embedding->dtype && equal_bytes(checkpoint, *head, *embedding);
  if (same)
    config.notes.push_back("the stored " + config.names.head + " equals the embedding");
  else
    config.warnings.push_back("the stored " + config.names.head +
                              " differs from the embedding, which is used for the logits");
}

}  // namespace slotscope::formats
