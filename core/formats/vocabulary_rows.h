// A model's rows against its tokenizer's ids (bad-inputs B29): vocabularies are padded, and some tokenizers know more ids than
// there are rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/formats/tokenizer.h"

namespace slotscope::formats {

// Whether the tokenizer has a token for this id; token_text() of the others is "<unused 300>".
bool has_token(const Tokenizer& tokenizer, int32_t id);
// Of each row 0 .. rows-1, whether it has a token.
std::vector<bool> rows_with_token(const Tokenizer& tokenizer, int64_t rows);
// One sentence about what does not match, or "": "the embedding has 32,064 rows, 61 of them without a token (<unused 32003> first): ...".
std::string vocabulary_note(const Tokenizer& tokenizer, int64_t rows);

}  // namespace slotscope::formats
