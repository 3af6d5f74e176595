#include "core/engine/capture/field.h"

namespace slotscope::engine {
namespace {

constexpr std::string_view kNames[kFieldCount] = {
    "route_index", "route_weight", "log_decay", "write_strength", "read_weight", "state_k", "state_v",   "state",
    "hidden",      "mixer_in",     "mixer_out", "query",          "key",         "query_rot", "key_rot", "value",
    "read_out",    "skip",         "state_rate",
    "memory_query", "memory_key", "memory_value", "memory_decay", "memory_strength",
    "read_index",  "read_route_weight", "gamma", "lost_mass_write", "lost_mass_read", "read_mass_written", "mass", "slot_value",
    "esl",         "selected",     "ties",      "margin",         "logits",      "top_ids", "top_logprob",
};

}  // namespace

std::string_view field_name(Field field) { return kNames[int(field)]; }

std::optional<Field> field_of(std::string_view name) {
  for (int i = 0; i < kFieldCount; ++i)
    if (kNames[i] == name) return Field(i);
  return std::nullopt;
}

}  // namespace slotscope::engine
