// BPE of tokenizer.json: characters of the vocabulary (or their bytes, or unknown), merged by rank.
#include <algorithm>
#include <array>

#include "core/formats/bpe.h"
#include "core/formats/tokenizer_json.h"
#include "core/formats/tokenizer_model.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

using nlohmann::json;

class Bpe : public TokenModel {
 public:
  explicit Bpe(const JsonItem& item);
  std::unique_ptr<Scratch> scratch() const override { return std::make_unique<Memory>(); }
  size_t tokenize(std::string_view word, Scratch& scratch, std::vector<ModelToken>& out) const override;
  std::string kind() const override { return byte_fallback_ ? "BPE with byte fallback" : "BPE"; }

 private:
  struct Memory : Scratch {
    Merger merger;
    std::vector<Piece> pieces;
    std::string symbol;
  };
  void read_merges(const JsonItem& item);
  size_t symbols(std::string_view word, Memory& memory) const;
  int32_t symbol_id(std::string_view word, size_t begin, size_t end, Memory& memory) const;

  MergeTable merges_;
  std::string prefix_, suffix_;  // of symbols inside a word, of a word's last symbol
  int32_t unknown_ = -1;
  bool fuse_unknown_, byte_fallback_, ignore_merges_;
  std::array<int32_t, 0x200> single_;  // ids of the characters below U+0200, -1 none
  std::array<int32_t, 256> byte_id_;   // ids of <0x00> to <0xFF>, -1 none
};

Bpe::Bpe(const JsonItem& item)
    : fuse_unknown_(item.flag("fuse_unk", false)),
      byte_fallback_(item.flag("byte_fallback", false)),
      ignore_merges_(item.flag("ignore_merges", false)) {
  if (const auto dropout = item.find("dropout"); dropout && dropout->number() != 0)
    dropout->refuse(dropout->shown(), "null: encoding must not be random");
  if (const auto prefix = item.find("continuing_subword_prefix")) prefix_ = prefix->text();
  if (const auto suffix = item.find("end_of_word_suffix")) suffix_ = suffix->text();
  read_vocabulary(item, vocabulary_);
  if (const auto unknown = item.find("unk_token")) {
    unknown_ = vocabulary_.id_of(unknown->text());
    if (unknown_ < 0)
      unknown->refuse("'" + printable(unknown->text(), 40) + "'", "a token of the vocabulary");
  }
  for (uint32_t c = 0; c < single_.size(); ++c) {
    std::string text;
    append_utf8(text, c);
    single_[c] = vocabulary_.id_of(text);
  }
  for (size_t byte = 0; byte < 256; ++byte)
    byte_id_[byte] = vocabulary_.id_of(byte_token(static_cast<unsigned char>(byte)));
  if (const auto merges = item.find("merges")) read_merges(*merges);
}

// Both written forms: "a b" and ["a", "b"] (bad-inputs B30).
void Bpe::read_merges(const JsonItem& list) {
  const size_t count = list.list_size();
  merges_.reserve(count);
  int32_t rank = 0;
  std::string left, right, both;
  for (size_t i = 0; i < count; ++i) {
    const json& entry = list.value()[i];
    if (entry.is_string()) {
      const auto& text = entry.get_ref<const std::string&>();
      if (text.starts_with("#version")) continue;
      const auto space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        list[i].refuse("'" + printable(text, 40) + "' has " +
                           std::to_string(std::count(text.begin(), text.end(), ' ')) + " spaces",
                       "two tokens with one space");
      left = text.substr(0, space), right = text.substr(space + 1);
    } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
      left = entry[0].get_ref<const std::string&>(), right = entry[1].get_ref<const std::string&>();
    } else {
      list[i].refuse(printable(entry.dump(-1, ' ', false, json::error_handler_t::replace), 40),
                     "\"left right\" or [\"left\", \"right\"]");
    }
    both = left;
    both.append(right, right.starts_with(prefix_) ? prefix_.size() : 0);
    int32_t id[3];
    const std::string* texts[] = {&left, &right, &both};
    for (int k = 0; k < 3; ++k)
      if ((id[k] = vocabulary_.id_of(*texts[k])) < 0)
        list[i].refuse("'" + printable(*texts[k], 40) + "' is not in the vocabulary",
                       "tokens of the vocabulary");
    merges_.add(id[0], id[1], rank++, id[2]);
  }
}

int32_t Bpe::symbol_id(std::string_view word, size_t begin, size_t end, Memory& memory) const {
  const std::string_view character = word.substr(begin, end - begin);
  const bool plain = (prefix_.empty() || begin == 0) && (suffix_.empty() || end < word.size());
  if (!plain) {
    memory.symbol.clear();
    if (begin > 0) memory.symbol = prefix_;
    memory.symbol += character;
    if (end == word.size()) memory.symbol += suffix_;
    return vocabulary_.id_of(memory.symbol);
  }
  memory.symbol = character;
  size_t at = 0;
  const uint32_t c = next_code_point(character, at);
  return c < single_.size() ? single_[c] : vocabulary_.id_of(character);
}

size_t Bpe::symbols(std::string_view word, Memory& memory) const {
  std::vector<Piece>& pieces = memory.pieces;
  pieces.clear();
  int64_t place = 0;    // bytes of the pieces so far
  int64_t unknown = 0;  // bytes of an unknown stretch that is not a piece yet
  const auto add = [&](int32_t id, int64_t bytes) {
    pieces.push_back({id, place, place + bytes}), place += bytes;
  };
  const auto flush = [&] {
    if (unknown > 0) add(unknown_, unknown);
    unknown = 0;
  };
  for (size_t begin = 0, end; begin < word.size(); begin = end) {
    end = std::min(word.size(), begin + size_t(utf8_length(static_cast<unsigned char>(word[begin]))));
    if (const int32_t id = symbol_id(word, begin, end, memory); id >= 0) {
      flush();
      add(id, int64_t(end - begin));
      continue;
    }
    // The symbol's bytes, with its prefix and suffix, as the public library takes them. It does not end an
    // unknown stretch here: that one comes behind the bytes.
    if (byte_fallback_ && std::all_of(memory.symbol.begin(), memory.symbol.end(),
                                      [&](char c) { return byte_id_[static_cast<unsigned char>(c)] >= 0; })) {
      for (const char c : memory.symbol) add(byte_id_[static_cast<unsigned char>(c)], 1);
      continue;
    }
    if (unknown_ < 0) return begin;
    if (!fuse_unknown_) flush();
    unknown += int64_t(end - begin);
  }
  flush();
  return kDone;
}

size_t Bpe::tokenize(std::string_view word, Scratch& scratch, std::vector<ModelToken>& out) const {
  if (ignore_merges_)
    if (const int32_t id = vocabulary_.id_of(word); id >= 0) {
      out.push_back({id, 0, uint32_t(word.size()), false});
      return kDone;
    }
  auto& memory = static_cast<Memory&>(scratch);
  if (const size_t failed = symbols(word, memory); failed != kDone) return failed;
  memory.merger.run(merges_, memory.pieces);
  const auto most = int64_t(word.size());  // bytes of a prefix or suffix are none of the word's
  for (const Piece& piece : memory.pieces)
    out.push_back(
        {piece.id, uint32_t(std::min(piece.begin, most)), uint32_t(std::min(piece.end, most)), false});
  return kDone;
}

}  // namespace

std::shared_ptr<const TokenModel> read_bpe(const JsonItem& item) { return std::make_shared<Bpe>(item); }

}  // namespace slotscope::formats
