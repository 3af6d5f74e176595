#include "core/formats/regex.h"

#include <ctime>

#include "core/error.h"
#include "core/formats/tokenizer_json.h"
#include "core/formats/utf8.h"

#ifdef SLOTSCOPE_TOKENIZERS
#include <unicode/regex.h>
#endif

namespace slotscope::formats {

namespace {

std::chrono::nanoseconds thread_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

Deadline::Deadline(std::chrono::milliseconds from_now) : end_(thread_time() + from_now) {}
bool Deadline::passed() const { return thread_time() > end_; }

#ifdef SLOTSCOPE_TOKENIZERS

namespace {

constexpr int32_t kStackBytes = 64 << 20;

struct Watch {
  const Deadline* deadline;
  unsigned calls = 0;
};

// ICU calls it every few thousand steps of the engine.
UBool go_on(const void* watch, int32_t) { return !static_cast<const Watch*>(watch)->deadline->passed(); }
// And this whenever a search moves on by a character: too often to look at the clock every time.
UBool go_on_searching(const void* watch, int64_t) {
  auto& w = *const_cast<Watch*>(static_cast<const Watch*>(watch));
  return ++w.calls % 64 != 0 || !w.deadline->passed();
}

}  // namespace

struct Regex::Impl {
  std::unique_ptr<icu::RegexPattern> pattern;
  std::string written, file, item;
};

Regex::Regex() : impl_(std::make_unique<Impl>()) {}
Regex::~Regex() = default;

std::shared_ptr<const Regex> Regex::compile(const std::string& pattern, const JsonItem& item) {
  if (pattern.size() > 20'000)
    item.refuse(std::to_string(pattern.size()) + " bytes", "a pattern of at most 20,000 bytes");
  const std::string translated = translate_regex(pattern, item);
  UErrorCode status = U_ZERO_ERROR;
  UParseError place;
  // Only \n ends a line, as in Oniguruma.
  std::unique_ptr<icu::RegexPattern> compiled(
      icu::RegexPattern::compile(icu::UnicodeString::fromUTF8(translated), UREGEX_UNIX_LINES, place, status));
  if (U_FAILURE(status) || !compiled)
    item.refuse("'" + printable(pattern, 60) + "' (" + u_errorName(status) + ")",
                "a regular expression that this program can run");
  std::shared_ptr<Regex> regex(new Regex);
  *regex->impl_ = {std::move(compiled), pattern, item.file(), item.path()};
  return regex;
}

struct Regex::Searcher::Impl {
  const Regex& regex;
  Watch watch;
  std::unique_ptr<icu::RegexMatcher> matcher;
  std::u16string buffer;
  icu::UnicodeString text;

  [[noreturn]] void give_up(UErrorCode status) const {
    const char* why = status == U_REGEX_STACK_OVERFLOW      ? "needs too much memory for this text"
                      : status == U_REGEX_STOPPED_BY_CALLER ? "takes too long for this text"
                                                            : u_errorName(status);
    throw Error({regex.impl_->file, regex.impl_->item, "'" + printable(regex.impl_->written, 60) + "' " + why,
                 "a pattern whose effort grows with the text only", "Run the model from token ids instead."});
  }
};

Regex::Searcher::Searcher(const Regex& regex, const Deadline& deadline)
    : impl_(new Impl{regex, {&deadline}}) {
  UErrorCode status = U_ZERO_ERROR;
  impl_->matcher.reset(regex.impl_->pattern->matcher(status));
  if (U_FAILURE(status)) impl_->give_up(status);
  impl_->matcher->setStackLimit(kStackBytes, status);
  impl_->matcher->setMatchCallback(go_on, &impl_->watch, status);
  impl_->matcher->setFindProgressCallback(go_on_searching, &impl_->watch, status);
  if (U_FAILURE(status)) impl_->give_up(status);
}
Regex::Searcher::~Searcher() = default;

void Regex::Searcher::find(std::string_view text, std::vector<Match>& matches) {
  std::u16string& buffer = impl_->buffer;
  buffer.clear();
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = next_code_point(text, at);
    if (c < 0x10000) {
      buffer.push_back(char16_t(c));
    } else {
      buffer.push_back(char16_t(0xD7C0 + (c >> 10)));
      buffer.push_back(char16_t(0xDC00 + (c & 0x3FF)));
    }
  }
  impl_->text.setTo(false, buffer.data(), int32_t(buffer.size()));  // an alias: no copy
  impl_->matcher->reset(impl_->text);
  UErrorCode status = U_ZERO_ERROR;
  // Matches come in order, so one cursor turns places of UTF-16 into bytes.
  size_t bytes = 0;
  int32_t units = 0;
  const auto byte_of = [&](int32_t unit) {
    while (units < unit) {
      const int length = utf8_length(static_cast<unsigned char>(text[bytes]));
      bytes += size_t(length);
      units += length == 4 ? 2 : 1;
    }
    return bytes;
  };
  int32_t last_end = -1;
  while (impl_->matcher->find(status) && U_SUCCESS(status)) {
    const int32_t begin = impl_->matcher->start(status), end = impl_->matcher->end(status);
    if (begin == end && begin == last_end) continue;
    last_end = end;
    const size_t from = byte_of(begin);
    matches.push_back({from, byte_of(end)});
  }
  if (U_FAILURE(status)) impl_->give_up(status);
}

#else

struct Regex::Impl {};
struct Regex::Searcher::Impl {};
Regex::Regex() = default;
Regex::~Regex() = default;
std::shared_ptr<const Regex> Regex::compile(const std::string& pattern, const JsonItem& item) {
  item.refuse("regular expression '" + printable(pattern, 60) + "'",
              "a tokenizer without regular expressions: this program was built without them");
}
Regex::Searcher::Searcher(const Regex&, const Deadline&) {}
Regex::Searcher::~Searcher() = default;
void Regex::Searcher::find(std::string_view, std::vector<Match>&) {}

#endif

}  // namespace slotscope::formats
