// tokenizer.json, then a NUL and a text of the input's own (both optional): load, encode, decode.
#include "core/formats/tokenizer.h"

#include "core/error.h"
#include "tests/fuzz/fuzz.h"

namespace slotscope::fuzz {
namespace {

using namespace slotscope::formats;

constexpr std::string_view kTexts[] = {
    "", "abcab  Hello world's 12345\n\n\tCAN'T", "<s> <bos><eos> <|endoftext|> [CLS]x </s>",
    "e\xcc\x81 \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e""123 \xf0\x9f\x98\x80\xef\xac\x81\xe2\x80\xa9 \xd9\xa3\xd9\xa4 \xc2\xa0""a\xe2\x96\x81""b"};

void check_text(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool special : {true, false}) {
    Encoding encoding;
    try {
      encoding = tokenizer.encode(text, special);
    } catch (const Error&) {  // no UTF-8, or a character without a token
      continue;
    }
    require(encoding.ids.size() == encoding.offsets.size() && encoding.ids.size() == encoding.byte_offsets.size(),
            "ids, offsets and byte offsets go together");
    int64_t characters = 0;
    for (const char c : text) characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    for (size_t i = 0; i < encoding.ids.size(); ++i) {
      require(encoding.ids[i] >= 0 && encoding.ids[i] < tokenizer.size(), "ids below size()");
      const auto& [begin, end] = encoding.byte_offsets[i];
      require(begin >= 0 && begin <= end && end <= int64_t(text.size()), "byte offsets inside the text");
      const auto& [first, last] = encoding.offsets[i];
      require(first >= 0 && first <= last && last <= characters, "offsets inside the text");
      tokenizer.token_text(encoding.ids[i]);
      tokenizer.token_bytes(encoding.ids[i]);
      tokenizer.is_special(encoding.ids[i]);
    }
    tokenizer.decode(encoding.ids, special);
  }
}

}  // namespace

void run_tokenizer(Bytes input) {
  static const std::filesystem::path folder = [] {
    const auto made = scratch_folder() / "tokenizer";
    std::filesystem::create_directory(made);
    return made;
  }();
  std::string_view text = text_of(input), own;
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    own = text.substr(nul + 1);
    text = text.substr(0, nul);
  }
  write_file(folder / "tokenizer.json", text);
  std::shared_ptr<const Tokenizer> tokenizer;
  try {
    tokenizer = Tokenizer::load(folder);
  } catch (const Error&) {
    return;
  }
  require(tokenizer != nullptr, "a folder with tokenizer.json has a tokenizer");
  for (const std::string_view sample : kTexts) check_text(*tokenizer, sample);
  check_text(*tokenizer, own);
  for (const int32_t id : {0, 1, 255, 256, INT32_MAX, -1}) {
    tokenizer->token_text(id);
    tokenizer->token_bytes(id);
  }
  require(!tokenizer->kind().empty(), "a tokenizer says what it is");
  try {
    tokenizer->decode({0, 1, 2, 3, 97, 255, 300, 70000}, true);
  } catch (const Error&) {  // ids outside the vocabulary may be refused
  }
}

}  // namespace slotscope::fuzz
