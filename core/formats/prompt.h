// Prompts with known answers and spans (spec: prompts, raven-analysis "Reference checkpoints").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/formats/tokenizer.h"
#include "core/routes.h"

namespace slotscope::formats {

struct Prompt {
  std::string name;               // "password · 512", "ids", a file name, "niah_single_1 · 3"
  std::vector<int32_t> ids;
  bool has_text = false;
  std::string text;
  std::vector<std::pair<int64_t, int64_t>> char_offsets;  // per id, code points of text
  // Token axis. The password task: needle, key (the password), query. Imported prompts: needle, key (what is asked by), value
  // (what is asked for), query, lead-in. "answer" comes once something is generated (the engine adds it).
  std::vector<Span> spans;
  std::vector<uint8_t> roles;     // per id: 1 = retrieval
  bool has_answer = false;
  std::string answer;             // expected text
  std::string answer_lead;        // what stands between the prompt and the answer: one space, or nothing
  std::vector<int32_t> answer_ids;  // of answer_lead and answer, without <eos>
  std::vector<uint8_t> answer_roles;  // per answer id: 1 = retrieval; empty: all are
  int64_t generate = -1;          // tokens to generate when the user does not say; -1: the answer's and one more
  std::vector<std::string> references;  // the score asks for these in the output; empty: there is no score
  // task, length, depth, seed, haystack, key; imported: task, file, row, format, references (JSON), metric
  std::vector<std::pair<std::string, std::string>> parameters;
};

Prompt prompt_from_text(const Tokenizer& tokenizer, std::string text, std::string name, bool add_special = true);
Prompt prompt_from_ids(std::vector<int32_t> ids, std::string name);
// A JSON array of ints (one prompt) or of arrays. Throws Error with the position of what is wrong.
std::vector<Prompt> prompts_from_ids_file(const std::string& path);

// The tokens that hold at least one byte of [begin, end): a token that overlaps an edge belongs to the span. Empty when
// there is none.
Span token_span(const Encoding& encoding, std::string name, size_t begin, size_t end);
// What a model that answers right continues `text` with: the ids that follow the prompt when `continuation` is written
// behind it, or those of `continuation` alone where tokens grow over the seam. `prompt` are the ids of `text`.
std::vector<int32_t> continuation_ids(const Tokenizer& tokenizer, const std::string& text,
                                      const std::vector<int32_t>& prompt, const std::string& continuation,
                                      bool add_special);

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
