// The "post_processor" section of tokenizer.json: tokens around the text, and offsets without white space.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/formats/tokenizer.h"
#include "core/formats/tokenizer_item.h"

namespace slotscope::formats {

struct PostStep {
  // Takes white space at the edges of tokens out of the offsets.
  bool trim = false, add_prefix_space = false;
  // Puts tokens around what is there (only with special tokens).
  std::vector<int32_t> before, after;
};
using PostProcessor = std::vector<PostStep>;

// Sequences are unrolled. Throws Error (naming the item) for a type or option that cannot be followed.
PostProcessor read_post_processor(const JsonItem& item);

// Trims Encoding::offsets and byte_offsets. `character`: for each byte of the text, the number of the
// character it is in.
void trim_offsets(Encoding& encoding, std::string_view text, const std::vector<int64_t>& character,
                  bool add_prefix_space);

}  // namespace slotscope::formats
