// The password prompt (spec: raven-analysis, "Reference checkpoints beside this folder").
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/formats/config.h"
#include "core/formats/json.h"
#include "core/formats/prompt.h"
#include "core/formats/random.h"
#include "core/formats/sweep_prompts.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

constexpr std::string_view kNoise =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. ";
constexpr std::string_view kQuery = " Now tell me the password = ";
constexpr int64_t kMaxLength = 1 << 24;
constexpr uint64_t kMaxHaystackBytes = 1ull << 30;

constexpr std::string_view kNeedleHead = " The password is ", kNeedleTail = ". Remember it. ";
std::string needle_text(const std::string& key) {
  return std::string(kNeedleHead) + key + std::string(kNeedleTail);
}

[[noreturn]] void refuse(std::string item, std::string found, std::string expected, std::string advice = "") {
  throw Error({"", std::move(item), std::move(found), std::move(expected), std::move(advice)},
              Error::Kind::usage);
}

// Independent draws (1: key, 2: first character of the haystack, 3: place of the needle): choosing one option by hand leaves
// the others as the seed gives them.
SplitMix64 stream(uint64_t seed, uint64_t number) {
  SplitMix64 mix(seed);
  const uint64_t base = mix.next();
  return SplitMix64(base ^ SplitMix64(number).next());
}

std::string draw_key(uint64_t seed) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  SplitMix64 random = stream(seed, 1);
  std::string key(6 + random.below(5), ' ');
  for (char& c : key) c = letters[random.below(letters.size())];
  return key;
}

// A text without end: `source` repeated, from one of its characters on.
class Haystack {
 public:
  Haystack(std::string source, uint64_t seed) : source_(std::move(source)) {
    SplitMix64 random = stream(seed, 2);
    begin_ = random.below(source_.size());
    while (is_utf8_continuation(source_[begin_])) --begin_;  // byte 0 of valid UTF-8 is none
  }
  // The first `count` characters (code points).
  std::string take(uint64_t count) const {
    std::string text;
    for (size_t at = begin_; count > 0; --count) {
      const auto length = size_t(utf8_length(static_cast<unsigned char>(source_[at])));
      text.append(source_, at, length);
      at = (at + length) % source_.size();
    }
    return text;
  }

 private:
  std::string source_;
  size_t begin_ = 0;
};

std::string haystack_source(const std::string& haystack) {
  if (haystack == "noise") return std::string(kNoise);
  if (haystack == "shakespeare") return std::string(shakespeare_excerpt());
  std::string text = read_text_file(haystack, kMaxHaystackBytes);
  if (text.empty()) throw Error({haystack, "", "the haystack file is empty", "text", ""});
  require_utf8(text, haystack, "haystack");
  return text;
}

// Bytes of the part that ends after `count` characters.
size_t prefix_bytes(std::string_view text, uint64_t count) {
  size_t at = 0;
  for (; count > 0 && at < text.size(); --count)
    at += size_t(utf8_length(static_cast<unsigned char>(text[at])));
  return std::min(at, text.size());
}

struct Layout {
  std::string text;
  size_t needle = 0, key = 0, query = 0;  // byte positions
  std::string key_text;
  double depth = 0;  // as it came out
};

class PasskeyBuilder {
 public:
  PasskeyBuilder(const Tokenizer& tokenizer, const PasskeyOptions& options)
      : tokenizer_(tokenizer), options_(options), hay_(haystack_source(options.haystack), options.seed) {
    key_ = options.key.empty() ? draw_key(options.seed) : options.key;
  }

  Layout layout(uint64_t characters, std::string_view filler) const {
    Layout l;
    std::string hay = hay_.take(characters) + std::string(filler);
    const uint64_t total = characters + filler.size();  // filler is ASCII
    // A drawn place is a fraction of the 0..total places, so that it moves little while the length is being
    // fitted.
    const double draw = double(stream(options_.seed, 3).next() >> 11) * 0x1p-53;  // [0, 1)
    const double place = options_.depth < 0 ? draw * double(total + 1) : options_.depth * double(total) + 0.5;
    const uint64_t before = std::min(total, uint64_t(std::floor(place)));
    l.depth = options_.depth < 0 ? (total ? double(before) / double(total) : 0) : options_.depth;
    l.needle = prefix_bytes(hay, before);
    l.key_text = key_;
    const std::string needle = needle_text(key_);
    l.key = l.needle + kNeedleHead.size();
    l.query = hay.size() + needle.size();
    l.text = hay.insert(l.needle, needle) + std::string(kQuery);
    return l;
  }
  int64_t tokens(const Layout& l) const {
    return int64_t(tokenizer_.encode(l.text, options_.add_special).ids.size());
  }

  // The largest haystack that is not too long, then ASCII characters until the count is exact. For a
  // vocabulary of bytes the first guess is right. More text can be fewer tokens where tokens grow over the
  // seams, so the count is always checked.
  Layout fit() const {
    const Layout empty = layout(0, "");
    const int64_t least = tokens(empty);
    if (options_.length < least)
      refuse("--length", std::to_string(options_.length),
             "at least " + std::to_string(least) + " tokens for the needle and the question",
             "Choose a longer prompt.");
    int64_t low = 0, low_count = least, high = -1;  // tokens(low) <= length < tokens(high)
    if (low_count == options_.length) return empty;
    int64_t guess = options_.length - least;
    for (int round = 0; round < 64 && (high < 0 || high - low > 1); ++round) {
      const Layout l = layout(uint64_t(guess), "");
      const int64_t count = tokens(l);
      if (count == options_.length) return l;
      if (count < options_.length)
        low = guess, low_count = count;
      else
        high = guess;
      if (high < 0) {
        guess = std::min<int64_t>(
            kMaxLength * 8,
            low + std::max<int64_t>(1, (options_.length - count) * (low + 1) / std::max<int64_t>(1, count)));
        if (guess == low) break;
      } else {
        guess = low + (high - low) / 2;
      }
    }
    for (int64_t characters = low; characters >= std::max<int64_t>(0, low - 16); --characters)
      for (const std::string_view unit : {" ", ".", "a", "\n", "~"}) {
        std::string filler;
        for (int extra = 0; extra < 24; ++extra) {
          const Layout l = layout(uint64_t(characters), filler);
          if (tokens(l) == options_.length) return l;
          filler += unit;
        }
      }
    refuse("--length",
           std::to_string(options_.length) + " tokens cannot be hit exactly with this tokenizer and haystack",
           "a length that the text can have",
           "Try a length nearby; " + std::to_string(low_count) + " is possible.");
  }
  const std::string& key() const { return key_; }

 private:
  const Tokenizer& tokenizer_;
  const PasskeyOptions& options_;
  Haystack hay_;
  std::string key_;
};

void check_options(const PasskeyOptions& options) {
  if (options.length < 1 || options.length > kMaxLength)
    refuse("--length", std::to_string(options.length), "1 to " + thousands(uint64_t(kMaxLength)) + " tokens");
  if (std::isnan(options.depth) || options.depth > 1)
    refuse("--depth", number_text(options.depth), "a number from 0 to 1");
  if (!options.key.empty()) {
    if (first_invalid_utf8(options.key) != kValidUtf8)
      refuse("--key", printable(options.key, 40), "UTF-8 text");
    if (options.key.size() > 256)
      refuse("--key", std::to_string(options.key.size()) + " bytes", "at most 256");
  }
}

}  // namespace

Prompt make_passkey(const Tokenizer& tokenizer, const PasskeyOptions& options) {
  check_options(options);
  const PasskeyBuilder builder(tokenizer, options);
  const Layout layout = builder.fit();
  const Encoding encoding = tokenizer.encode(layout.text, options.add_special);
  Prompt prompt;
  prompt.name = "password · " + std::to_string(options.length);
  prompt.ids = encoding.ids;
  prompt.has_text = true;
  prompt.text = layout.text;
  prompt.char_offsets = encoding.offsets;
  prompt.spans = {
      token_span(encoding, "needle", layout.needle, layout.needle + needle_text(layout.key_text).size()),
      token_span(encoding, "key", layout.key, layout.key + layout.key_text.size()),
      token_span(encoding, "query", layout.query, layout.text.size()),
  };
  prompt.roles.assign(prompt.ids.size(), 0);
  std::fill(prompt.roles.begin() + prompt.spans[1].begin, prompt.roles.begin() + prompt.spans[1].end,
            uint8_t(1));
  prompt.has_answer = true;
  prompt.answer = layout.key_text;
  prompt.answer_ids = continuation_ids(tokenizer, layout.text, prompt.ids, layout.key_text, options.add_special);
  prompt.parameters = {{"task", "passkey"},
                       {"length", std::to_string(options.length)},
                       {"depth", number_text(layout.depth)},
                       {"seed", std::to_string(options.seed)},
                       {"haystack", options.haystack},
                       {"key", layout.key_text}};
  return prompt;
}

}  // namespace slotscope::formats
