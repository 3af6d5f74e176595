// Single sections of tokenizer.json, for the cases that look at them alone.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/formats/normalizers.h"
#include "core/formats/pre_tokenizers.h"
#include "core/formats/tokenizer.h"
#include "core/formats/tokenizer_json.h"
#include "tests/cases/case.h"

namespace slotscope::testing {

inline void needs_icu(Context& t) {
  if (!formats::has_all_tokenizers()) t.skip("this build has no Unicode tables and no regular expressions");
}

struct Piece {
  std::string text;
  uint32_t begin, end;  // bytes of the original
  bool operator==(const Piece&) const = default;
};

inline std::vector<Piece> pieces_of(const formats::AlignedText& text) {
  std::vector<Piece> pieces;
  for (const auto& s : text.segments()) {
    const auto span = text.span(s.begin, s.end);
    pieces.push_back({std::string(text.text_of(s)), span.begin, span.end});
  }
  return pieces;
}

inline std::vector<std::string> texts_of(const std::vector<Piece>& pieces) {
  std::vector<std::string> texts;
  for (const Piece& p : pieces) texts.push_back(p.text);
  return texts;
}

// The pieces that a "pre_tokenizer" section cuts a text into.
inline std::vector<Piece> cut(const nlohmann::json& section, const std::string& text) {
  const std::string file = "tokenizer.json";
  formats::AlignedText aligned(text);
  const formats::Deadline deadline(text.size());
  for (const auto& step : formats::read_pre_tokenizer(formats::JsonItem(section, file, "pre_tokenizer")))
    step->apply(aligned, deadline);
  return pieces_of(aligned);
}

// The text that a "normalizer" section makes, with the bytes of the original that each of its bytes stands
// for.
inline formats::AlignedText normalised(const nlohmann::json& section, const std::string& text) {
  const std::string file = "tokenizer.json";
  formats::AlignedText aligned(text);
  const formats::Deadline deadline(text.size());
  for (const auto& step : formats::read_normalizer(formats::JsonItem(section, file, "normalizer")))
    step->apply(aligned, deadline);
  return aligned;
}

inline nlohmann::json split_by(const std::string& regex, const char* behaviour = "Isolated",
                               bool invert = false) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", behaviour}, {"invert", invert}};
}

}  // namespace slotscope::testing
