// Which tokens of two runs correspond, and where their answers part.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/compare.h"

namespace slotscope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Half-open character range of each token; empty for a token without characters.
struct Characters {
  std::vector<int64_t> begin, end;
};

bool starts_character(unsigned char byte) { return (byte & 0xC0) != 0x80; }

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return starts_character(static_cast<unsigned char>(c)); });
}

// Special tokens hold their names: "<eos>". What was expected in the place of one is a single character.
size_t expected_bytes(const std::string& bytes, std::string_view rest) {
  if (bytes.size() <= 2 || bytes.front() != '<' || bytes.back() != '>' || rest.starts_with(bytes)) return bytes.size();
  size_t n = std::min<size_t>(1, rest.size());
  while (n < rest.size() && !starts_character(static_cast<unsigned char>(rest[n]))) ++n;
  return n;
}

bool has_bytes(const trace::RunInfo& run) { return int64_t(run.byte_offsets.size()) > run.tokens; }

bool stores_offsets(const trace::RunInfo& run) {
  const auto prompt = size_t(std::clamp<int64_t>(run.prompt_tokens, 0, run.tokens));
  return run.has_text && run.char_begin.size() >= prompt && run.char_end.size() >= prompt;
}

// A byte inside of a character belongs to the character that began before it.
Characters characters_of(const trace::RunInfo& run, bool stored) {
  Characters c;
  int64_t position = 0, token = 0;
  if (stored) {
    for (; token < std::min(run.prompt_tokens, run.tokens); ++token) {
      c.begin.push_back(run.char_begin[size_t(token)]);
      c.end.push_back(run.char_end[size_t(token)]);
    }
    position = count_characters(run.text);
  }
  for (; token < run.tokens; ++token) {
    const bool special = size_t(token) < run.special.size() && run.special[size_t(token)];
    const std::string_view bytes = special || !has_bytes(run) ? std::string_view() : run.token_bytes(token);
    int64_t begin = position;
    if (!bytes.empty() && !starts_character(static_cast<unsigned char>(bytes.front()))) begin = std::max<int64_t>(0, begin - 1);
    position += count_characters(bytes);
    c.begin.push_back(begin);
    c.end.push_back(bytes.empty() ? begin : std::max(position, begin + 1));
  }
  return c;
}

// For each token of `from` the token of `to` that holds its first character.
std::vector<int64_t> map_tokens(const Characters& from, const Characters& to) {
  struct Piece {
    int64_t begin, end, token;
  };
  std::vector<Piece> solid, empty;
  for (size_t t = 0; t < to.begin.size(); ++t)
    (to.end[t] > to.begin[t] ? solid : empty).push_back({to.begin[t], to.end[t], int64_t(t)});
  // Offsets come from a file: in order as a rule, never relied upon.
  const auto by_begin = [](const Piece& x, const Piece& y) { return x.begin < y.begin; };
  std::stable_sort(solid.begin(), solid.end(), by_begin);
  std::stable_sort(empty.begin(), empty.end(), by_begin);
  const auto below = [](const Piece& x, int64_t at) { return x.begin < at; };
  std::vector<int64_t> out;
  for (size_t t = 0; t < from.begin.size(); ++t) {
    const int64_t at = from.begin[t];
    if (from.end[t] <= at) {
      const auto same = std::lower_bound(empty.begin(), empty.end(), at, below);
      if (same != empty.end() && same->begin == at) {
        out.push_back(same->token);
        continue;
      }
    }
    // The first piece that begins at the character, else the one that began before it and reaches over it.
    auto piece = std::lower_bound(solid.begin(), solid.end(), at, below);
    if (piece == solid.end() || piece->begin != at)
      piece = piece == solid.begin() ? solid.end() : std::prev(piece);
    out.push_back(piece != solid.end() && piece->end > at ? piece->token : -1);
  }
  return out;
}

bool same_prompt(const trace::RunInfo& a, const trace::RunInfo& b) {
  const int64_t fed_a = std::min(a.prompt_tokens, a.tokens), fed_b = std::min(b.prompt_tokens, b.tokens);
  const int64_t n = std::min(fed_a, fed_b);
  if (a.prompt_tokens != b.prompt_tokens || int64_t(a.ids.size()) < n || int64_t(b.ids.size()) < n) return false;
  if (!std::equal(a.ids.begin(), a.ids.begin() + n, b.ids.begin())) return false;
  // Equal ids of two vocabularies are a coincidence, not the same tokens.
  if (has_bytes(a) && has_bytes(b))
    for (int64_t t = 0; t < n; ++t)
      if (a.token_bytes(t) != b.token_bytes(t)) return false;
  return true;
}

std::string note_for(const trace::RunInfo& a, const trace::RunInfo& b, bool linked) {
  const std::string how = linked ? "linked by character offset." : "without text in both traces linked by position.";
  if (a.has_text && b.has_text && a.text != b.text) {
    const auto [x, y] = std::mismatch(a.text.begin(), a.text.end(), b.text.begin(), b.text.end());
    int64_t at = count_characters(std::string_view(a.text).substr(0, size_t(x - a.text.begin())));
    if (x != a.text.end() && !starts_character(static_cast<unsigned char>(*x))) --at;
    return "The prompts differ from character " + std::to_string(std::max<int64_t>(0, at)) + " on: tokens are " + how;
  }
  return "Different tokens (" + std::to_string(a.prompt_tokens) + " in A, " + std::to_string(b.prompt_tokens) +
         " in B): " + how;
}

std::pair<int64_t, int64_t> map_range(int64_t first, int64_t last, const std::vector<int64_t>& map, int64_t total) {
  int64_t low = std::numeric_limits<int64_t>::max(), high = -1;
  for (int64_t t = std::max<int64_t>(0, first); t < std::min<int64_t>(last, int64_t(map.size())); ++t)
    if (map[size_t(t)] >= 0) low = std::min(low, map[size_t(t)]), high = std::max(high, map[size_t(t)]);
  if (high < 0) return {0, total};
  // What follows the last token up to the next one's start is shown with it, and so is everything at the ends.
  if (first <= 0) low = 0;
  if (last >= int64_t(map.size()))
    high = total - 1;
  else if (last >= 0 && map[size_t(last)] > high)
    high = map[size_t(last)] - 1;
  return {low, high + 1};
}

}  // namespace

int64_t TokenAlignment::b_of(int64_t token) const {
  if (token < 0 || token >= tokens_a) return -1;
  return same_tokens ? (token < tokens_b ? token : -1) : to_b[size_t(token)];
}

int64_t TokenAlignment::a_of(int64_t token) const {
  if (token < 0 || token >= tokens_b) return -1;
  return same_tokens ? (token < tokens_a ? token : -1) : to_a[size_t(token)];
}

std::pair<int64_t, int64_t> TokenAlignment::b_range(int64_t first, int64_t last) const {
  return same_tokens ? std::pair(first, last) : map_range(first, last, to_b, tokens_b);
}

std::pair<int64_t, int64_t> TokenAlignment::a_range(int64_t first, int64_t last) const {
  return same_tokens ? std::pair(first, last) : map_range(first, last, to_a, tokens_a);
}

TokenAlignment align_tokens(const trace::RunInfo& a, const trace::RunInfo& b) {
  TokenAlignment out;
  out.tokens_a = a.tokens, out.tokens_b = b.tokens;
  out.same_tokens = same_prompt(a, b);
  if (out.same_tokens) return out;
  const bool stored = stores_offsets(a) && stores_offsets(b);
  const bool linked = stored || (has_bytes(a) && has_bytes(b));
  out.note = note_for(a, b, linked);
  if (!linked) {
    for (int64_t t = 0; t < a.tokens; ++t) out.to_b.push_back(t < b.tokens ? t : -1);
    for (int64_t t = 0; t < b.tokens; ++t) out.to_a.push_back(t < a.tokens ? t : -1);
    return out;
  }
  const Characters in_a = characters_of(a, stored), in_b = characters_of(b, stored);
  out.to_b = map_tokens(in_a, in_b);
  out.to_a = map_tokens(in_b, in_a);
  return out;
}

std::vector<AnswerStep> answer_steps(const trace::RunInfo& run) {
  std::vector<AnswerStep> steps;
  // An imported prompt is searched for its references: no single step of it is right or wrong.
  const bool judged = run.has_answer && run.references.empty();
  size_t at_byte = 0;
  bool known = judged;
  for (size_t g = 0; g < run.output_ids.size(); ++g) {
    AnswerStep step;
    step.position = run.prompt_tokens + int64_t(g);
    step.id = run.output_ids[g];
    step.p = kNaN;
    step.bytes_known = has_bytes(run) && step.position < run.tokens;
    if (step.bytes_known) step.bytes = std::string(run.token_bytes(step.position));
    for (int64_t c = 0; c < run.candidates; ++c) {
      const size_t at = g * size_t(run.candidates) + size_t(c);
      if (at >= run.top_ids.size() || at >= run.top_logprob.size()) break;
      if (run.top_ids[at] != step.id) continue;
      step.p = std::exp(run.top_logprob[at]);
      if (!step.bytes_known && at < run.top_bytes.size() && !run.top_bytes[at].empty())
        step.bytes = run.top_bytes[at], step.bytes_known = true;
      break;
    }
    known = known && step.bytes_known;
    if (known && at_byte < run.answer.size()) {
      const size_t size = expected_bytes(step.bytes, std::string_view(run.answer).substr(at_byte));
      step.expected = run.answer.substr(at_byte, size);
      step.right = step.expected == step.bytes;
      at_byte += size;
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

std::vector<StepDifference> step_differences(const trace::RunInfo& a, const trace::RunInfo& b) {
  const std::vector<AnswerStep> in_a = answer_steps(a), in_b = answer_steps(b);
  std::vector<StepDifference> out(std::max(in_a.size(), in_b.size()));
  for (size_t g = 0; g < out.size(); ++g) {
    if (g < in_a.size()) out[g].a = in_a[g];
    if (g < in_b.size()) out[g].b = in_b[g];
    out[g].position = out[g].a ? out[g].a->position : out[g].b->position;
  }
  return out;
}

double least_certain(const std::vector<AnswerStep>& steps) {
  double least = kNaN;
  for (const AnswerStep& s : steps)
    if (!std::isnan(s.p) && !(s.p >= least)) least = s.p;
  return least;
}

}  // namespace slotscope::analysis
