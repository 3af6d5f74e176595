// The Raven family read from config.json and tensor shapes, both flavours (spec: model-zoo 2, bad-inputs
// R6-R13). Free of LibTorch and of weights: it lists names and shapes only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/checkpoint.h"
#include "core/formats/config.h"
#include "core/formats/skeleton.h"

namespace slotscope::formats {

enum class Flavour { fla, goombalab };
enum class FeatureMap { swish, relu, t2r };
enum class DecayType { mamba2, gla };
enum class RouterScore { sigmoid, softmax };
enum class RouterType { lin, mlp };

struct RavenConfig : ModelConfig {
  int64_t heads = 0;         // H, query heads
  int64_t kv_heads = 0;      // H_kv = H_r: heads that own slots (equal to H in goombalab)
  int64_t d_k = 0, d_v = 0;  // per head
  int64_t slots = 0;         // M
  int64_t topk = 0;          // K
  FeatureMap feature_map = FeatureMap::swish;
  DecayType decay_type = DecayType::mamba2;
  double tau = 8;  // gate_logit_normalizer, GLA decay only
  RouterScore router_score = RouterScore::sigmoid;
  RouterType router_type = RouterType::lin;
  bool bias_rmm = false;  // r_bias: selection only
  bool output_gate = false;
  bool use_rope = false;  // in the raven layers; fla only
  double rope_theta = 10000;
  bool elementwise_affine = true;  // q_norm, k_norm, g_norm have weights
  bool o_norm_affine = true;       // o_norm has a weight (goombalab: always)
  double eps_g = 1e-6;             // g_norm: norm_eps in fla, 1e-5 in goombalab (R1)
  double eps_o = 1e-6;             // o_norm

  Flavour flavour = Flavour::fla;
  std::string flavour_reason;    // "config.json has use_rope"
  bool flavour_matters = false;  // guessed, and the other flavour would give other numbers

  int64_t key_width() const { return heads * d_k; }
  int64_t value_width() const { return heads * d_v; }
};
std::string flavour_name(Flavour);  // "fla", "goombalab"

// Reads config.json and compares it with the tensors' names, shapes and dtypes. flavour: "" detect (order of
// model-zoo 2.7), "fla", "goombalab". Throws Error for a missing config, unsupported options by name
// (attnres_block_size, powlu, alpha, router_alpha, ...), missing, unexpected or misshapen tensors (name,
// found and expected shape). Usage error: unknown flavour.
RavenConfig read_raven_config(const Checkpoint& checkpoint, const std::string& flavour = "");

// Every tensor the model needs, in the order of the forward pass. lm_head.weight is not listed when tied.
void add_raven_tensors(TensorList& list, const RavenConfig& config);
std::vector<ExpectedTensor> raven_tensors(const RavenConfig& config);

// What only values can tell; reads the small tensors r_bias (R10: finite? range) and, when tied with a stored
// head, compares it with the embedding (B27 d). Notes and warnings are appended to `config`. Throws Error for
// a bias that is not finite.
void check_raven_values(const Checkpoint& checkpoint, RavenConfig& config);

}  // namespace slotscope::formats
