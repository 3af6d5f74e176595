// SentencePiece brings its own protobuf-lite next to the one inside LibTorch: both work in one process, before and after each other.
#include "core/formats/prompt.h"
#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/tiny_checkpoint.h"

using namespace slotscope;
using namespace slotscope::testing;

SLOTSCOPE_CASE(sentencepiece_and_matrices) {
  if (!formats::has_all_tokenizers()) t.skip("built without SentencePiece");
  const auto folder = t.temp();
  TinyCheckpoint::raven({{"vocab_size", 600}}).write(folder);
  std::filesystem::copy_file(t.data("data/sentencepiece/bpe/tokenizer.model"), folder / "tokenizer.model");
  const std::string text = "To be, or not to be: that is the question. 😀";
  const auto expected = formats::Tokenizer::load(t.data("data/sentencepiece/bpe"))->encode(text).ids;  // before LibTorch does anything
  const auto model = load_model(folder);
  const auto before = run_ids(*model, expected, capture("logits"))->values("output/logits");
  const auto tokenizer = formats::Tokenizer::load(folder);
  const formats::Prompt prompt = formats::prompt_from_text(*tokenizer, text, "text");
  CHECK_EQ(prompt.ids, expected);
  CHECK(prompt.ids.size() > 20 && prompt.ids[0] == 1);
  engine::RunOptions options = capture("logits");
  options.generate = 4;
  const auto ran = run_prompts(*model, {prompt}, options, tokenizer.get());
  const auto after = ran->values("output/logits");
  CHECK(!before.empty() && after.size() >= before.size() && std::equal(before.begin(), before.end(), after.begin()));
  // Stored are the bytes of the tokens, a character's parts as they are; the space that SentencePiece puts first is a token.
  std::string bytes;
  for (const double b : ran->values("tokens/bytes")) bytes.push_back(char(b));
  CHECK_EQ(bytes.substr(0, 4 + text.size()), "<s> " + text);
  CHECK_EQ(tokenizer->encode(text).ids, expected);
  CHECK_EQ(tokenizer->decode(expected), text);
}
