#include "core/formats/sweep_prompts.h"

#include <bit>
#include <charconv>

#include "core/error.h"
#include "core/formats/random.h"
#include "core/formats/sha256.h"

namespace slotscope::formats {
namespace {

// One draw after the other, so that neighbouring lengths, depths and numbers share nothing: the same key at every length would make
// the lengths' accuracies depend on each other.
int64_t prompt_seed(const SweepPromptOptions& o) {
  uint64_t seed = o.seed;
  const uint64_t depth = o.depth ? std::bit_cast<uint64_t>(*o.depth + 0.0) : UINT64_MAX;  // + 0.0: -0 is 0
  for (const uint64_t word : {uint64_t(o.length), depth, uint64_t(o.number)}) seed = SplitMix64(SplitMix64(seed).next() ^ word).next();
  return int64_t(seed >> 1);
}

std::string digest_of(const std::vector<int32_t>& ids) {
  std::string bytes;
  for (const int32_t id : ids)
    for (int shift = 0; shift < 32; shift += 8) bytes += char(uint32_t(id) >> shift & 0xFF);
  return sha256_hex(bytes);
}

}  // namespace

SweepPrompt make_sweep_prompt(const Tokenizer& tokenizer, const SweepPromptOptions& o) {
  SweepPrompt out;
  out.seed = prompt_seed(o);
  out.haystack = o.haystack != "mixed" ? o.haystack : o.number % 2 == 0 ? "noise" : "shakespeare";
  PasskeyOptions passkey{.length = o.length, .depth = o.depth.value_or(-1), .seed = uint64_t(out.seed), .haystack = out.haystack,
                         .add_special = o.add_special};
  // The key, and with it the length of the answer, is drawn from the seed whatever the prompt's length is; its number of tokens can
  // still depend on what stands before it.
  int64_t answer = o.total ? 8 : -1;
  for (int round = 0;; ++round) {
    passkey.length = o.length - answer - 1;
    if (passkey.length < 1)
      throw Error({.item = "--lengths", .found = std::to_string(o.length) + " tokens in all",
                   .expected = "room for the needle, the question, the answer and <eos>", .advice = "Choose longer prompts"},
                  Error::Kind::usage);
    out.prompt = make_passkey(tokenizer, passkey);
    const auto tokens = int64_t(out.prompt.answer_ids.size());
    if (!o.total || tokens == answer) break;
    if (round == 8)
      throw Error({.item = "--lengths", .found = std::to_string(o.length) + " tokens in all cannot be hit exactly with this tokenizer",
                   .advice = "Use --length-counts prompt"},
                  Error::Kind::usage);
    answer = tokens;
  }
  out.digest = digest_of(out.prompt.ids);
  for (const auto& [key, value] : out.prompt.parameters)
    if (key == "depth") std::from_chars(value.data(), value.data() + value.size(), out.place);
  return out;
}

}  // namespace slotscope::formats
