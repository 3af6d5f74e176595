// The "normalizer" section of tokenizer.json: what changes the text before it is cut.
#pragma once

#include <memory>
#include <vector>

#include "core/formats/aligned_text.h"
#include "core/formats/regex.h"

namespace slotscope::formats {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Rewrites every text segment.
  virtual void apply(AlignedText& text, const Deadline& deadline) const = 0;
};
using Normalizers = std::vector<std::shared_ptr<const Normalizer>>;

// Sequences are unrolled. Throws Error (naming the item) for a type or option that cannot be followed.
Normalizers read_normalizer(const JsonItem& item);

// Lists of one section are unrolled into one list of at most this many steps.
inline constexpr size_t kMaxSteps = 64;
inline constexpr int kMaxSequenceDepth = 10;

}  // namespace slotscope::formats
