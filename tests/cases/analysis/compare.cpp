#include "core/analysis/compare.h"

#include <cstring>

#include "tests/cases/analysis/twin.h"
#include "tests/cases/case.h"

using namespace slotscope::analysis;
using slotscope::HeadRoutes;
using slotscope::Span;
using slotscope::trace::RunInfo;
namespace twin = slotscope::testing::twin;
using Tokens = std::vector<int64_t>;

namespace {

// A run whose tokens are the given pieces; special pieces ("<bos>") have no characters. The first `prompt` pieces
// are the prompt, and its text is stored with offsets.
RunInfo made(const std::vector<std::string>& pieces, int64_t prompt, bool text = true, int first_id = 0) {
  RunInfo run;
  run.tokens = run.planned_tokens = int64_t(pieces.size());
  run.prompt_tokens = prompt;
  run.byte_offsets = {0};
  run.has_text = text;
  int64_t characters = 0;
  for (size_t t = 0; t < pieces.size(); ++t) {
    const bool special = pieces[t].starts_with("<");
    run.ids.push_back(first_id + int(t));
    run.special.push_back(special);
    run.roles.push_back(0);
    run.bytes.insert(run.bytes.end(), pieces[t].begin(), pieces[t].end());
    run.byte_offsets.push_back(int64_t(run.bytes.size()));
    if (int64_t(t) >= prompt || !text) continue;
    run.char_begin.push_back(characters);
    if (!special) {
      run.text += pieces[t];
      for (const char c : pieces[t]) characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    }
    run.char_end.push_back(characters);
  }
  return run;
}

std::shared_ptr<HeadData> head_of(const HeadRoutes& routes) {
  auto data = std::make_shared<HeadData>();
  data->routes = routes;
  data->writes = group_writes(routes);
  return data;
}

// Four tokens, three slots, top 1: writes of strength s into one slot each.
HeadRoutes one_slot_each(const std::vector<int>& slot, const std::vector<double>& strength, int slots) {
  HeadRoutes r;
  r.slots = slots, r.top_k = 1;
  r.rows = r.tokens = int64_t(slot.size());
  for (size_t t = 0; t < slot.size(); ++t) {
    r.index.push_back(uint32_t(slot[t]));
    r.weight.push_back(1);
    r.strength.push_back(strength[t]);
    r.log_decay.push_back(std::log(1 - strength[t]));
  }
  return r;
}

void set_reads(HeadData& head, const Tokens& tokens, const std::vector<double>& p) {
  head.read_token = tokens;
  head.read_heads = {0};
  head.read_weight = p;
}

}  // namespace

SLOTSCOPE_CASE(equal_ids_are_linked_by_position) {
  const RunInfo a = made({"<bos>", "a", "b", "c", "x", "y"}, 4), b = made({"<bos>", "a", "b", "c", "z"}, 4);
  const TokenAlignment tokens = align_tokens(a, b);
  CHECK(tokens.same_tokens && tokens.note.empty() && tokens.to_b.empty());
  CHECK_EQ(tokens.b_of(3), int64_t(3));
  CHECK_EQ(tokens.b_of(4), int64_t(4));  // the answers differ, their places do not
  CHECK_EQ(tokens.b_of(5), int64_t(-1));
  CHECK_EQ(tokens.a_of(4), int64_t(4));
  CHECK_EQ(tokens.a_of(5), int64_t(-1));
  CHECK_EQ(tokens.b_of(-1), int64_t(-1));
  CHECK(tokens.b_range(2, 6) == std::pair(int64_t(2), int64_t(6)));
}

SLOTSCOPE_CASE(a_run_that_ended_early_keeps_its_positions) {
  const RunInfo a = made({"<bos>", "a", "b", "c", "d"}, 5);
  RunInfo b = made({"<bos>", "a"}, 5);
  b.text = a.text, b.planned_tokens = 5;
  const TokenAlignment tokens = align_tokens(a, b);
  CHECK(tokens.same_tokens);
  CHECK_EQ(tokens.b_of(1), int64_t(1));
  CHECK_EQ(tokens.b_of(2), int64_t(-1));
  CHECK_EQ(align_tokens(a, made({}, 5)).b_of(0), int64_t(-1));
}

// The ids agree by accident, the bytes say what they are.
SLOTSCOPE_CASE(equal_ids_of_other_vocabularies_are_not_the_same_tokens) {
  const TokenAlignment tokens = align_tokens(made({"a", "b"}, 2), made({"b", "a"}, 2));
  CHECK(!tokens.same_tokens);
  CHECK(tokens.note.find("differ from character 0") != std::string::npos);
}

SLOTSCOPE_CASE(different_tokens_are_linked_by_character) {
  // Characters 0 ... 6: a b c d é f g; the answer "hi" follows.
  const RunInfo a = made({"<bos>", "a", "b", "c", "d", "é", "f", "g", "h", "i"}, 8);
  const RunInfo b = made({"<s>", "ab", "cdé", "<x>", "fg", "hi"}, 5, true, 100);
  const TokenAlignment tokens = align_tokens(a, b);
  CHECK(!tokens.same_tokens);
  CHECK_EQ(tokens.note, std::string("Different tokens (8 in A, 5 in B): linked by character offset."));
  CHECK_EQ(tokens.to_b, (Tokens{0, 1, 1, 2, 2, 2, 4, 4, 5, 5}));
  CHECK_EQ(tokens.to_a, (Tokens{0, 1, 3, 6, 6, 8}));
  CHECK(tokens.b_range(3, 6) == std::pair(int64_t(2), int64_t(4)));
  CHECK(tokens.a_range(2, 3) == std::pair(int64_t(3), int64_t(6)));
  CHECK(tokens.b_range(0, 10) == std::pair(int64_t(0), int64_t(6)));
}

// Without a stored text the decoded bytes count; a character that is split over tokens belongs to all of them.
SLOTSCOPE_CASE(decoded_bytes_serve_without_text) {
  const std::string smile = "\xF0\x9F\x98\x80";
  const RunInfo a = made({"<bos>", "x", smile.substr(0, 1), smile.substr(1, 1), smile.substr(2), "y"}, 6, false);
  const RunInfo b = made({"x", smile, "y"}, 3, false, 50);
  const TokenAlignment tokens = align_tokens(a, b);
  CHECK_EQ(tokens.to_b, (Tokens{0, 0, 1, 1, 1, 2}));
  CHECK_EQ(tokens.to_a, (Tokens{1, 2, 5}));
}

SLOTSCOPE_CASE(offsets_of_a_file_may_be_anything) {
  RunInfo a = made({"a", "b", "c"}, 3), b = made({"ab", "c"}, 2, true, 9);
  a.char_begin = {INT64_MAX, -5, 1}, a.char_end = {INT64_MIN, 7, 0};
  const TokenAlignment tokens = align_tokens(a, b);
  for (int64_t i = 0; i < 3; ++i) CHECK(tokens.b_of(i) >= -1 && tokens.b_of(i) < 2);
  for (int64_t i = 0; i < 2; ++i) CHECK(tokens.a_of(i) >= -1 && tokens.a_of(i) < 3);
  a.char_begin.clear();  // fewer than tokens: the bytes serve
  CHECK_EQ(align_tokens(a, b).to_b, (Tokens{0, 0, 1}));
}

SLOTSCOPE_CASE(rows_are_matched_by_read_overlap) {
  auto a = head_of(one_slot_each({0, 1, 2, 0}, {.5, .5, .5, .5}, 3));
  auto b = head_of(one_slot_each({0, 1, 2, 0}, {.5, .5, .5, .5}, 3));
  const TokenAlignment tokens{.same_tokens = true, .tokens_a = 4, .tokens_b = 4};
  CHECK_EQ(match_rows(*a, *b, tokens).why, std::string("rows cannot be matched: no reads were captured in A"));
  // Reads at tokens 2 and 3 of both (token 1 only of A): A slot 0 ~ B slot 2, A slot 1 ~ B slot 0.
  set_reads(*a, {1, 2, 3}, {1, 0, 0, .7, .3, 0, .2, .8, 0});
  CHECK_EQ(match_rows(*a, *b, tokens).why, std::string("rows cannot be matched: no reads were captured in B"));
  set_reads(*b, {3, 2}, {.9, 0, .1, .25, 0, .75});
  const RowMatch m = match_rows(*a, *b, tokens);
  CHECK_EQ(m.why, std::string());
  CHECK_EQ(m.read_tokens, int64_t(2));
  // Overlaps: (0,0) .25 + .2, (0,2) .7 + .1, (1,0) .25 + .8, (1,2) .3 + .1.
  CHECK_EQ(m.pairs.size(), size_t(2));
  CHECK(m.pairs[0].a == 1 && m.pairs[0].b == 0 && m.pairs[1].a == 0 && m.pairs[1].b == 2);
  CHECK_CLOSE(m.pairs[0].overlap, 1.05, 1e-15);
  CHECK_CLOSE(m.pairs[1].overlap, 0.8, 1e-15);
  CHECK_EQ(m.b_of_a, (std::vector<int>{2, 0, -1}));
  CHECK_EQ(m.a_of_b, (std::vector<int>{1, -1, 0}));
  CHECK_EQ(m.only_a, (std::vector<int>{2}));
  CHECK_EQ(m.only_b, (std::vector<int>{1}));
  set_reads(*b, {0}, {1, 0, 0});
  CHECK_EQ(match_rows(*a, *b, tokens).why, std::string("rows cannot be matched: no token was read in both"));
  set_reads(*b, {2}, {0, 0, 1});
  set_reads(*a, {2}, {1, 0, 0});
  CHECK_EQ(match_rows(*a, *b, tokens).pairs.size(), size_t(1));
}

// A head compared with itself matches every slot that is read, and its difference is 0 wherever it wrote.
SLOTSCOPE_CASE(a_head_equals_itself) {
  for (const auto& options : twin::problems()) {
    auto a = head_of(twin::make(options));
    const TokenAlignment tokens{.same_tokens = true, .tokens_a = options.tokens, .tokens_b = options.tokens};
    DifferenceRequest request;
    for (int i = 0; i < options.slots; ++i) request.rows.push_back({i, i});
    request.last = options.tokens;
    const SlotGrid grid = difference_grid(*a, *a, request);
    CHECK_EQ(grid.finite_cells, int64_t(a->writes.token.size()));
    CHECK(grid.min == 0 && grid.max == 0);
  }
}

SLOTSCOPE_CASE(differences_by_value) {
  //  t     0      1      2      3
  //  A    0:.5   1:.25  2:.5   0:.75
  //  B    0:.25  2:.5   2:.75  1:.5
  auto a = head_of(one_slot_each({0, 1, 2, 0}, {.5, .25, .5, .75}, 3));
  auto b = head_of(one_slot_each({0, 2, 2, 1}, {.25, .5, .75, .5}, 3));
  DifferenceRequest request;
  request.rows = {{0, 0}, {2, 2}, {1, -1}, {-1, 1}};
  request.last = 4;
  const SlotGrid grid = difference_grid(*a, *b, request);
  CHECK(grid.rows == 4 && grid.columns == 4);
  const auto value = [&](int row, int t) {
    const size_t at = size_t(row * 4 + t);
    return grid.state[at] == Cell::finite ? double(grid.value[at]) : -9.0;
  };
  const double expected[4][4] = {{.25, -9, -9, .75}, {-9, -.5, -.25, -9}, {-9, .25, -9, -9}, {-9, -9, -9, -.5}};
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 4; ++c) CHECK_EQ(value(r, c), expected[r][c]);
  CHECK(grid.finite_cells == 6 && grid.min == -.5 && grid.max == .75);
  request.tokens_per_column = 2;
  const SlotGrid pooled = difference_grid(*a, *b, request);
  CHECK(pooled.columns == 2 && pooled.value[0] == .25f && pooled.value[1] == .75f && pooled.value[2] == -.5f &&
        pooled.value[3] == -.25f);
  CHECK_EQ(pooled.reduction, std::string("A − B, largest magnitude of 2 tokens per column"));
  request.max_rows = 2;
  const SlotGrid fewer = difference_grid(*a, *b, request);
  CHECK(fewer.rows == 2 && fewer.slots_per_row == 2 && fewer.value[0] == -.5f && fewer.value[1] == .75f &&
        fewer.value[2] == .25f && fewer.value[3] == -.5f);
  request.max_rows = 2048;
  // Survival is defined only where both wrote: at token 0 slot 0. A's is overwritten at token 3 by .75, B's never.
  request.quantity = Quantity::survival_at;
  request.tokens_per_column = 1;
  request.reference_a = request.reference_b = 3;
  const SlotGrid left = difference_grid(*a, *b, request);
  CHECK_CLOSE(double(left.value[0]), .25 - 1, 1e-6);
  CHECK(left.state[1] == Cell::not_routed);
  CHECK_EQ(left.finite_cells, int64_t(2));  // and at token 2 slot 2: 1 - 1
}

// Against the definition, over windows, chunks and reductions.
SLOTSCOPE_CASE(differences_are_those_of_the_twin) {
  twin::Options first{.tokens = 300, .slots = 40, .top_k = 6}, second = first;
  second.seed = 5;
  second.tokens = 260;  // B ends earlier
  const HeadRoutes ra = twin::make(first), rb = twin::make(second);
  const twin::Dense da = twin::dense(ra), db = twin::dense(rb);
  const auto a = head_of(ra), b = head_of(rb);
  for (const int64_t width : {1, 3, 64}) {
    DifferenceRequest request;
    for (int i = 0; i < 40; ++i) request.rows.push_back({i, (i * 7 + 3) % 40});
    request.first = 11, request.last = 299, request.tokens_per_column = width;
    const SlotGrid grid = difference_grid(*a, *b, request);
    CHECK_EQ(int64_t(grid.columns), (288 + width - 1) / width);
    for (int r = 0; r < 40; ++r)
      for (int c = 0; c < grid.columns; ++c) {
        double most = 0;
        bool any = false;
        for (int64_t at = 11 + c * width; at < std::min<int64_t>(299, 11 + (c + 1) * width); ++at) {
          const size_t in_a = da.at(at, r), in_b = at < 260 ? db.at(at, (r * 7 + 3) % 40) : 0;
          const bool wrote_a = da.r[in_a] != 0, wrote_b = at < 260 && db.r[in_b] != 0;
          if (!wrote_a && !wrote_b) continue;
          any = true;
          const double d = (wrote_a ? da.s[in_a] : 0) - (wrote_b ? db.s[in_b] : 0);
          if (std::abs(d) > std::abs(most)) most = d;
        }
        const size_t at = size_t(r) * size_t(grid.columns) + size_t(c);
        CHECK((grid.state[at] == Cell::finite) == any);
        if (any) CHECK_CLOSE(double(grid.value[at]), most, 2e-7);
      }
  }
}

SLOTSCOPE_CASE(a_difference_needs_equal_slots_tokens_and_reads) {
  auto a = head_of(one_slot_each({0, 1}, {.5, .5}, 2)), b = head_of(one_slot_each({0, 1}, {.5, .5}, 3));
  TokenAlignment tokens{.same_tokens = true, .tokens_a = 2, .tokens_b = 2};
  CHECK_EQ(why_no_difference(*a, *b, tokens, {}), std::string("A − B needs equal slot counts: A has 2, B has 3"));
  tokens.same_tokens = false;
  CHECK_EQ(why_no_difference(*a, *a, tokens, {}), std::string("A − B needs the same tokens in both"));
  tokens.same_tokens = true;
  CHECK_EQ(why_no_difference(*a, *a, tokens, match_rows(*a, *a, tokens)),
           std::string("A − B: rows cannot be matched: no reads were captured in A"));
  set_reads(*a, {1}, {.5, .5});
  CHECK_EQ(why_no_difference(*a, *a, tokens, match_rows(*a, *a, tokens)), std::string());
}

SLOTSCOPE_CASE(the_key_by_value) {
  // Key tokens 1 and 2 write .5 into slot 0 and .25 into slot 1; token 3 writes .5 into slot 0, token 4 .75 into 1.
  const auto head = head_of(one_slot_each({2, 0, 1, 0, 1, 2}, {.5, .5, .25, .5, .75, .5}, 3));
  RunInfo run = made({"a", "b", "c", "d", "e", "f"}, 5);
  run.spans = {{"key", 1, 3}};
  const KeyCurve curve = key_curve(*head, run);
  CHECK(curve.why.empty() && curve.first == 2 && curve.query == 4);
  const double expected[] = {1, .75, (.5 + .25) / 2, (.5 + .25) / 2};
  CHECK_EQ(curve.left.size(), size_t(4));
  for (size_t i = 0; i < 4; ++i) CHECK_CLOSE(curve.left[i], expected[i], 1e-15);
  CHECK_CLOSE(curve.at_query, .375, 1e-15);
  run.spans.clear();
  CHECK_EQ(key_curve(*head, run).why, std::string("no token of this prompt is marked as key"));
  const std::vector<uint8_t> roles{0, 0, 1, 0, 0, 0};
  CHECK_CLOSE(key_curve(*head, run, &roles).at_query, .25, 1e-15);
  auto without = head_of([] {
    HeadRoutes r = one_slot_each({2, 0, 1, 0, 1, 2}, {.5, .5, .25, .5, .75, .5}, 3);
    r.log_decay.clear();
    return r;
  }());
  run.spans = {{"key", 1, 3}};
  CHECK_EQ(key_curve(*without, run).why, std::string("log decay was not captured: run again with log_decay"));
  // A family in which survival is undefined says so in its own words, also beside a decay that was captured.
  HeadRoutes undefined = one_slot_each({2, 0, 1, 0, 1, 2}, {.5, .5, .25, .5, .75, .5}, 3);
  undefined.no_survival = "survival is undefined for delta rules";
  const auto delta = head_of(undefined);
  CHECK(key_curve(*delta, run).why.find("survival is undefined for delta rules") != std::string::npos);
  CHECK(key_curve(*delta, run).left.empty());
  CHECK(key_curve(*delta, made({"a", "b", "c", "d", "e", "f"}, 5)).why.find("delta rules") != std::string::npos);
  run.prompt_tokens = 9;  // the trace ends before its query
  CHECK_EQ(key_curve(*head, run).query, int64_t(-1));
  CHECK(std::isnan(key_curve(*head, run).at_query));
}

// At the query the curve is what every other view calls "still there".
SLOTSCOPE_CASE(the_curve_at_the_query_is_key_survival) {
  for (auto options : twin::problems()) {
    if (options.tokens < 12) continue;
    const HeadRoutes routes = twin::make(options);
    const auto head = head_of(routes);
    RunInfo run;
    run.tokens = options.tokens, run.prompt_tokens = options.tokens - 2;
    run.spans = {{"key", 3, 9}};
    const KeyCurve curve = key_curve(*head, run);
    double kept = 0;
    int counted = 0;
    std::vector<int64_t> key;
    for (int64_t t = 3; t < 9; ++t) key.push_back(t);
    for (const int64_t token : key) {
      double s = 0, left = 0;
      for (const KeyWrite& w : key_writes(routes, key, run.prompt_tokens - 1))
        if (w.token == token) s += w.strength, left += w.strength * w.left;
      if (s == 0) continue;
      kept += left / s;
      ++counted;
    }
    if (counted == 0) {
      CHECK(!curve.why.empty());
      continue;
    }
    CHECK(twin::same(curve.at_query, kept / counted, 1e-12));
  }
}

SLOTSCOPE_CASE(steps_part_where_the_answer_is_wrong) {
  RunInfo a = made({"q", "A", "B", "C"}, 1), b = made({"q", "A", "X"}, 1);
  for (RunInfo* run : {&a, &b}) {
    run->has_answer = true, run->answer = "ABC";
    run->candidates = 2;
  }
  a.output_ids = {1, 2, 3, 4};
  a.top_ids = {1, 9, 9, 2, 8, 9, 4, 9};
  a.top_logprob = {0, -5, -1, -2, -1, -1, -0.5, -3};
  a.top_bytes = {"A", "z", "z", "B", "y", "z", "!", "z"};
  b.output_ids = {1, 2};
  b.top_ids = {1, 9, 2, 9};
  b.top_logprob = {-0.25, -5, -0.75, -2};
  const auto steps = step_differences(a, b);
  CHECK_EQ(steps.size(), size_t(4));
  CHECK(steps[0].position == 1 && steps[0].a->right == true && steps[0].b->right == true);
  CHECK_CLOSE(steps[0].a->p, 1, 0);
  CHECK_CLOSE(steps[0].b->p, std::exp(-0.25), 1e-15);
  CHECK(steps[1].a->right == true && steps[1].b->right == false);
  CHECK_EQ(steps[1].b->bytes, std::string("X"));
  CHECK(std::isnan(steps[2].a->p) && steps[2].a->right == true && !steps[2].b);
  // Behind the answer's end nothing is right or wrong; the last token is known from the candidates only.
  CHECK(!steps[3].a->right.has_value() && steps[3].a->bytes == "!" && steps[3].position == 4);
  CHECK_CLOSE(least_certain(answer_steps(a)), std::exp(-2), 1e-15);
  CHECK_CLOSE(least_certain(answer_steps(b)), std::exp(-0.75), 1e-15);
  CHECK(std::isnan(least_certain({})));
  // A run that stops too early says <eos> in the place of one character.
  RunInfo early = made({"q", "A"}, 1);
  early.has_answer = true, early.answer = "AéC";
  early.candidates = 1, early.output_ids = {1, 7}, early.top_ids = {1, 7}, early.top_logprob = {0, 0};
  early.top_bytes = {"A", "<eos>"};
  CHECK(answer_steps(early)[1].right == false);
  CHECK_EQ(answer_steps(early)[1].expected, std::string("é"));
  a.references = {"ABC"};  // scored by search
  CHECK(!answer_steps(a)[0].right.has_value());
}
