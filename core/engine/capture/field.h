// Capture fields as the engine knows them; names are those of core/fields.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace slotscope::engine {

enum class Field : uint8_t {
  route_index,
  route_weight,
  log_decay,
  write_strength,
  read_weight,
  state_k,
  state_v,
  state,
  hidden,
  mixer_in,
  mixer_out,
  query,
  key,
  query_rot,
  key_rot,
  value,
  read_out,
  skip,
  state_rate,
  memory_query,
  memory_key,
  memory_value,
  memory_decay,
  memory_strength,
  read_index,
  read_route_weight,
  gamma,
  lost_mass_write,
  lost_mass_read,
  read_mass_written,
  mass,
  slot_value,
  esl,
  selected,
  ties,
  margin,
  logits,
  top_ids,
  top_logprob,
};
inline constexpr int kFieldCount = int(Field::top_logprob) + 1;

// What is stored at state_token, not at every token.
inline constexpr std::array<Field, 5> kStateFields = {Field::state_k, Field::state_v, Field::state, Field::mass, Field::slot_value};

std::string_view field_name(Field);
// Nothing for a name of core/fields.h that no family of the engine has yet.
std::optional<Field> field_of(std::string_view name);

}  // namespace slotscope::engine
