// Unicode properties and normalization forms. All but white space come from ICU; a build without it
// (SLOTSCOPE_TOKENIZERS off) refuses a tokenizer that needs them at load, so that nothing here is called
// there.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/formats/aligned_text.h"

namespace slotscope::formats::unicode {

bool is_white_space(uint32_t c);  // White_Space of the Unicode Character Database; needs no ICU
bool is_word(uint32_t c);         // \w: Alphabetic, marks, decimal digits, connectors, join controls
bool is_numeric(uint32_t c);      // general category N
bool is_punctuation(uint32_t c);  // general category P as of Unicode 8 (see unicode.cpp), and all of ASCII's !"#$%&'()*+,-./:;<=>?@[\]^_`{|}~
bool is_mark(uint32_t c);         // general category M as of Unicode 9
// Lower case of one character alone (at most three code points); their number.
int lowercase(uint32_t c, uint32_t out[3]);

enum class Form { nfc, nfd, nfkc, nfkd };
bool is_normalized(Form form, std::string_view text);
// The form's characters with what each replaces in the old text, as the public library counts it: of the
// characters that one old character becomes the first replaces it and the others are new; a composed one
// replaces all that it is made of.
std::vector<Change> normalize(Form form, std::string_view text);
// Ends of the extended grapheme clusters, in bytes.
std::vector<size_t> grapheme_ends(std::string_view text);

}  // namespace slotscope::formats::unicode
