// Tensor names: any Unicode, slashes and NUL among it, byte for byte; invalid UTF-8 refused with its place
// (bad-inputs B13).
#include "core/error.h"
#include "core/formats/checkpoint.h"
#include "core/formats/utf8.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

using namespace slotscope::formats;
using namespace slotscope::testing;

namespace {

std::shared_ptr<const Checkpoint> named(Context& t, const std::string& name_in_json) {
  const auto path = t.temp() / "model.safetensors";
  write_file(path,
             safetensors("{\"" + name_in_json + "\":" + entry("F32", "[1]", 0, 4) + "}", raw<float>({4})));
  return Checkpoint::open(path);
}

}  // namespace

SLOTSCOPE_CASE(any_unicode) {
  using namespace std::string_literals;
  const std::vector<std::pair<std::string, std::string>> names = {
      {"层.0", "层.0"},
      {"a\\u0000b", "a\0b"s},
      {"\\\"x\\\\\\\"y", "\"x\\\"y"},
      {"../w", "../w"},
      {"a/b//c", "a/b//c"},
      {"", ""},
      {"\\ud83d\\ude00", "😀"},
      {std::string(10'000, 'n'), std::string(10'000, 'n')},
      {"\\u00e9", "é"},
      {" spaces ", " spaces "}};
  for (const auto& [json, name] : names) {
    const auto checkpoint = named(t, json);
    CHECK_EQ(checkpoint->tensors()[0].name, name);
    const TensorInfo* found = checkpoint->find(name);
    CHECK(found != nullptr);
    if (found) CHECK_EQ(read_values(*checkpoint, *found, 0, 1), std::vector<double>{4});
  }
}

SLOTSCOPE_CASE(invalid_names) {
  CHECK_ERROR(named(t, "a\xff"), "model.safetensors", "header", "invalid UTF-8 at byte 3 (0xff)");
  CHECK_ERROR(named(t, "\xc3"), "invalid UTF-8 at byte 2");
  CHECK_ERROR(named(t, "\\ud800"), "header", "surrogate");
  CHECK_ERROR(named(t, std::string("a\0b", 3)), "header", "JSON");  // a bare NUL is no JSON
}

// A very long name does not fill the screen when it is part of a message.
SLOTSCOPE_CASE(messages_stay_readable) {
  const auto path = t.temp() / "model.safetensors";
  write_file(
      path,
      safetensors("{\"" + std::string(10'000, 'n') + "\\u0007\":" + entry("F32", "[2]", 0, 4) + "}", "1234"));
  try {
    Checkpoint::open(path);
    t.fail("no error", __FILE__, __LINE__);
  } catch (const slotscope::Error& error) {
    CHECK(std::string_view(error.what()).size() < 600);
  }
  CHECK_EQ(printable("a\nb\x7f"), std::string("a\\x0ab\\x7f"));
  CHECK_EQ(printable("ééé", 3), std::string("é..."));
}

SLOTSCOPE_CASE(utf8_rules) {
  const std::vector<std::pair<std::string, size_t>> texts = {{"", kValidUtf8},
                                                             {"aé€😀", kValidUtf8},
                                                             {"\xc2\x80", kValidUtf8},
                                                             {"\xf4\x8f\xbf\xbf", kValidUtf8},
                                                             {"\xed\x9f\xbf", kValidUtf8},
                                                             {"\xc1\xbf", 0},
                                                             {"\xe0\x9f\xbf", 0},
                                                             {"\xed\xa0\x80", 0},
                                                             {"\xf0\x8f\xbf\xbf", 0},
                                                             {"\xf4\x90\x80\x80", 0},
                                                             {"\xf5\x80\x80\x80", 0},
                                                             {"a\x80", 1},
                                                             {"ab\xe2\x82", 2},
                                                             {"ab\xe2\x82"
                                                              "c",
                                                              2},
                                                             {"\xff", 0}};
  for (const auto& [text, expected] : texts) CHECK_EQ(first_invalid_utf8(text), expected);
  // Every code point survives being written and read.
  for (uint32_t c = 0; c < 0x110000; c += (c < 0x3000 ? 1 : 977)) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    size_t at = 0;
    if (first_invalid_utf8(text) != kValidUtf8 || next_code_point(text, at) != c || at != text.size())
      return t.fail("code point " + std::to_string(c), __FILE__, __LINE__);
  }
}
