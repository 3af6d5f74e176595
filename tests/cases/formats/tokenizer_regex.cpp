// Pre-tokenizer patterns: pieces (bad-inputs B31), what differs between Oniguruma and ICU, limits of time and
// memory.
#include <chrono>

#include "core/error.h"
#include "core/formats/regex.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/tokenizer_parts.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
using nlohmann::json;
using Texts = std::vector<std::string>;

namespace {

constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const json kGpt2 = {
    {"type", "Split"},
    {"pattern", {{"Regex", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"}}},
    {"behavior", "Isolated"},
    {"invert", false}};

// All that a pattern finds in a text.
Texts found(const std::string& pattern, const std::string& text) {
  const std::string file = "f";
  const json value = pattern;
  const auto regex = Regex::compile(pattern, JsonItem(value, file, "pattern"));
  const Deadline deadline(text.size());
  Regex::Searcher searcher(*regex, deadline);
  std::vector<Regex::Match> matches;
  searcher.find(text, matches);
  Texts out;
  for (const auto& m : matches) out.push_back(text.substr(m.begin, m.end - m.begin));
  return out;
}

}  // namespace

// B31. The pieces follow from the patterns by hand, alternative by alternative at each place:
//   12345      \p{N}{1,3} takes three digits, then two; \p{N} takes one each
//   can'T      (?i:'t) comes first at the apostrophe
//   a U+2029 b \s+(?!\S) gives back the space before b; U+2029 is white space, so that neither
//   [^\s\p{L}\p{N}] nor, with no
//              letter behind it, the optional first character of a word takes it
//   x  y       \s+(?!\S) gives back one space, which begins the next word
//              (GPT-2 has no rule for line ends: \s+(?!\S) gives one back before #)
//   \n\n       \s*[\r\n]+ takes the space before the line ends along and gives back the one behind them
//   e U+0301   a mark is neither letter nor number, and no letter follows it: [^\s\p{L}\p{N}]+
SLOTSCOPE_CASE(pieces_of_llama3_and_qwen2) {
  needs_icu(t);
  struct Row {
    std::string text;
    Texts llama3, qwen2, gpt2;
  };
  const std::vector<Row> rows = {
      {"12345", {"123", "45"}, {"1", "2", "3", "4", "5"}, {"12345"}},
      {"can'T", {"can", "'T"}, {"can", "'T"}, {"can", "'", "T"}},
      {"a\u2029 b", {"a", "\u2029", " b"}, {"a", "\u2029", " b"}, {"a", "\u2029", " b"}},
      {"x  y", {"x", " ", " y"}, {"x", " ", " y"}, {"x", " ", " y"}},
      {" \n\n z", {" \n\n", " z"}, {" \n\n", " z"}, {" \n\n", " z"}},
      {"٣٤٥٦", {"٣٤٥", "٦"}, {"٣", "٤", "٥", "٦"}, {"٣٤٥٦"}},
      {"e\u0301", {"e", "\u0301"}, {"e", "\u0301"}, {"e", "\u0301"}},
      {"日本語123", {"日本語", "123"}, {"日本語", "1", "2", "3"}, {"日本語", "123"}},
      {"I'LL it's\r\n\r\n",
       {"I", "'LL", " it", "'s", "\r\n\r\n"},
       {"I", "'LL", " it", "'s", "\r\n\r\n"},
       {"I", "'", "LL", " it", "'s", "\r\n\r\n"}},
      {"a\t\tb  ", {"a", "\t", "\tb", "  "}, {"a", "\t", "\tb", "  "}, {"a", "\t", "\t", "b", "  "}},
      {"x=1;\n\n#",
       {"x", "=", "1", ";\n\n", "#"},
       {"x", "=", "1", ";\n\n", "#"},
       {"x", "=", "1", ";", "\n", "\n", "#"}},
      {"\u00a0a\u3000\u3000b",
       {"\u00a0a", "\u3000", "\u3000b"},
       {"\u00a0a", "\u3000", "\u3000b"},
       {"\u00a0", "a", "\u3000", "\u3000", "b"}},
  };
  for (const Row& row : rows) {
    CHECK_EQ(texts_of(cut(split_by(kLlama3), row.text)), row.llama3);
    CHECK_EQ(texts_of(cut(split_by(kQwen2), row.text)), row.qwen2);
    CHECK_EQ(texts_of(cut(kGpt2, row.text)), row.gpt2);
  }
  // ByteLevel's own rule is GPT-2's, and works on the characters before they become bytes.
  const auto pieces =
      cut({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}, "don't é1");
  CHECK((pieces == std::vector<Piece>{{"don", 0, 3}, {"'t", 3, 5}, {"ĠÃ©", 5, 8}, {"1", 8, 9}}));
}

// What other public tokenizers write: cl100k's possessive form, GPT-4o's classes, BLOOM's nested set,
// DeepSeek's ranges.
SLOTSCOPE_CASE(patterns_of_other_families) {
  needs_icu(t);
  CHECK_EQ(found(R"([^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
                 "Hi there, 1234!\n"),
           (Texts{"Hi", " there", ",", " ", "123", "4", "!\n"}));
  CHECK_EQ(
      found(
          R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N})",
          "HelloWorld's e\u0301a"),
      (Texts{"Hello", "World's", " e\u0301a"}));
  CHECK_EQ(found(R"( ?[^(\s|[.,!?…。，、।۔،])]+)", "Hey, (you|me) ok.No"),
           (Texts{"Hey", "you", "me", " ok", "No"}));
  CHECK_EQ(
      found(
          R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[一-龥぀-ゟ゠-ヿ]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)",
          "x.foo[bar]日本ねco"),
      (Texts{"x", ".foo", "[bar", "日本ね", "co"}));
}

// Where the two engines read the same signs differently, the pattern means what Oniguruma means.
SLOTSCOPE_CASE(oniguruma_meanings) {
  needs_icu(t);
  CHECK_EQ(found("a{2}+", "aaaaa"), (Texts{"aaaa"}));  // (a{2})+, not possessive
  CHECK_EQ(found("a{1,2}+b", "aaab"), (Texts{"aaab"}));
  CHECK_EQ(found("a{,2}b", "aaab"), (Texts{"aab"}));          // {0,2}
  CHECK_EQ(found("a{2}?b", "aab b"), (Texts{"aab", "b"}));    // (a{2})?
  CHECK_EQ(found("a{1,3}?", "aaa"), (Texts{"a", "a", "a"}));  // lazy
  CHECK_EQ(found("x{y}", "x{y}"), (Texts{"x{y}"}));           // braces that hold no number
  CHECK_EQ(found("^.", "ab\ncd\n"), (Texts{"a", "c"}));       // every line
  CHECK_EQ(found(".$", "ab\ncd"), (Texts{"b", "d"}));
  CHECK_EQ(found(".", "a\r\u2028\u0085\n"), (Texts{"a", "\r", "\u2028", "\u0085"}));  // all but \n
  CHECK_EQ(found("(?m:a.)", "a\n"), (Texts{"a\n"}));        // the dot takes line ends
  CHECK_EQ(found("(?m:a.)|b.", "b\na\n"), (Texts{"a\n"}));  // and only inside of the group
  CHECK_EQ(found("\\h+", "xyzBEEF"), (Texts{"BEEF"}));      // hexadecimal digits
  CHECK_EQ(found("\\v", "\n\x0b"), (Texts{"\x0b"}));
  CHECK_EQ(found("\\w+", "aé_1\u0301\u200d b\u2167"), (Texts{"aé_1\u0301", "b\u2167"}));  // no join controls
  CHECK_EQ(found("\\bb\\b", "ab b bb"), (Texts{"b"}));
  CHECK_EQ(found("\\p{^L}+", "ab12"), (Texts{"12"}));
  CHECK_EQ(found("[[:punct:]]+|[[:^alpha:]]", "a$.1"), (Texts{"$.", "1"}));  // ASCII's symbols count
  CHECK_EQ(found("[a\\-c]+", "abc-"), (Texts{"a", "c-"}));
  CHECK_EQ(found("[\\p{L}-]+", "ab-c d"), (Texts{"ab-c", "d"}));
  CHECK_EQ(found("[a-z&&[^aeiou]]+", "hello"), (Texts{"h", "ll"}));
  CHECK_EQ(found("\\x{1F600}|\\u00e9", "é😀"), (Texts{"é", "😀"}));
  CHECK_EQ(found("(?<name>a)b", "ab"), (Texts{"ab"}));
  CHECK_EQ(found("(?i)STRASSE|x", "Straße X"), (Texts{"Straße", "X"}));  // full case folding in both
  CHECK_EQ(found("a*", "baac"), (Texts{"", "aa", ""}));                  // nothing empty right behind a match
  CHECK_EQ(found("x", ""), Texts{});
}

// A feature that cannot be followed is an error at load that names it, never a silent fallback.
SLOTSCOPE_CASE(refused_patterns) {
  needs_icu(t);
  for (const char* pattern : {"a(?i)b|c",
                              "\\Ka",
                              "(a)\\1",
                              "\\k<n>",
                              "(?~a)",
                              "\\X",
                              "\\p{Graph}",
                              "[[:graph:]]",
                              "(a",
                              "a)",
                              "[a",
                              "[]",
                              "*a",
                              "a{3,1}",
                              "\\",
                              "(?s:.)",
                              "\\p{Nonsense}",
                              "\\pL",
                              "[a--b]",
                              "\\x{110000}",
                              "\\u12",
                              "a{100000}",
                              "(?#",
                              "[a-\\d]"}) {
    CHECK_ERROR(cut(split_by(pattern), "a"), "pre_tokenizer.pattern.Regex");
  }
  CHECK_ERROR(cut(split_by(std::string(300, '(')), "a"), "nested deeper than 100");
  CHECK_ERROR(cut(split_by(std::string(300, '[')), "a"), "nested deeper than 20");
  CHECK_ERROR(cut(split_by(std::string(30'000, 'a')), "a"), "20,000 bytes");
  CHECK_ERROR(cut({{"type", "Split"}, {"pattern", {{"String", ""}}}, {"behavior", "Isolated"}}, "a"),
              "empty");
}

// Hostile patterns end with an Error: of time, of memory, of searches that start everywhere anew.
SLOTSCOPE_CASE(limits) {
  needs_icu(t);
  const std::string file = "f";
  const auto run = [&](const std::string& pattern, const std::string& text, int milliseconds = 300) {
    const json value = pattern;
    const auto regex = Regex::compile(pattern, JsonItem(value, file, "pattern"));
    const Deadline deadline{std::chrono::milliseconds(milliseconds)};
    Regex::Searcher searcher(*regex, deadline);
    std::vector<Regex::Match> matches;
    searcher.find(text, matches);
  };
  CHECK_ERROR(run("(a+)+$", std::string(40, 'a') + "!"), "pattern", "(a+)+$", "takes too long");
  CHECK_ERROR(run("(?:a|b)+", std::string(9'000'000, 'a'), 60'000), "needs too much memory");
  CHECK_ERROR(run("(?:a|b|ab)*c", std::string(400'000, 'a')), "takes too long");
  CHECK_ERROR(run("(?>\\s+)x", std::string(3'000'000, ' ')), "takes too long");
  CHECK_ERROR(run("(?:(?:(?:x?){9999}){9999}){9999}y", "x"), "takes too long");
}

// A megabyte in one line, of words, of spaces, of one letter, of line ends: time grows with the text.
SLOTSCOPE_CASE(long_lines) {
  needs_icu(t);
  const auto seconds = [&](const std::string& text, size_t expected) {
    const auto start = std::chrono::steady_clock::now();
    CHECK_EQ(cut(split_by(kLlama3), text).size(), expected);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::string words, lines;
  while (words.size() < (1 << 20)) words += "word ";
  while (lines.size() < (1 << 20)) lines += "\n \n  ";
  double worst = seconds(words, words.size() / 5 + 1);  // the last space is a piece of its own
  worst = std::max(worst, seconds(std::string(1 << 20, ' '), 1));
  worst = std::max(worst, seconds(std::string(1 << 20, 'a'), 1));
  worst = std::max(worst, seconds(lines, 2));  // all but the last two spaces
  CHECK(worst < 5);
  t.note("1 MiB cut in at most " + std::to_string(worst) + " s");
}
