// What a layer's attributes say about how its memory is written and read (spec: model-zoo 17), read in one place: routes of
// layers that store a rule instead of routes, and why a quantity is undefined for a family.
#pragma once

#include <optional>
#include <string>

#include "core/trace/trace.h"

namespace slotscope::trace {

enum class RuleKind { none, stored, dense, ring, append };

struct LayerRule {
  RuleKind kind = RuleKind::none;
  std::string family;
  bool matrix = false;      // slots are the value channels of a matrix state, read by an inner product
  bool delta = false;       // delta rule: content v - S^T k
  bool key_decay = false;   // a gate per key channel
  bool channels = false;    // every channel is a memory of its own with a rate per state (mamba)
  bool decays = false;      // the family has a decay that is stored per token
  bool readout = false;     // the attributes say how it is read (traces of earlier versions do not)
  bool skip = false;        // the token's own value is added to what is read (mamba, mamba2)
  bool normalised = false;  // the readout is divided by the sum of its weights (linear_attn)
  double scale = 1;         // of the readout's inner products
  // Constants of the family that are not stored per token.
  std::optional<double> strength, keep;
};
LayerRule layer_rule(const LayerSpec& layer);

// Numbers of one head that are read per slot and token at most (256 slots x 100,000 tokens are 25.6 million).
inline constexpr int64_t kMostCells = int64_t(1) << 25;

// Routes of a layer of route_kind dense, ring or append by its rule, with strengths and decays as far as they were captured
// (HeadRoutes says how). Throws Error for a head that the layer does not have or that was not captured, and for damage.
HeadRoutes routes_by_rule(const Trace& trace, int run, const LayerSpec& layer, int head, Progress* progress);

// Why survival is undefined whatever is captured (delta rules, a decay per key channel), in words of the family; "" otherwise.
std::string survival_undefined(const LayerRule& rule);

// Where a head that owns slots lies on the axis H_r. Throws Error for a head that the layer does not have or that was not
// captured.
int64_t route_head_place(const LayerSpec& layer, int head, const std::string& file);

}  // namespace slotscope::trace
