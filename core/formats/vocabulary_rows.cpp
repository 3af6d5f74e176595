#include "core/formats/vocabulary_rows.h"

#include <algorithm>

#include "core/formats/json.h"

namespace slotscope::formats {

bool has_token(const Tokenizer& tokenizer, int32_t id) {
  return id >= 0 && id < tokenizer.size() && tokenizer.token_text(id) != "<unused " + std::to_string(id) + ">";
}

std::vector<bool> rows_with_token(const Tokenizer& tokenizer, int64_t rows) {
  std::vector<bool> known(static_cast<size_t>(std::max<int64_t>(rows, 0)));
  for (size_t id = 0; id < known.size() && id < size_t(tokenizer.size()); ++id) known[id] = has_token(tokenizer, int32_t(id));
  return known;
}

std::string vocabulary_note(const Tokenizer& tokenizer, int64_t rows) {
  const std::vector<bool> known = rows_with_token(tokenizer, rows);
  std::string text;
  if (const auto unused = std::count(known.begin(), known.end(), false); unused > 0) {
    const auto first = std::find(known.begin(), known.end(), false) - known.begin();
    text = "the embedding has " + thousands(uint64_t(rows)) + " rows, " + thousands(uint64_t(unused)) +
           (unused == 1 ? " of them without a token (" : " of them without a token (from ") + tokenizer.token_text(int32_t(first)) +
           " on): they are not chosen when text is generated";
    if (unused == 1) text.replace(text.find(" on)"), 4, ")");
  }
  int64_t beyond = 0, lowest = -1;
  for (int64_t id = rows; id < tokenizer.size(); ++id)
    if (has_token(tokenizer, int32_t(id)) && beyond++ == 0) lowest = id;
  if (beyond > 0)
    text += (text.empty() ? "" : "; ") + std::string("the tokenizer has ") + thousands(uint64_t(beyond)) +
            (beyond == 1 ? " token" : " tokens") + " without a row (id " + std::to_string(lowest) + (beyond == 1 ? "" : " and above") +
            "; the embedding has " + thousands(uint64_t(rows)) + " rows): a prompt with such an id is refused";
  return text;
}

}  // namespace slotscope::formats
