// The prompts of a sweep: each follows from the sweep's seed, its length, its depth and its number alone, whatever model reads it and
// whatever else is in the sweep.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/formats/prompt.h"

namespace slotscope::formats {

// The text behind --haystack shakespeare: an excerpt of 64,734 bytes (public domain), built into the program.
std::string_view shakespeare_excerpt();

struct SweepPromptOptions {
  int64_t length = 512;
  bool total = false;            // length counts the answer and <eos> too (as the reference checkpoints' training.json does)
  std::optional<double> depth;   // 0..1; not set: drawn uniformly
  uint64_t seed = 0;             // of the sweep
  int64_t number = 0;            // which prompt of this length and depth
  std::string haystack = "noise";  // noise, shakespeare, a text file, or mixed: noise for even numbers, shakespeare for odd ones
  bool add_special = true;
};

struct SweepPrompt {
  Prompt prompt;
  int64_t seed = 0;      // make_passkey() with it, this haystack and the prompt's length gives the same prompt
  std::string haystack;  // noise, shakespeare or the file
  double place = 0;      // depth as it came out
  std::string digest;    // SHA-256 of the prompt's ids as little-endian int32, 64 hex digits
};

// The password task. Throws Error(usage) when the length has no room for needle, question and answer.
SweepPrompt make_sweep_prompt(const Tokenizer& tokenizer, const SweepPromptOptions& options);

}  // namespace slotscope::formats
