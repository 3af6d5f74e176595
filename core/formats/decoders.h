// The "decoder" section of tokenizer.json: how tokens become text again. Everything works on raw bytes: a cut
// character stays cut, where the public library would put U+FFFD.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/formats/tokenizer_item.h"

namespace slotscope::formats {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Changes the list of tokens (their texts, in order).
  virtual void apply(std::vector<std::string>& tokens) const = 0;
  // What one token stands for inside a text; steps that depend on the place in the text leave it as it is.
  virtual std::string alone(std::string token) const = 0;
  virtual bool byte_level() const { return false; }
};
using Decoders = std::vector<std::shared_ptr<const Decoder>>;

// Sequences are unrolled. Throws Error (naming the item) for a type or option that cannot be followed.
Decoders read_decoder(const JsonItem& item);

}  // namespace slotscope::formats
