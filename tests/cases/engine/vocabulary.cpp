// A vocabulary that is larger or smaller than the tokenizer (bad-inputs B29): rows without a token are not generated unless asked
// for, numbers stay, ids without a row are refused before anything runs.
#include <set>

#include "core/engine/sampler.h"
#include "core/formats/tokenizer.h"
#include "core/formats/vocabulary_rows.h"
#include "tests/cases/cli_checks.h"
#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/tiny_checkpoint.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

// `count` ids, all but the holes with a token.
class Holes : public formats::Tokenizer {
 public:
  Holes(int32_t count, std::set<int32_t> holes) : count_(count), holes_(std::move(holes)) {}
  formats::Encoding encode(std::string_view, bool) const override { return {}; }
  std::string decode(const std::vector<int32_t>& ids, bool) const override {
    std::string text;
    for (const int32_t id : ids) text += token_bytes(id);
    return text;
  }
  std::string token_text(int32_t id) const override {
    return known(id) ? "t" + std::to_string(id) : "<unused " + std::to_string(id) + ">";
  }
  std::string token_bytes(int32_t id) const override { return known(id) ? token_text(id) : ""; }
  bool is_special(int32_t) const override { return false; }
  int32_t size() const override { return count_; }
  std::string kind() const override { return "holes"; }

 private:
  bool known(int32_t id) const { return id >= 0 && id < count_ && !holes_.contains(id); }
  int32_t count_;
  std::set<int32_t> holes_;
};

bool any_has(const std::vector<std::string>& list, const std::string& part) {
  return std::any_of(list.begin(), list.end(), [&](const auto& text) { return has(text, part); });
}

}  // namespace

SLOTSCOPE_CASE(sampler_passes_over_unknown_rows) {
  std::mt19937_64 random(1);
  const std::vector<double> logits = {5, 4, 3, 2, 4};
  const auto all = engine::sample(logits, {}, {.candidates = 3}, random);
  CHECK_EQ(all.top_ids, (std::vector<int32_t>{0, 1, 4}));
  CHECK(all.id == 0 && all.passed_over == 0 && !all.best_passed_over);
  const auto same = engine::sample(logits, std::vector<bool>(5, true), {.candidates = 3}, random);
  CHECK(same.top_ids == all.top_ids && same.top_logprob == all.top_logprob && same.passed_over == 0);
  const auto some = engine::sample(logits, {false, true, true, false, true}, {.candidates = 2}, random);
  CHECK_EQ(some.top_ids, (std::vector<int32_t>{1, 4}));
  CHECK(some.id == 1 && some.passed_over == 1 && some.best_passed_over);
  CHECK_EQ(some.top_logprob[0], all.top_logprob[1]);  // of all rows
  // A list that is shorter than the row knows nothing of the rest; a hidden row below the candidates does not matter.
  const auto shorter = engine::sample(logits, {true, true, true}, {.candidates = 2}, random);
  CHECK_EQ(shorter.top_ids, (std::vector<int32_t>{0, 1}));
  CHECK(shorter.passed_over == 0 && !shorter.best_passed_over);
  const auto listed = engine::sample(logits, {true, true, true}, {.candidates = 3}, random);
  CHECK(listed.passed_over == 1 && !listed.best_passed_over);  // row 4 ties with row 1 and stands before row 2
  CHECK(!engine::sample(logits, std::vector<bool>(5, false), {}, random).finite);
  std::set<int32_t> drawn;
  for (int i = 0; i < 2000; ++i) drawn.insert(engine::sample(logits, {false, true, true, true, true}, {.temperature = 2}, random).id);
  CHECK(drawn == (std::set<int32_t>{1, 2, 3, 4}));
}

SLOTSCOPE_CASE(rows_without_a_token_are_not_generated) {
  const auto folder = t.temp();
  TinyCheckpoint::raven().write(folder);
  const auto model = load_model(folder);
  engine::RunOptions options = capture("top_ids,top_logprob,logits");
  options.generate = 12;
  const auto ids = some_ids(9, 53);
  const auto bare = run_ids(*model, ids, options);
  const Holes complete(53, {});
  const auto known = run_prompts(*model, {ids_prompt(ids)}, options, &complete);
  const auto out = bare->outcome.runs[0].output_ids;
  CHECK_EQ(known->outcome.runs[0].output_ids, out);
  CHECK(known->values("output/top_logprob") == bare->values("output/top_logprob"));
  CHECK(known->outcome.notes == bare->outcome.notes);

  // The best first token has no entry any more.
  CHECK(out[0] != 2);
  const Holes holes(50, {out[0]});
  const auto masked = run_prompts(*model, {ids_prompt(ids)}, options, &holes);
  const auto& chosen = masked->outcome.runs[0].output_ids;
  CHECK_EQ(double(chosen[0]), bare->values("output/top_ids")[1]);
  for (const int32_t id : chosen) CHECK(formats::has_token(holes, id) || id == 2);
  for (const double id : masked->values("output/top_ids")) CHECK(formats::has_token(holes, int32_t(id)) || id == 2);
  CHECK_EQ(masked->values("output/top_logprob")[0], bare->values("output/top_logprob")[1]);
  CHECK(any_has(masked->outcome.notes, "rows without a token would have been among the candidates"));
  CHECK(any_has(masked->outcome.notes, "--unused-rows"));
  // The forward pass is the same as far as the tokens are.
  const auto a = bare->values("output/logits"), b = masked->values("output/logits");
  CHECK(a.size() >= 9 * 53 && b.size() >= 9 * 53 && std::equal(a.begin(), a.begin() + 9 * 53, b.begin()));

  options.unused_rows = true;
  const auto asked = run_prompts(*model, {ids_prompt(ids)}, options, &holes);
  CHECK_EQ(asked->outcome.runs[0].output_ids, out);
  CHECK(!any_has(asked->outcome.notes, "rows without a token"));

  // What the model ends with may be chosen although the tokenizer does not know it.
  options.unused_rows = false;
  std::set<int32_t> all_but_one;
  for (int32_t id = 0; id < 53; ++id)
    if (id != 7) all_but_one.insert(id);
  const Holes single(53, all_but_one);
  const auto narrow = run_prompts(*model, {ids_prompt(ids)}, options, &single);
  for (const int32_t id : narrow->outcome.runs[0].output_ids) CHECK(id == 7 || id == 2);
}

SLOTSCOPE_CASE(ids_without_a_row_are_refused_first) {
  const auto folder = t.temp();
  TinyCheckpoint::raven().write(folder);
  const auto model = load_model(folder);
  trace::MemorySink sink;
  Progress progress;
  CHECK_ERROR(model->run({ids_prompt({1, 53})}, nullptr, capture("esl"), sink, progress), "53", "0 to 52", "53 rows");
  CHECK_ERROR(model->run({ids_prompt({1, -1})}, nullptr, capture("esl"), sink, progress), "-1", "0 to 52");
  CHECK(sink.runs.empty());  // before a file, before the device
  const Child child = run_cli({"run", folder.string(), "--ids", "1,53", "--out", (t.temp() / "x.h5").string()});
  EXPECT_CODE(child, 2, "id without a row");
  EXPECT_SAYS(child.err, "token id 53", "0 to 52");
}

SLOTSCOPE_CASE(mismatch_is_noted) {
  CHECK_EQ(formats::vocabulary_note(Holes(53, {}), 53), std::string());
  CHECK_EQ(formats::vocabulary_note(Holes(32003, {}), 32064),
           std::string("the embedding has 32,064 rows, 61 of them without a token (from <unused 32003> on): they are not chosen when text "
                       "is generated"));
  CHECK_EQ(formats::vocabulary_note(Holes(53, {4}), 53),
           std::string("the embedding has 53 rows, 1 of them without a token (<unused 4>): they are not chosen when text is generated"));
  CHECK_EQ(formats::vocabulary_note(Holes(56, {54}), 53),
           std::string("the tokenizer has 2 tokens without a row (id 53 and above; the embedding has 53 rows): a prompt with such an id is "
                       "refused"));
  CHECK(formats::rows_with_token(Holes(3, {1}), 4) == (std::vector<bool>{true, false, true, false}));
  CHECK(!formats::has_token(Holes(3, {}), -1) && !formats::has_token(Holes(3, {}), 3));
  // Through the program: the bundled checkpoint's rows are padded.
  const json info = document(run_cli({"info", bundled(t), "--json"}));
  std::vector<std::string> notes = info["notes"];
  CHECK(any_has(notes, "rows, 2 of them without a token (from <unused 258> on)"));
}
