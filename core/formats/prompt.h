// Prompts with known answers and spans (spec: prompts, raven-analysis "Reference checkpoints").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/formats/tokenizer.h"
#include "core/routes.h"

namespace slotscope::formats {

struct Prompt {
  std::string name;               // "password · 512", "ids", a file name
  std::vector<int32_t> ids;
  bool has_text = false;
  std::string text;
  std::vector<std::pair<int64_t, int64_t>> char_offsets;  // per id, code points of text
  std::vector<Span> spans;        // token axis: needle, key, query, and "answer" once generated (the engine adds it)
  std::vector<uint8_t> roles;     // per id: 1 = retrieval
  bool has_answer = false;
  std::string answer;             // expected text
  std::vector<int32_t> answer_ids;  // without <eos>
  std::vector<std::pair<std::string, std::string>> parameters;  // task, length, depth, seed, haystack, key
};

Prompt prompt_from_text(const Tokenizer& tokenizer, std::string text, std::string name, bool add_special = true);
Prompt prompt_from_ids(std::vector<int32_t> ids, std::string name);
// A JSON array of ints (one prompt) or of arrays. Throws Error with the position of what is wrong.
std::vector<Prompt> prompts_from_ids_file(const std::string& path);

struct PasskeyOptions {
  int64_t length = 512;             // prompt tokens with <bos>, without the answer
  double depth = -1;                // 0..1: place of the needle in the haystack; < 0: drawn from the seed
  uint64_t seed = 0;
  std::string haystack = "noise";   // noise, or the path of a text file
  std::string key;                  // empty: 6 to 10 characters of A-Z a-z 0-9 from the seed
  bool add_special = true;          // --no-bos clears it
};
// `<bos>` + haystack part 1 + " The password is KEY. Remember it. " + part 2 + " Now tell me the password = ". The same options
// give the same prompt on every platform. Throws Error(usage) when `length` has no room for needle and question.
Prompt make_passkey(const Tokenizer& tokenizer, const PasskeyOptions& options);

}  // namespace slotscope::formats
