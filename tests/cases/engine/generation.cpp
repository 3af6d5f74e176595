// The bundled checkpoint answers its own password prompts; generation, roles, spans, exactness, sampling.
#include <chrono>
#include <set>

#include "tests/cases/engine/helpers.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

formats::Prompt passkey(const formats::Tokenizer& tokenizer, int64_t length, uint64_t seed, const std::string& haystack = "noise") {
  formats::PasskeyOptions options;
  options.length = length;
  options.seed = seed;
  options.haystack = haystack;
  return formats::make_passkey(tokenizer, options);
}

}  // namespace

SLOTSCOPE_CASE(bundled_checkpoint_answers) {
  const auto folder = t.resource("checkpoints/raven-passkey");
  const auto tokenizer = formats::Tokenizer::load(folder);
  const auto model = load_model(folder, "float32", t.device());
  std::vector<formats::Prompt> prompts;
  for (const int64_t length : {256, 512})
    for (const uint64_t seed : {0, 1, 2}) prompts.push_back(passkey(*tokenizer, length, seed));
  prompts.push_back(passkey(*tokenizer, 512, 3, t.data("data/shakespeare-excerpt.txt").string()));
  prompts.push_back(passkey(*tokenizer, 1024, 4));
  const auto run = run_prompts(*model, prompts, capture("route"), tokenizer.get());
  int exact = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    exact += run->outcome.runs[i].exact.value_or(false);
    if (!run->outcome.runs[i].exact.value_or(false))
      t.note(prompts[i].name + ": '" + run->outcome.runs[i].output_text + "' for '" + prompts[i].answer + "'");
  }
  CHECK_EQ(exact, int(prompts.size()));
  t.note(std::to_string(exact) + " of " + std::to_string(prompts.size()) + " exact in " + std::to_string(run->outcome.seconds) + " s");
}
