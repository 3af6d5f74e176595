#include "core/formats/unicode.h"

#ifdef SLOTSCOPE_TOKENIZERS
#include <unicode/brkiter.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utext.h>
#endif

#include <algorithm>
#include <memory>

#include "core/error.h"
#include "core/formats/utf8.h"

namespace slotscope::formats::unicode {

bool is_white_space(uint32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

#ifdef SLOTSCOPE_TOKENIZERS

namespace {

// The public library carries Unicode tables of several ages: a character that came later has no property
// there, and ids of real tokenizers depend on it. ICU knows the version that each character came with.
constexpr int kNormalization = 11, kPunctuation = 8, kMarks = 9;

bool known_since(uint32_t c, int version) {
  if (c < 0x80) return true;
  UVersionInfo age;
  u_charAge(UChar32(c), age);
  return age[0] <= version;
}

// Decomposition (full, by compatibility or canonical) and composition of the two families of forms.
const icu::Normalizer2& instance(bool compatible) {
  UErrorCode status = U_ZERO_ERROR;
  const auto* found =
      compatible ? icu::Normalizer2::getNFKCInstance(status) : icu::Normalizer2::getNFCInstance(status);
  if (U_FAILURE(status) || !found)
    throw Error({"", "ICU", u_errorName(status), "its normalization data", "Reinstall the ICU libraries."});
  return *found;
}

struct Element {
  Change step;
  uint8_t combining_class;
};

// Marks are ordered by combining class within a run, stably (Unicode chapter 3.11).
void order_marks(std::vector<Element>& elements, size_t run) {
  std::stable_sort(elements.begin() + long(run), elements.end(),
                   [](const Element& a, const Element& b) { return a.combining_class < b.combining_class; });
}

std::vector<Element> decompose(const icu::Normalizer2& norm, std::string_view text) {
  std::vector<Element> all;
  all.reserve(text.size());
  size_t run = 0;  // start of the marks behind the last starter
  icu::UnicodeString parts;
  const auto push = [&](uint32_t c, int64_t changes) {
    const uint8_t cc = c < 0x300 || !known_since(c, kNormalization) ? 0 : norm.getCombiningClass(UChar32(c));
    if (cc == 0) order_marks(all, run);
    all.push_back({{c, changes}, cc});
    if (cc == 0) run = all.size();
  };
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = next_code_point(text, at);
    if (c < 0x80 || !known_since(c, kNormalization) || !norm.getDecomposition(UChar32(c), parts)) {
      push(c, 0);
      continue;
    }
    for (int32_t i = 0; i < parts.length();) {
      const UChar32 part = parts.char32At(i);
      push(uint32_t(part), i > 0);
      i += U16_LENGTH(part);
    }
  }
  order_marks(all, run);
  return all;
}

// Canonical composition; a pair that composes replaces what both replaced, less one for the character that is
// gone.
std::vector<Change> compose(const icu::Normalizer2& norm, const std::vector<Element>& all) {
  std::vector<Change> out, marks;
  out.reserve(all.size());
  bool have = false;
  Change starter{};
  int last = -1;  // combining class of the last mark that was kept, -1 none
  const auto flush = [&] {
    if (have) out.push_back(starter);
    out.insert(out.end(), marks.begin(), marks.end());
    marks.clear();
    last = -1;
  };
  for (const Element& e : all) {
    if (!have && e.combining_class != 0) {
      out.push_back(e.step);
      continue;
    }
    if (have && (last < 0 || last < e.combining_class)) {
      const UChar32 both = norm.composePair(UChar32(starter.code_point), UChar32(e.step.code_point));
      if (both >= 0 && known_since(uint32_t(both), kNormalization)) {
        starter = {uint32_t(both), starter.changes + e.step.changes - 1};
        continue;
      }
    }
    if (e.combining_class != 0) {
      marks.push_back(e.step);
      last = e.combining_class;
      continue;
    }
    flush();
    starter = e.step;
    have = true;
  }
  flush();
  return out;
}

}  // namespace

bool is_word(uint32_t c) {
  return u_hasBinaryProperty(UChar32(c), UCHAR_ALPHABETIC) ||
         u_hasBinaryProperty(UChar32(c), UCHAR_JOIN_CONTROL) ||
         (U_GET_GC_MASK(UChar32(c)) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK));
}
bool is_numeric(uint32_t c) {
  return U_GET_GC_MASK(UChar32(c)) & (U_GC_ND_MASK | U_GC_NL_MASK | U_GC_NO_MASK);
}
bool is_punctuation(uint32_t c) {
  if (c < 0x80)
    return c > 0x20 && c < 0x7F && !(c >= '0' && c <= '9') && !((c | 32) >= 'a' && (c | 32) <= 'z');
  if (c == 0x166D || c == 0x111C9) return true;  // a symbol and a mark since
  return (U_GET_GC_MASK(UChar32(c)) & U_GC_P_MASK) && known_since(c, kPunctuation);
}
bool is_mark(uint32_t c) {
  if (c == 0x1CF2 || c == 0x1CF3) return true;  // letters since
  return (U_GET_GC_MASK(UChar32(c)) & U_GC_M_MASK) && known_since(c, kMarks) && c != 0x111C9;
}

int lowercase(uint32_t c, uint32_t out[3]) {
  if (c == 0x130)
    return out[0] = 'i', out[1] = 0x307, 2;  // the one unconditional special case of SpecialCasing.txt
  out[0] = uint32_t(u_tolower(UChar32(c)));
  return 1;
}

bool is_normalized(Form form, std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const auto& norm = form == Form::nfc    ? *icu::Normalizer2::getNFCInstance(status)
                     : form == Form::nfd  ? *icu::Normalizer2::getNFDInstance(status)
                     : form == Form::nfkc ? *icu::Normalizer2::getNFKCInstance(status)
                                          : *icu::Normalizer2::getNFKDInstance(status);
  const bool result = norm.isNormalizedUTF8(icu::StringPiece(text.data(), int32_t(text.size())), status);
  return U_SUCCESS(status) &&
         result;  // what ICU changes and the older tables do not goes the long way, unchanged
}

std::vector<Change> normalize(Form form, std::string_view text) {
  const auto& norm = instance(form == Form::nfkc || form == Form::nfkd);
  const std::vector<Element> parts = decompose(norm, text);
  if (form == Form::nfc || form == Form::nfkc) return compose(norm, parts);
  std::vector<Change> out;
  out.reserve(parts.size());
  for (const Element& e : parts) out.push_back(e.step);
  return out;
}

std::vector<size_t> grapheme_ends(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  UText* source = utext_openUTF8(nullptr, text.data(), int64_t(text.size()), &status);
  if (U_SUCCESS(status)) breaks->setText(source, status);
  std::vector<size_t> ends;
  if (U_SUCCESS(status)) {
    breaks->first();
    for (int32_t end = breaks->next(); end != icu::BreakIterator::DONE; end = breaks->next())
      ends.push_back(size_t(end));
  }
  utext_close(source);
  if (U_FAILURE(status))
    throw Error({"", "ICU", u_errorName(status), "its grapheme break data", "Reinstall the ICU libraries."});
  return ends;
}

#else

namespace {
[[noreturn]] void unavailable() {
  throw Error({"", "tokenizer", "this program was built without Unicode tables"});
}
}  // namespace
bool is_word(uint32_t) { unavailable(); }
bool is_numeric(uint32_t) { unavailable(); }
bool is_punctuation(uint32_t) { unavailable(); }
bool is_mark(uint32_t) { unavailable(); }
int lowercase(uint32_t, uint32_t*) { unavailable(); }
bool is_normalized(Form, std::string_view) { unavailable(); }
std::vector<Change> normalize(Form, std::string_view) { unavailable(); }
std::vector<size_t> grapheme_ends(std::string_view) { unavailable(); }

#endif

}  // namespace slotscope::formats::unicode
