#include "core/formats/sentencepiece_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <cstdio>
#include <unordered_map>

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

using Model = SentencePieceModel;

constexpr size_t kMaxPieces = 8u << 20;
constexpr size_t kMaxPieceBytes = 2048;  // SentencePiece splits unused pieces by recursion over their length
constexpr float kMaxScore = 1e9f;        // sums over a long text stay finite
constexpr size_t kMaxReplacement = 256;  // bytes; the longest of NFKC is 33
constexpr int kMaxRules = 32;            // SentencePiece's room for rules that begin at one place (not checked there)

[[noreturn]] void damaged(const std::string& file, std::string item, std::string found, std::string expected) {
  throw Error({file, std::move(item), std::move(found), std::move(expected),
               "Is this a SentencePiece model? Download it again, or run from token ids."});
}

// One protobuf message: field by field.
class Wire {
 public:
  Wire(std::string_view bytes, const std::string& file, std::string what) : rest_(bytes), file_(file), what_(std::move(what)) {}

  int field = 0, type = 0;
  uint64_t number = 0;    // varint
  std::string_view text;  // length-delimited, or 4 or 8 raw bytes

  bool next() {
    if (rest_.empty()) return false;
    const uint64_t tag = varint();
    field = int(std::min<uint64_t>(tag >> 3, 1u << 30)), type = int(tag & 7);
    if (tag >> 3 == 0 || tag >> 3 >= 1u << 29) fail("field number " + std::to_string(tag >> 3));
    if (type == 0)
      number = varint();
    else if (type == 1 || type == 5)
      take(type == 1 ? 8 : 4);
    else if (type == 2)
      take(varint());
    else
      fail("wire type " + std::to_string(type) + " in field " + std::to_string(field));
    return true;
  }
  bool is(int wanted, int wire_type) const {
    if (field == wanted && type != wire_type) fail("wire type " + std::to_string(type) + " in field " + std::to_string(field));
    return field == wanted;
  }
  bool truth() const { return number != 0; }
  float real() const {
    float value;
    std::memcpy(&value, text.data(), sizeof value);
    return value;
  }
  [[noreturn]] void fail(const std::string& found) const {
    damaged(file_, what_, "not a SentencePiece model: " + found, "a protobuf message as spm_train writes it");
  }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int i = 0; i < 10; ++i) {
      if (rest_.empty()) fail("it ends inside a number");
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      value |= uint64_t(byte & 0x7F) << (7 * i);
      if (byte < 0x80) return value;
    }
    fail("a number of more than 10 bytes");
  }
  void take(uint64_t count) {
    if (count > rest_.size())
      fail("field " + std::to_string(field) + " needs " + thousands(count) + " bytes, " + thousands(rest_.size()) + " are left");
    text = rest_.substr(0, size_t(count));
    rest_.remove_prefix(size_t(count));
  }

  std::string_view rest_;
  const std::string& file_;
  std::string what_;
};

void read_piece(std::string_view bytes, Model& model, const std::string& file) {
  const std::string item = "piece " + std::to_string(model.pieces.size());
  Model::Piece piece;
  for (Wire w(bytes, file, item); w.next();) {
    if (w.is(1, 2)) piece.text = w.text;
    if (w.is(2, 5)) piece.score = w.real();
    if (w.is(3, 0)) piece.type = w.number >= 1 && w.number <= 6 ? int(w.number) : 0;
  }
  const auto bad = [&](std::string found, std::string expected) { damaged(file, item, std::move(found), std::move(expected)); };
  if (piece.type == 0) bad("a type that is not known", "normal, unknown, control, user-defined, unused or byte");
  if (piece.text.empty()) bad("no text", "a piece of text");
  if (piece.text.size() > kMaxPieceBytes) bad(thousands(piece.text.size()) + " bytes", "at most " + thousands(kMaxPieceBytes));
  if (first_invalid_utf8(piece.text) != kValidUtf8 || piece.text.find('\0') != piece.text.npos)
    bad("not valid UTF-8, or with a zero byte", "text");
  if (!(std::fabs(piece.score) <= kMaxScore)) bad("score " + std::to_string(piece.score), "a finite score of at most 1e9");
  if (model.pieces.size() >= kMaxPieces) bad("more pieces", "at most " + thousands(kMaxPieces));
  model.pieces.push_back(piece);
}

void read_trainer(std::string_view bytes, Model& model, const std::string& file) {
  for (Wire w(bytes, file, "trainer_spec"); w.next();) {
    if (w.is(3, 0)) {
      if (w.number < 1 || w.number > 4)
        damaged(file, "trainer_spec.model_type", std::to_string(w.number), "1 (Unigram), 2 (BPE), 3 (word) or 4 (character)");
      model.model_type = int(w.number);
    }
    if (w.is(24, 0)) model.suffix = w.truth();
    if (w.is(35, 0)) model.byte_fallback = w.truth();
  }
}

void read_normalizer(std::string_view bytes, Model& model, std::string_view& charsmap, const std::string& file) {
  for (Wire w(bytes, file, "normalizer_spec"); w.next();) {
    if (w.is(2, 2)) charsmap = w.text;
    if (w.is(3, 0)) model.add_dummy_prefix = w.truth();
    if (w.is(4, 0)) model.remove_extra_whitespaces = w.truth();
    if (w.is(5, 0)) model.escape_whitespaces = w.truth();
  }
}

void check_pieces(Model& model, const std::string& file) {
  std::unordered_map<std::string_view, size_t> seen;
  int bytes = 0;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const Model::Piece& piece = model.pieces[i];
    const std::string item = "piece " + std::to_string(i);
    const auto [at, fresh] = seen.emplace(piece.text, i);
    if (!fresh) damaged(file, item, "'" + printable(piece.text, 40) + "' as in piece " + std::to_string(at->second), "each piece once");
    if (piece.type == Model::unknown) {
      if (model.unknown_id >= 0) damaged(file, item, "a second unknown piece", "exactly one");
      model.unknown_id = int32_t(i);
    }
    if (piece.type != Model::byte) continue;
    ++bytes;
    char name[8];
    bool known = false;
    for (int b = 0; b < 256 && !known; ++b) {
      std::snprintf(name, sizeof name, "<0x%02X>", b);
      known = piece.text == name;
    }
    if (!known) damaged(file, item, "byte piece '" + printable(piece.text, 40) + "'", "<0x00> to <0xFF>");
  }
  if (model.pieces.empty()) damaged(file, "", "no pieces", "a vocabulary");
  if (model.unknown_id < 0) damaged(file, "", "no unknown piece", "exactly one");
  if (model.byte_fallback ? bytes != 256 : bytes != 0)
    damaged(file, "", std::to_string(bytes) + " byte pieces", model.byte_fallback ? "256 with byte_fallback" : "none without byte_fallback");
  const auto usable = [](const Model::Piece& p) { return p.type == Model::normal || p.type == Model::user_defined || p.type == Model::unused; };
  if (std::none_of(model.pieces.begin(), model.pieces.end(), usable)) damaged(file, "", "no piece of text", "a vocabulary");
}

// SentencePiece has room for 64 user-defined pieces that begin at one place, and does not check.
void check_user_defined(const Model& model, const std::string& file) {
  std::vector<std::string_view> texts, chain;
  for (const auto& piece : model.pieces)
    if (piece.type == Model::user_defined) texts.push_back(piece.text);
  std::sort(texts.begin(), texts.end());
  for (const std::string_view text : texts) {
    while (!chain.empty() && !text.starts_with(chain.back())) chain.pop_back();
    chain.push_back(text);
    if (chain.size() > 64)
      damaged(file, "user-defined pieces", "more than 64 that begin with '" + printable(chain[0], 20) + "', each in the next",
              "at most 64");
  }
}

[[noreturn]] void bad_map(const std::string& file, const std::string& found) {
  damaged(file, "normalizer_spec.precompiled_charsmap", found, "the normalisation table of spm_train");
}

constexpr uint32_t label(uint32_t unit) { return unit & (1u << 31 | 0xFF); }
constexpr bool has_value(uint32_t unit) { return unit >> 8 & 1; }

}  // namespace

CharsMap::CharsMap(std::string_view blob, const std::string& file) {
  uint32_t bytes = 0;
  if (blob.size() <= sizeof bytes) bad_map(file, "too short");
  std::memcpy(&bytes, blob.data(), sizeof bytes);
  blob.remove_prefix(sizeof bytes);
  if (bytes >= blob.size() || bytes % 1024 || bytes == 0)
    bad_map(file, "a table of " + thousands(bytes) + " bytes in " + thousands(blob.size()));
  units_.resize(bytes / sizeof(uint32_t));
  std::memcpy(units_.data(), blob.data(), bytes);
  texts_ = blob.substr(bytes);
  if (texts_.back() != '\0') bad_map(file, "a text without an end");
  check(file);
}

// All children and the value of a node lie in one block of 256 units.
size_t CharsMap::base_of(size_t node) const {
  const uint32_t unit = units_[node];
  return node ^ (size_t(unit >> 10) << ((unit & 1u << 9) >> 6));
}

std::string_view CharsMap::text_at(size_t at) const { return std::string_view(texts_).substr(at, texts_.find('\0', at) - at); }

void CharsMap::check(const std::string& file) const {
  struct Step {
    size_t node, base;
    int next, most;  // next byte to follow; rules on the longest way below
  };
  const auto step_to = [&](size_t node) {
    const size_t base = base_of(node);
    if ((base | 0xFF) >= units_.size()) bad_map(file, "unit " + std::to_string(node) + " points outside");
    return Step{node, base, 0, 0};
  };
  std::vector<int> rules(units_.size(), -1);  // on the longest way from a node on; -1: not known, -2: on the way to it now
  std::vector<Step> way{step_to(0)};
  rules[0] = -2;
  while (!way.empty()) {
    Step& step = way.back();
    if (step.next < 256) {
      const auto byte = uint32_t(step.next++);
      const size_t child = step.base ^ byte;
      if (label(units_[child]) != byte) continue;
      if (rules[child] == -2) bad_map(file, "a circle");
      if (rules[child] >= 0) {
        step.most = std::max(step.most, rules[child]);
        continue;
      }
      rules[child] = -2;
      way.push_back(step_to(child));
      continue;
    }
    int count = step.most;
    if (step.node != 0 && has_value(units_[step.node])) {  // the root's own value is never read
      ++count;
      const size_t at = units_[step.base] & 0x7FFFFFFF;
      if (at >= texts_.size()) bad_map(file, "a text at byte " + thousands(at) + " of " + thousands(texts_.size()));
      if (const auto text = text_at(at); text.size() > kMaxReplacement || first_invalid_utf8(text) != kValidUtf8)
        bad_map(file, "a replacement that is no short text");
    }
    if (count > kMaxRules) bad_map(file, "more than " + std::to_string(kMaxRules) + " rules at one place");
    rules[step.node] = count;
    way.pop_back();
    if (!way.empty()) way.back().most = std::max(way.back().most, count);
  }
}

size_t CharsMap::match(std::string_view text, std::string_view& replacement) const {
  size_t length = 0;
  if (units_.empty()) return 0;
  size_t base = base_of(0);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t node = base ^ byte;
    if (label(units_[node]) != byte) break;
    base = base_of(node);
    if (!has_value(units_[node])) continue;
    length = i + 1;
    replacement = text_at(units_[base] & 0x7FFFFFFF);
  }
  return length;
}

SentencePieceModel read_sentencepiece_model(std::string_view bytes, const std::string& file) {
  Model model;
  std::string_view charsmap;
  for (Wire w(bytes, file, ""); w.next();) {
    if (w.is(1, 2)) read_piece(w.text, model, file);
    if (w.is(2, 2)) read_trainer(w.text, model, file);
    if (w.is(3, 2)) read_normalizer(w.text, model, charsmap, file);
    if (w.is(4, 2))
      for (Wire samples(w.text, file, "self_test_data"); samples.next();) {
        if (samples.is(1, 2))
          for (Wire sample(samples.text, file, "self_test_data"); sample.next();) sample.is(1, 2), sample.is(2, 2);
      }
    if (w.is(5, 2))
      for (Wire d(w.text, file, "denormalizer_spec"); d.next();)
        if (d.is(2, 2) && !d.text.empty())
          throw Error({file, "denormalizer_spec", "a denormaliser", "none",
                       "This tokenizer cannot be followed exactly; run the model from token ids instead."});
  }
  check_pieces(model, file);
  check_user_defined(model, file);
  if (!charsmap.empty()) model.charsmap = CharsMap(charsmap, file);
  return model;
}

}  // namespace slotscope::formats
