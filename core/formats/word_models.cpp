// WordPiece (longest match from the left) and WordLevel (whole words) of tokenizer.json.
#include "core/formats/tokenizer_json.h"
#include "core/formats/tokenizer_model.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

// The id of "unk_token"; -1 when the vocabulary lacks it (an error once it is needed, as in the public
// library).
int32_t read_unknown(const JsonItem& item, const Vocabulary& vocabulary) {
  return vocabulary.id_of(item.text("unk_token"));
}

class WordPiece : public TokenModel {
 public:
  explicit WordPiece(const JsonItem& item) : prefix_(item.text("continuing_subword_prefix")) {
    read_vocabulary(item, vocabulary_);
    unknown_ = read_unknown(item, vocabulary_);
    if (const auto most = item.find("max_input_chars_per_word")) most_ = size_t(most->whole(0, 1000));
  }
  std::unique_ptr<Scratch> scratch() const override { return std::make_unique<Memory>(); }
  std::string kind() const override { return "WordPiece"; }

  size_t tokenize(std::string_view word, Scratch& scratch, std::vector<ModelToken>& out) const override {
    const size_t before = out.size();
    size_t characters = 0;
    for (const char c : word) characters += !is_utf8_continuation(c);
    bool good = characters <= most_;
    for (size_t begin = 0, end; good && begin < word.size(); begin = end) {
      int32_t id = -1;
      for (end = word.size(); end > begin; --end) {
        if (end < word.size() && is_utf8_continuation(word[end])) continue;
        id = piece(word, begin, end, static_cast<Memory&>(scratch).text);
        if (id >= 0) break;
      }
      good = id >= 0;
      if (good) out.push_back({id, uint32_t(begin), uint32_t(end), false});
    }
    if (good) return kDone;
    out.resize(before);
    if (unknown_ < 0) return 0;
    out.push_back({unknown_, 0, uint32_t(word.size()), false});
    return kDone;
  }

 private:
  struct Memory : Scratch {
    std::string text;
  };
  int32_t piece(std::string_view word, size_t begin, size_t end, std::string& text) const {
    if (begin == 0) return vocabulary_.id_of(word.substr(0, end));
    text = prefix_;
    text += word.substr(begin, end - begin);
    return vocabulary_.id_of(text);
  }
  std::string prefix_;
  int32_t unknown_ = -1;
  size_t most_ = 100;
};

class WordLevel : public TokenModel {
 public:
  explicit WordLevel(const JsonItem& item) {
    read_vocabulary(item, vocabulary_);
    unknown_ = read_unknown(item, vocabulary_);
  }
  std::unique_ptr<Scratch> scratch() const override { return std::make_unique<Scratch>(); }
  std::string kind() const override { return "WordLevel"; }
  size_t tokenize(std::string_view word, Scratch&, std::vector<ModelToken>& out) const override {
    const int32_t found = vocabulary_.id_of(word), id = found >= 0 ? found : unknown_;
    if (id < 0) return 0;
    out.push_back({id, 0, uint32_t(word.size()), false});
    return kDone;
  }

 private:
  int32_t unknown_ = -1;
};

}  // namespace

std::shared_ptr<const TokenModel> read_word_piece(const JsonItem& item) {
  return std::make_shared<WordPiece>(item);
}
std::shared_ptr<const TokenModel> read_word_level(const JsonItem& item) {
  return std::make_shared<WordLevel>(item);
}

}  // namespace slotscope::formats
