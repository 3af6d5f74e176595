// Unigram of tokenizer.json: the segmentation with the highest sum of scores (Viterbi).
#include <array>
#include <limits>

#include "core/formats/prefix_table.h"
#include "core/formats/tokenizer_json.h"
#include "core/formats/tokenizer_model.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

class Unigram : public TokenModel {
 public:
  explicit Unigram(const JsonItem& item);
  std::unique_ptr<Scratch> scratch() const override { return std::make_unique<Memory>(); }
  size_t tokenize(std::string_view word, Scratch& scratch, std::vector<ModelToken>& out) const override;
  std::string kind() const override { return byte_fallback_ ? "Unigram with byte fallback" : "Unigram"; }

 private:
  struct Best {
    double score;
    uint32_t begin;  // where the token that ends here begins
    int32_t id;      // -1: nothing ends here
  };
  struct Memory : Scratch {
    std::vector<Best> best;
    std::vector<std::pair<uint32_t, uint32_t>> pieces;
  };
  size_t search(std::string_view word, std::vector<Best>& best) const;
  bool emit(std::string_view word, uint32_t begin, uint32_t end, std::vector<ModelToken>& out) const;

  PrefixTable table_;           // text -> id
  std::vector<double> scores_;  // by id
  double unknown_score_ = 0;
  int32_t unknown_ = -1;
  bool byte_fallback_;
  std::array<int32_t, 256> byte_id_;
};

Unigram::Unigram(const JsonItem& item) : byte_fallback_(item.flag("byte_fallback", false)) {
  const JsonItem list = item.at("vocab", "a list of [text, score]");
  const size_t count = list.list_size("a list of [text, score]");
  vocabulary_.reserve(count);
  std::vector<std::pair<std::string, int32_t>> entries;
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < count; ++i) {
    const JsonItem entry = list[i];
    if (entry.list_size("[text, score]") != 2) entry.refuse(entry.shown(), "[text, score]");
    std::string text = entry[0].text();
    scores_.push_back(entry[1].number());
    lowest = std::min(lowest, scores_.back());
    entries.emplace_back(text, 0);
    vocabulary_.add(std::move(text), int32_t(i));  // of equal texts the last one's id counts
  }
  for (auto& [text, id] : entries) id = vocabulary_.id_of(text);
  table_.build(std::move(entries));
  unknown_score_ = lowest - 10;  // the public library's penalty
  if (const auto unknown = item.find("unk_id")) unknown_ = int32_t(unknown->whole(0, int64_t(count) - 1));
  for (size_t byte = 0; byte < 256; ++byte)
    byte_id_[byte] = vocabulary_.id_of(byte_token(static_cast<unsigned char>(byte)));
}

// The best way to end a token at each byte. Of equal sums the one found first stays: the earlier beginning,
// as in the public library.
size_t Unigram::search(std::string_view word, std::vector<Best>& best) const {
  best.assign(word.size() + 1, {0, 0, -1});
  const auto offer = [&](size_t begin, size_t end, int32_t id, double score) {
    if (best[end].id < 0 || score > best[end].score) best[end] = {score, uint32_t(begin), id};
  };
  for (size_t at = 0; at < word.size();) {
    const size_t next = std::min(word.size(), at + size_t(utf8_length(static_cast<unsigned char>(word[at]))));
    const double here = best[at].score;
    bool single = false;
    table_.each_prefix(word.substr(at), [&](size_t length, int32_t id) {
      offer(at, at + length, id, scores_[size_t(id)] + here);
      single = single || at + length == next;
    });
    if (!single) {
      if (unknown_ < 0) return at;
      offer(at, next, unknown_, unknown_score_ + here);
    }
    at = next;
  }
  return kDone;
}

// One piece: its own id, else its bytes, else unknown.
bool Unigram::emit(std::string_view word, uint32_t begin, uint32_t end, std::vector<ModelToken>& out) const {
  const std::string_view piece = word.substr(begin, end - begin);
  if (const int32_t id = vocabulary_.id_of(piece); id >= 0)
    return out.push_back({id, begin, end, true}), true;
  bool bytes = byte_fallback_;
  for (const char c : piece) bytes = bytes && byte_id_[static_cast<unsigned char>(c)] >= 0;
  if (bytes) {
    for (const char c : piece) out.push_back({byte_id_[static_cast<unsigned char>(c)], begin, end, false});
    return true;
  }
  if (unknown_ < 0) return false;
  out.push_back({unknown_, begin, end, true});
  return true;
}

size_t Unigram::tokenize(std::string_view word, Scratch& scratch, std::vector<ModelToken>& out) const {
  auto& memory = static_cast<Memory&>(scratch);
  if (const size_t failed = search(word, memory.best); failed != kDone) return failed;
  // From the end: neighbouring unknown pieces are one.
  memory.pieces.clear();
  bool unknown = false;
  for (auto end = uint32_t(word.size()); end > 0;) {
    const Best& best = memory.best[end];
    const bool is_unknown = unknown_ >= 0 && best.id == unknown_;
    if (is_unknown && unknown)
      memory.pieces.back().first = best.begin;
    else
      memory.pieces.emplace_back(best.begin, end);
    unknown = is_unknown;
    end = best.begin;
  }
  for (auto piece = memory.pieces.rbegin(); piece != memory.pieces.rend(); ++piece)
    if (!emit(word, piece->first, piece->second, out)) return piece->first;
  return kDone;
}

}  // namespace

std::shared_ptr<const TokenModel> read_unigram(const JsonItem& item) {
  return std::make_shared<Unigram>(item);
}

}  // namespace slotscope::formats
