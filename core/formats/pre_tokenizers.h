// The "pre_tokenizer" section of tokenizer.json: how the text is cut before the model sees it.
#pragma once

#include <memory>
#include <vector>

#include "core/formats/aligned_text.h"
#include "core/formats/regex.h"

namespace slotscope::formats {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Cuts (and, for ByteLevel and Metaspace, rewrites) every text segment.
  virtual void apply(AlignedText& text, const Deadline& deadline) const = 0;
  virtual bool byte_level() const { return false; }
};
using PreTokenizers = std::vector<std::shared_ptr<const PreTokenizer>>;

// Sequences are unrolled. Throws Error (naming the item) for a type or option that cannot be followed.
PreTokenizers read_pre_tokenizer(const JsonItem& item);

// Metaspace's options, shared with its decoder: prepend_scheme, or the older add_prefix_space.
enum class PrependScheme { always, first, never };
PrependScheme read_prepend_scheme(const JsonItem& item);

}  // namespace slotscope::formats
