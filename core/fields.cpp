#include "core/fields.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"

namespace slotscope {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

[[noreturn]] void bad_list(std::string_view option, std::string_view text, std::string expected) {
  throw Error({.item = std::string(option), .found = "'" + std::string(text) + "'", .expected = std::move(expected)},
              Error::Kind::usage);
}

template <class Int>
Int parse_int(std::string_view text, std::string_view option, std::string_view whole, const char* expected) {
  Int value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) bad_list(option, whole, expected);
  return value;
}

}  // namespace

const std::vector<FieldInfo>& known_fields() {
  static const std::vector<FieldInfo> fields = {
      {"route_index", "T,H_r,K", "slots selected by the router, rank order = descending selection score"},
      {"route_weight", "T,H_r,K", "route weight r of each selected slot"},
      {"log_decay", "T,H_r or T,H_r,K", "log decay a; the log gate of slot i is f = a r, with r = 1 where every slot is written"},
      {"write_strength", "T,H_r,K", "write strength s of each slot that is written; with routes s = 1 - exp(a r) (RAM-Net, PDMA: s = r)"},
      {"read_weight", "T',H,M", "read softmax over all slots at the chosen tokens read_token (RAM-Net: what each slot's value is weighted with)"},
      {"state_k", "S,H_r,M,d_k", "key part of the slot memory after state_token"},
      {"state_v", "S,H_r,M,d_v", "value part of the slot memory after state_token"},
      {"state", "S,H_r,d_v,d_k", "matrix state after state_token, slot = value channel first"},
      {"read_index", "T,H,K", "RAM-Net: slots read"},
      {"read_route_weight", "T,H,K", "RAM-Net: read address weights"},
      {"gamma", "T,H", "RAM-Net: forget factor"},
      {"lost_mass_write", "T,H", "RAM-Net: write mass outside the Top-K"},
      {"lost_mass_read", "T,H", "RAM-Net: read mass outside the Top-K"},
      {"read_mass_written", "T,H", "RAM-Net: read mass on written slots"},
      {"mass", "S,H,M", "RAM-Net: retained mass of each slot after state_token"},
      {"slot_value", "S,H,M,d_v", "RAM-Net: value of each slot after state_token"},
      {"hidden", "T,D", "residual stream after the block"},
      {"mixer_in", "T,D", "input of the sequence mixer (after its norm)"},
      {"mixer_out", "T,D", "output of the sequence mixer before the residual is added"},
      {"query", "T,H,d_k", "query before RoPE, after any norm"},
      {"key", "T,H_r,d_k", "key before RoPE, after any norm"},
      {"query_rot", "T,H,d_k", "query after RoPE"},
      {"key_rot", "T,H_r,d_k", "key after RoPE"},
      {"value", "T,H_r,d_v", "value as it enters the memory"},
      {"read_out", "T,H,d_v", "what the memory is read as, before any norm, gate or output projection"},
      {"skip", "H_r,d_v", "factor of the token's own value that is added to what is read (Mamba: D)"},
      {"state_rate", "H_r,M,d_k", "rate of each channel and state: log decay = write strength x rate (Mamba: A)"},
      {"memory_query", "T,H,K,d_k", "query in each memory that the token was sent to (mom), in the order of route_index"},
      {"memory_key", "T,H,K,d_k", "key in each memory that the token was sent to"},
      {"memory_value", "T,H,K,d_v", "value in each memory that the token was sent to"},
      {"memory_decay", "T,H,K", "log decay in each memory that the token was sent to"},
      {"memory_strength", "T,H,K", "write strength in each memory that the token was sent to"},
      {"esl", "H_r,M", "effective sequence length: writes with r != 0"},
      {"selected", "H_r,M", "how often the router selected the slot"},
      {"ties", "H_r", "tokens whose cut between rank K and K+1 was a tie"},
      {"margin", "T,H_r", "gap at the cut, in units of score + bias"},
      {"logits", "T,V", "logits of every token"},
      {"top_ids", "G,C", "candidates of each generated step, best first"},
      {"top_logprob", "G,C", "their natural-log probabilities"},
  };
  return fields;
}

namespace {
// What read attribution is made of, whatever the family.
bool attribution_field(std::string_view name) {
  for (const char* field : {"route_index", "route_weight", "log_decay", "write_strength", "read_weight", "query", "key",
                            "query_rot", "key_rot", "skip", "state_rate", "memory_query", "memory_key", "memory_decay",
                            "memory_strength"})
    if (name == field) return true;
  return false;
}

// What the address views of RAM-Net show of every token: where it writes and reads, and the mass that is left.
bool address_field(std::string_view name) {
  for (const char* field : {"route_index", "route_weight", "read_index", "read_route_weight", "gamma", "lost_mass_write", "lost_mass_read", "read_mass_written", "mass"})
    if (name == field) return true;
  return false;
}
}  // namespace

const FieldInfo* find_field(std::string_view name) {
  for (const auto& field : known_fields())
    if (field.name == name) return &field;
  return nullptr;
}

bool glob_match(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string> expand_fields(std::string_view patterns) {
  std::vector<bool> wanted(known_fields().size());
  for (std::string_view pattern : split(patterns, ',')) {
    bool found = false;
    for (size_t i = 0; i < known_fields().size(); ++i) {
      const auto name = known_fields()[i].name;
      const bool route = pattern == "route" && (name == "route_index" || name == "route_weight" || name == "selected" || name == "esl");
      const bool attribution = pattern == "attribution" && attribution_field(name);
      const bool addresses = pattern == "addresses" && address_field(name);
      if (route || attribution || addresses || glob_match(pattern, name)) wanted[i] = found = true;
    }
    if (!found) {
      std::string list = "route, attribution, addresses";
      for (const auto& field : known_fields()) list += ", " + std::string(field.name);
      throw Error({.item = "--capture", .found = "no field matches '" + std::string(pattern) + "'",
                   .expected = "names or globs of: " + list}, Error::Kind::usage);
    }
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) names.emplace_back(known_fields()[i].name);
  return names;
}

std::vector<int> parse_index_list(std::string_view text, std::string_view option, int limit) {
  static constexpr const char* form = "a list such as 0,2-3";
  std::vector<int> list;
  for (std::string_view part : split(text, ',')) {
    const size_t dash = part.find('-');
    const int first = parse_int<int>(part.substr(0, dash), option, text, form);
    const int last = dash == std::string_view::npos ? first : parse_int<int>(part.substr(dash + 1), option, text, form);
    if (last < first) bad_list(option, text, form);
    if (limit >= 0 && last >= limit)
      bad_list(option, text, "indices from 0 to " + std::to_string(limit - 1));
    if (last - first > 1'000'000) bad_list(option, text, form);
    for (int i = first; i <= last; ++i) list.push_back(i);
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

std::vector<std::pair<int64_t, int64_t>> parse_ranges(std::string_view text, std::string_view option) {
  static constexpr const char* form = "half-open token ranges such as 0:64 or 0:64,100:200";
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (std::string_view part : split(text, ',')) {
    const size_t colon = part.find(':');
    if (colon == std::string_view::npos) bad_list(option, text, form);
    const auto begin = parse_int<int64_t>(part.substr(0, colon), option, text, form);
    const auto end = parse_int<int64_t>(part.substr(colon + 1), option, text, form);
    if (end <= begin) bad_list(option, text, form);
    ranges.emplace_back(begin, end);
  }
  std::sort(ranges.begin(), ranges.end());
  std::vector<std::pair<int64_t, int64_t>> merged;
  for (const auto& r : ranges) {
    if (!merged.empty() && r.first <= merged.back().second)
      merged.back().second = std::max(merged.back().second, r.second);
    else
      merged.push_back(r);
  }
  return merged;
}

}  // namespace slotscope
