// Normalisers: the text they make, and which bytes of the original every byte of it stands for.
#include "core/error.h"
#include "core/formats/unicode.h"
#include "core/formats/utf8.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/tokenizer_parts.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
using nlohmann::json;

namespace {

// "character:begin-end" for each character of the normalised text.
std::string aligned(const json& section, const std::string& text) {
  const AlignedText result = normalised(section, text);
  std::string out;
  for (size_t at = 0; at < result.text().size();) {
    const size_t begin = at;
    next_code_point(result.text(), at);
    const auto span = result.span(begin, at);
    out += (out.empty() ? "" : " ") + result.text().substr(begin, at - begin) + ":" +
           std::to_string(span.begin) + "-" + std::to_string(span.end);
  }
  return out;
}

json type(const char* name) { return {{"type", name}}; }

}  // namespace

// Of the characters that one becomes all stand where it stood; a composed one stands where its first part
// stood.
SLOTSCOPE_CASE(forms) {
  needs_icu(t);
  CHECK_EQ(aligned(type("NFC"), "ae\u0301b"), std::string("a:0-1 é:1-2 b:4-5"));
  CHECK_EQ(aligned(type("NFC"), "e\u0323\u0302x"), std::string("ệ:0-1 x:5-6"));
  CHECK_EQ(aligned(type("NFC"), "é日"), std::string("é:0-2 日:2-5"));
  CHECK_EQ(aligned(type("NFD"), "aéb"), std::string("a:0-1 e:1-3 \u0301:1-3 b:3-4"));
  CHECK_EQ(aligned(type("NFKC"), "ﬁx"), std::string("f:0-3 i:0-3 x:3-4"));
  CHECK_EQ(aligned(type("NFKC"), "\u212b"), std::string("\u00c5:0-3"));
  CHECK_EQ(aligned(type("NFKC"), "\u00a0"), std::string(" :0-2"));
  CHECK_EQ(aligned(type("NFKD"), "①é"), std::string("1:0-3 e:3-5 \u0301:3-5"));
  CHECK_EQ(aligned(type("NFC"), "\u1112\u1161\u11ab."), std::string("한:0-3 .:9-10"));
  CHECK_EQ(aligned(type("NFD"), "한"), std::string("\u1112:0-3 \u1161:0-3 \u11ab:0-3"));
  // Marks are put in order; the first of them stands where the first stood.
  CHECK_EQ(aligned(type("NFD"), "a\u0301\u0323"), std::string("a:0-1 \u0323:1-3 \u0301:3-5"));
  CHECK_EQ(aligned(type("NFC"), "\u0301a"), std::string("\u0301:0-2 a:2-3"));
}

// On random strings of awkward characters: the forms are what ICU calls normalised, the same twice, agree
// with each other, and every old character is accounted for.
SLOTSCOPE_CASE(forms_hold_their_laws) {
  needs_icu(t);
  using unicode::Form;
  const std::vector<uint32_t> pool = {
      'a',    'e',    0x301,   0x323,   0x302,   0x327,   0x345,   0xE9,   0x1EC7, 0x212B, 0x2126,
      0xFB01, 0x3131, 0x1112,  0x1161,  0x11AB,  0xAC00,  0xD55C,  0xFDFA, 0x1100, 0x0958, 0x0F73,
      0x0F71, 0x0F72, 0x1D15E, 0x2FA1D, 0x11099, 0x110BA, 0x110A5, ' ',    0x3000, 0x344,  0x390};
  const auto write = [](const std::vector<Change>& steps) {
    std::string text;
    for (const Change& step : steps) append_utf8(text, step.code_point);
    return text;
  };
  uint64_t state = 11;
  int changed = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    int64_t characters = 0;
    for (; characters < round % 9; ++characters) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      append_utf8(text, pool[(state >> 33) % pool.size()]);
    }
    for (const Form form : {Form::nfc, Form::nfd, Form::nfkc, Form::nfkd}) {
      const auto steps = unicode::normalize(form, text);
      const std::string once = write(steps);
      CHECK(unicode::is_normalized(form, once));
      CHECK_EQ(write(unicode::normalize(form, once)), once);
      changed += once != text;
      int64_t used = 0;
      for (const Change& step : steps) used += 1 - step.changes;  // 1 when it replaces, 0 when it is new
      CHECK_EQ(used, characters);
      if (unicode::is_normalized(form, text)) CHECK_EQ(once, text);
    }
    const auto form = [&](Form f, const std::string& s) { return write(unicode::normalize(f, s)); };
    CHECK_EQ(form(Form::nfc, form(Form::nfd, text)), form(Form::nfc, text));
    CHECK_EQ(form(Form::nfkc, form(Form::nfkd, text)), form(Form::nfkc, text));
    CHECK_EQ(form(Form::nfd, form(Form::nfc, text)), form(Form::nfd, text));
  }
  CHECK(changed > 4000);
}

SLOTSCOPE_CASE(prepend_and_replace) {
  const json prepend = {{"type", "Prepend"}, {"prepend", "▁"}};
  CHECK_EQ(aligned(prepend, "éa"), std::string("▁:0-2 é:0-2 a:2-3"));
  CHECK(normalised(prepend, "").segments().empty());
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  CHECK_EQ(aligned(replace, "a  b"), std::string("a:0-1 ▁:1-2 ▁:2-3 b:3-4"));
  // Of several characters that are replaced the last one gives the place, as in the public library.
  const json quotes = {{"type", "Replace"}, {"pattern", {{"String", "``"}}}, {"content", "\""}};
  CHECK_EQ(aligned(quotes, "x``y"), std::string("x:0-1 \":2-3 y:3-4"));
  const json both = {{"type", "Sequence"}, {"normalizers", {prepend, replace}}};
  CHECK_EQ(aligned(both, " a"), std::string("▁:0-1 ▁:0-1 a:1-2"));
  if (has_all_tokenizers()) {
    const json regex = {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}};
    CHECK_EQ(aligned(regex, "a   b c"), std::string("a:0-1  :3-4 b:4-5  :5-6 c:6-7"));
    const json start = {{"type", "Replace"}, {"pattern", {{"Regex", "^"}}}, {"content", "_"}};
    CHECK_EQ(aligned(start, "ab"), std::string("_:0-0 a:0-1 b:1-2"));
  }
}

SLOTSCOPE_CASE(strip_and_map) {
  const auto strip = [](bool left, bool right) {
    return json{{"type", "Strip"}, {"strip_left", left}, {"strip_right", right}};
  };
  CHECK_EQ(aligned(strip(true, true), " \u3000é "), std::string("é:4-6"));
  CHECK_EQ(aligned(strip(true, false), " a "), std::string("a:1-2  :2-3"));
  CHECK_EQ(aligned(strip(false, true), " a\u2028"), std::string(" :0-1 a:1-2"));
  CHECK(normalised(strip(true, true), " \t\n").segments().empty());
  CHECK_EQ(aligned(type("Nmt"), "a\x01\tb\u200b"), std::string("a:0-1  :2-3 b:3-4  :4-7"));
  CHECK_EQ(aligned(type("ByteLevel"), "é "), std::string("Ã:0-1 ©:1-2 Ġ:2-3"));
  if (!has_all_tokenizers()) return;
  CHECK_EQ(aligned(type("Lowercase"), "AÉ\u0130\u1E9E"), std::string("a:0-1 é:1-3 i:3-5 \u0307:3-5 ß:5-8"));
  const json accents = {{"type", "Sequence"}, {"normalizers", {type("NFD"), type("StripAccents")}}};
  CHECK_EQ(aligned(accents, "éa\u0323"), std::string("e:0-2 a:2-3"));
}

// Sections that blow a text up, nest without end or are endless are refused.
SLOTSCOPE_CASE(hostile_normalisers) {
  json doubling = json::array();
  for (int i = 0; i < 60; ++i)
    doubling.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  CHECK_ERROR(normalised({{"type", "Sequence"}, {"normalizers", doubling}}, "a"), "more than", "64 times");
  json prefixes = json::array();
  for (int i = 0; i < 60; ++i)
    prefixes.push_back({{"type", "Prepend"}, {"prepend", std::string(100'000, 'x')}});
  CHECK_ERROR(normalised({{"type", "Sequence"}, {"normalizers", prefixes}}, "a"), "64 times");
  for (int i = 0; i < 20; ++i) prefixes.push_back({{"type", "Nmt"}});
  CHECK_ERROR(normalised({{"type", "Sequence"}, {"normalizers", prefixes}}, "a"), "normalizer.normalizers",
              "more than 64 steps");
  json deep = {{"type", "Nmt"}};
  for (int i = 0; i < 30; ++i) deep = {{"type", "Sequence"}, {"normalizers", {deep}}};
  CHECK_ERROR(normalised(deep, "a"), "nested deeper than 10");
}
