// Prompts of a sweep (raven-analysis, "Reference checkpoints": lengths, depths, haystacks).
#include "core/formats/sweep_prompts.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <set>

#include "core/error.h"
#include "tests/cases/case.h"

namespace slotscope::testing {
namespace {

std::shared_ptr<const formats::Tokenizer> bytes(Context& t) {
  return formats::Tokenizer::load(t.resource("checkpoints/raven-passkey"));
}

}  // namespace

SLOTSCOPE_CASE(sweep_prompts_excerpt_is_the_file) {
  std::ifstream file(t.data("data/shakespeare-excerpt.txt"), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  CHECK_EQ(text.size(), size_t(64734));
  CHECK(formats::shakespeare_excerpt() == text);
}

SLOTSCOPE_CASE(sweep_prompts_total_counts_answer_and_eos) {
  const auto tokenizer = bytes(t);
  std::set<size_t> answers;
  for (int64_t number = 0; number < 24; ++number) {
    const auto p = formats::make_sweep_prompt(*tokenizer, {.length = 256, .total = true, .number = number, .haystack = "mixed"});
    CHECK_EQ(int64_t(p.prompt.ids.size() + p.prompt.answer_ids.size()) + 1, int64_t(256));
    CHECK_EQ(p.prompt.ids.front(), 256);  // <bos>
    CHECK_EQ(p.haystack, std::string(number % 2 == 0 ? "noise" : "shakespeare"));
    CHECK(p.place >= 0 && p.place <= 1);
    answers.insert(p.prompt.answer_ids.size());
  }
  CHECK(answers.size() > 2);  // keys of several lengths were among them, so the loop over the answer's length is tested
  const auto p = formats::make_sweep_prompt(*tokenizer, {.length = 256});
  CHECK_EQ(p.prompt.ids.size(), size_t(256));
}

SLOTSCOPE_CASE(sweep_prompts_follow_from_seed_length_depth_and_number_alone) {
  const auto tokenizer = bytes(t);
  const formats::SweepPromptOptions o{.length = 200, .depth = 0.25, .seed = 5, .number = 3, .haystack = "mixed"};
  const auto first = formats::make_sweep_prompt(*tokenizer, o), again = formats::make_sweep_prompt(*tokenizer, o);
  CHECK_EQ(first.digest, again.digest);
  CHECK_EQ(first.prompt.ids, again.prompt.ids);
  CHECK_EQ(first.digest.size(), size_t(64));
  CHECK_CLOSE(first.place, 0.25, 0);
  // The seed that is stored makes the same prompt by the ordinary way.
  const auto plain = formats::make_passkey(
      *tokenizer, {.length = 200, .depth = 0.25, .seed = uint64_t(first.seed), .haystack = first.haystack});
  CHECK_EQ(plain.ids, first.prompt.ids);
  // Another length, depth, number or seed gives another key.
  std::set<std::string> keys{first.prompt.answer};
  formats::SweepPromptOptions other = o;
  other.length = 201, keys.insert(formats::make_sweep_prompt(*tokenizer, other).prompt.answer);
  other = o, other.depth = 0.5, keys.insert(formats::make_sweep_prompt(*tokenizer, other).prompt.answer);
  other = o, other.depth.reset(), keys.insert(formats::make_sweep_prompt(*tokenizer, other).prompt.answer);
  other = o, other.number = 4, keys.insert(formats::make_sweep_prompt(*tokenizer, other).prompt.answer);
  other = o, other.seed = 6, keys.insert(formats::make_sweep_prompt(*tokenizer, other).prompt.answer);
  CHECK_EQ(keys.size(), size_t(6));
}

SLOTSCOPE_CASE(sweep_prompts_uniform_depths_cover_the_haystack) {
  const auto tokenizer = bytes(t);
  double sum = 0, squares = 0;
  constexpr int kCount = 400;
  for (int64_t number = 0; number < kCount; ++number) {
    const double at = formats::make_sweep_prompt(*tokenizer, {.length = 300, .number = number}).place;
    sum += at, squares += at * at;
  }
  const double mean = sum / kCount, variance = squares / kCount - mean * mean;
  // Of a uniform draw: 1/2 and 1/12; four standard errors (0.29 / 20 = 0.0144; 0.0745 / 20 = 0.0037).
  CHECK_CLOSE(mean, 0.5, 4 * 0.0144);
  CHECK_CLOSE(variance, 1.0 / 12, 4 * 0.0037);
}

SLOTSCOPE_CASE(sweep_prompts_without_room_are_refused) {
  const auto tokenizer = bytes(t);
  CHECK_ERROR(formats::make_sweep_prompt(*tokenizer, {.length = 60, .total = true}), "length", "at least");
  CHECK_ERROR(formats::make_sweep_prompt(*tokenizer, {.length = 5, .total = true}), "--lengths", "room");
}

}  // namespace slotscope::testing
