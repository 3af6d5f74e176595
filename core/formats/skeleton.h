// The causal language model that every family shares: embedding, pre-norm blocks of a sequence mixer and an MLP, final
// norm, head (spec: model-zoo 1.7-1.13). What config.json and the tensors' names and shapes say about it; no weights.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/checkpoint.h"
#include "core/formats/config.h"

namespace slotscope::formats {

struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::string meaning;  // "[H_r M, D]"
};

// Collects the tensors of one layer's mixer below their common prefix ("model.layers.3.attn.").
class TensorList {
 public:
  TensorList(std::vector<ExpectedTensor>& out, std::string prefix) : out_(out), prefix_(std::move(prefix)) {}
  void add(std::string_view name, std::vector<int64_t> shape, std::string meaning) {
    out_.push_back({prefix_ + std::string(name), std::move(shape), std::move(meaning)});
  }
  void add_if(bool there, std::string_view name, std::vector<int64_t> shape, std::string meaning) {
    if (there) add(name, std::move(shape), std::move(meaning));
  }

 private:
  std::vector<ExpectedTensor>& out_;
  std::string prefix_;
};

// How a code base calls the parts of the skeleton. The head has no prefix; layers are "<prefix>layers.<i>.".
struct SkeletonNames {
  std::string root = "model.";  // of everything but the head; base models are saved without it
  std::string embedding = "embeddings.weight";
  std::string mixer_norm = "attn_norm.weight", mixer = "attn.";
  std::string mlp_norm = "mlp_norm.weight";
  std::string mlp_gate = "mlp.gate_proj", mlp_up = "mlp.up_proj", mlp_down = "mlp.down_proj";  // no gate: empty
  std::string final_norm = "norm.weight";
  std::string head = "lm_head.weight";
};

struct ModelConfig {
  int64_t hidden_size = 0;  // D
  int64_t layers = 0;
  int64_t vocab = 0;       // rows of the embedding tensor
  double norm_eps = 1e-6;  // block norms and final norm
  double mlp_norm_eps = 1e-6;
  int64_t intermediate = 0;  // MLP width, from the tensors; 0: blocks without an MLP
  bool fused_mlp = false;    // gate_proj holds gate and up, in this order (FLA until 2025-02)
  bool mlp_bias = false;
  bool gelu_tanh = false;    // an MLP without gate has gelu between its matrices: the tanh form in place of erf
  bool layer_norm = false;   // norms subtract the mean and have a bias (gpt_neox)
  bool parallel = false;     // mixer and MLP read the same residual (gpt_neox)
  bool tied = false;         // logits use the embedding
  std::string prefix = "model.";  // "" for base models saved without the leading part
  SkeletonNames names;
  std::vector<std::string> ignorable;  // ends of names that may be there and are not read

  std::vector<std::optional<AttentionConfig>> attention;  // [layers]; a value: softmax attention in place of the mixer

  std::vector<ConfigRow> rows;  // effective values with their sources
  std::vector<std::string> notes, warnings;

  bool is_attention(int64_t layer) const { return attention[size_t(layer)].has_value(); }
  bool hybrid() const;
  std::string layer_prefix(int64_t layer) const;  // "model.layers.3."
  std::string mixer_prefix(int64_t layer) const;  // "model.layers.3.attn."
};

// Reads what families share, step by step, into `config`; a family reads its own keys through `cfg` in between.
// Every step throws Error naming file, key, found and expected.
class ModelReader {
 public:
  // Throws Error when there are no tensors, and for attnres_block_size and quantization_config. Both references must
  // outlive the reader.
  ModelReader(const Checkpoint& checkpoint, ModelConfig& config);

  Config cfg;

  // hidden_size, num_hidden_layers, norm_eps; finds out whether names carry the root.
  // `other_eps`: the key of another code base's folders, read where norm_eps is absent.
  void read_sizes(int64_t default_hidden, int64_t default_layers, double default_eps = 1e-6,
                  const char* other_eps = nullptr);
  // The same with the eps under `eps_key` alone.
  void read_layers(int64_t default_hidden, int64_t default_layers, const char* eps_key, double default_eps);
  void find_prefix();
  int64_t read_heads(std::string_view key, int64_t fallback);
  // null or absent: `heads`. Must divide it.
  int64_t read_kv_heads(std::string_view key, int64_t heads);
  // num_v_heads; null or absent: `heads`. A multiple of it.
  int64_t read_value_heads(int64_t heads);
  // int(width * factor), the factor positive: expand, or expand_v of families with a head_dim.
  int64_t read_expanded(const char* key, double fallback, int64_t width);
  // FLA until 2025-02 (norm_first): norms inside attn and mlp, the latter with eps 1e-5 (spec: model-zoo 1.12).
  void accept_old_norms();
  // Hybrid entries, and RoPE settings where a layer uses RoPE (scaled kinds are refused). `mixer_rope`: the mixers use it too.
  // `read_use_rope`: the code base reads attn.use_rope.
  RopeSettings read_hybrid(bool mixer_rope, bool read_use_rope = false);
  // RoPE of a family that has it in every layer, with the scalings "linear" and "llama3" (spec: model-zoo 16.1). Every other
  // kind is refused by name with what it would need, and so are missing factors.
  RopeSettings read_scaled_rope(double default_theta, const char* theta_key = "rope_theta");
  // expand_k and expand_v: width per head, int(hidden_size * factor) / heads. Where the rows of the projection disagree
  // the weights decide (B23), with a warning. `rows` 0: not known.
  struct Width {
    const char *key, *misspelt;  // misspelt may be null
    double fallback;
    const char *projection, *name;  // "q_proj", "d_k"
    int64_t heads, projection_heads;
    bool misspelt_counts = true;
  };
  int64_t read_width(const Width& rule, int64_t rows);
  // vocab_size, hidden_ratio, intermediate_size, hidden_act, the tie flag; the tensors' rows count.
  void read_embedding(bool class_default_tied = false, int64_t default_vocab = 32000);
  void read_mlp(double default_ratio = 4);
  // The MLP of families without hidden_ratio: intermediate_size; rows of the first matrix count.
  void read_plain_mlp(int64_t default_width);
  // Moves rows, notes and warnings to the config. The last step.
  void finish();

  const TensorInfo* tensor(int64_t layer, std::string_view name) const;  // below layer_prefix
  // num_slots; null: d_k.
  int64_t read_slots(int64_t d_k);
  // Of the first layer that is no attention layer, below its mixer prefix: a tensor, and axis 0 or 1 of a matrix (0 when
  // there is none).
  const TensorInfo* mixer_tensor(std::string_view name) const;
  int64_t mixer_axis(std::string_view name, size_t which) const;
  [[noreturn]] void refuse(std::string item, std::string found, std::string expected, std::string advice = "") const;
  // B23-B28: keys that config.json has although they change nothing, as one note.
  void note_ignored(std::initializer_list<const char*> keys);

 private:
  void count_mlp_rows(const TensorInfo* first, const std::string& name, int64_t expected);

  const Checkpoint& checkpoint_;
  ModelConfig& c_;
};

// "input_layernorm.bias" of "input_layernorm.weight".
std::string bias_of(const std::string& weight);

// The tensors of softmax attention (spec: model-zoo 1.6), and of a whole model whose mixers are listed by `mixer`.
// lm_head.weight is not listed when tied.
void add_attention_tensors(TensorList& list, const AttentionConfig& attention, int64_t hidden);
std::vector<ExpectedTensor> model_tensors(const ModelConfig& config,
                                          const std::function<void(TensorList&, int64_t layer)>& mixer);

// All expected tensors are there with these shapes and a floating dtype, and no others but ignorable ones, which a note
// names. Adds notes on the stored dtypes of A_log and dt_bias (R13). Throws Error naming the tensor, the found and the expected shape.
void check_tensors(const Checkpoint& checkpoint, const std::vector<ExpectedTensor>& expected, ModelConfig& config);

// B27 d: when tied with a stored head, compares it with the embedding. Adds a note or a warning.
void check_tied_head(const Checkpoint& checkpoint, ModelConfig& config);

}  // namespace slotscope::formats
