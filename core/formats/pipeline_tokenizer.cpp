// The tokenizer of a tokenizer.json: its sections, one after the other.
#include <set>

#include "core/error.h"
#include "core/formats/added_tokens.h"
#include "core/formats/byte_level.h"
#include "core/formats/decoders.h"
#include "core/formats/json.h"
#include "core/formats/normalizers.h"
#include "core/formats/post_processors.h"
#include "core/formats/pre_tokenizers.h"
#include "core/formats/tokenizer_json.h"
#include "core/formats/tokenizer_model.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

using nlohmann::json;

class PipelineTokenizer : public Tokenizer {
 public:
  PipelineTokenizer(const json& root, const std::string& file);

  Encoding encode(std::string_view text, bool add_special) const override;
  std::string decode(const std::vector<int32_t>& ids, bool skip_special) const override;
  std::string token_text(int32_t id) const override {
    const std::string* text = text_of(id);
    return text ? *text : "<unused " + std::to_string(id) + ">";
  }
  std::string token_bytes(int32_t id) const override;
  bool is_special(int32_t id) const override { return special_.contains(id); }
  int32_t size() const override { return limit_; }
  std::string kind() const override {
    return (byte_level_ ? "byte-level " : "") + model_->kind() + ", " + thousands(entries_) + " entries";
  }
  std::vector<std::string> notes() const override { return notes_; }

 private:
  void check_ids(const JsonItem& root);
  const std::string* text_of(int32_t id) const {
    const auto added = added_text_.find(id);
    return added == added_text_.end() ? model_->vocabulary().text_of(id) : &added->second;
  }
  void run_model(const AlignedText& text, Encoding& result) const;
  [[noreturn]] void no_token(const AlignedText& text, const AlignedText::Segment& segment, size_t at) const;

  std::string file_;
  std::shared_ptr<const TokenModel> model_;
  Normalizers normalizers_;
  PreTokenizers pre_tokenizers_;
  PostProcessor post_;
  Decoders decoders_;
  AddedTokens added_;
  std::unordered_map<int32_t, std::string> added_text_;
  std::set<int32_t> special_;
  std::vector<std::string> notes_;
  size_t entries_ = 0;
  int32_t limit_ = 0;
  bool byte_level_ = false;
};

PipelineTokenizer::PipelineTokenizer(const json& root_value, const std::string& file) : file_(file) {
  const JsonItem root(root_value, file);
  if (!root_value.is_object()) root.refuse(root_value.type_name(), "a JSON object");
  const auto model = root.find("model");
  if (!model) root.refuse("model", "missing", "an object");
  for (const char* key : {"truncation", "padding"})
    if (const auto setting = root.find(key)) {
      if (!setting->value().is_object()) setting->refuse(setting->shown(), "an object or null");
      notes_.push_back(std::string(key) + " stored in tokenizer.json is not applied: texts stay whole");
    }
  if (const auto part = root.find("normalizer")) normalizers_ = read_normalizer(*part);
  if (const auto part = root.find("pre_tokenizer")) pre_tokenizers_ = read_pre_tokenizer(*part);
  if (const auto part = root.find("post_processor")) post_ = read_post_processor(*part);
  if (const auto part = root.find("decoder")) decoders_ = read_decoder(*part);
  for (const auto& step : pre_tokenizers_) byte_level_ = byte_level_ || step->byte_level();
  for (const auto& step : decoders_) byte_level_ = byte_level_ || step->byte_level();
  added_ = read_added_tokens(root_value, file);
  model_ = read_model(*model);
  check_ids(root);
  if (const auto list = root.find("added_tokens")) added_.build(normalizers_, *list);
}

// Added tokens and the vocabulary agree, and the post-processor's tokens exist.
void PipelineTokenizer::check_ids(const JsonItem& root) {
  const Vocabulary& vocabulary = model_->vocabulary();
  limit_ = vocabulary.limit();
  entries_ = vocabulary.size();
  auto next = int64_t(
      vocabulary.size());  // the id that the public library gives to the next token beyond the vocabulary
  for (size_t i = 0; i < added_.all().size(); ++i) {
    const AddedToken& token = added_.all()[i];
    const JsonItem item = root.at("added_tokens", "a list")[i];
    const int32_t stored = vocabulary.id_of(token.content);
    if (stored >= 0 && stored != token.id)
      item.refuse("'" + printable(token.content, 40) + "' with id " + std::to_string(token.id) + " and id " +
                      std::to_string(stored) + " in the vocabulary",
                  "one id");
    if (stored < 0 && token.id != next && notes_.size() < 4)
      notes_.push_back("added token '" + printable(token.content, 40) + "' has the id " +
                       std::to_string(token.id) + " of tokenizer.json; the public library counts it as " +
                       std::to_string(next));
    if (stored < 0) ++next;
    next = std::max(next, int64_t(stored) + 1);
    const std::string* text = text_of(token.id);
    if (text && *text != token.content) refuse_two_texts(item, token.id, *text, token.content);
    entries_ += text == nullptr;
    added_text_.emplace(token.id, token.content);
    if (token.special) special_.insert(token.id);
    limit_ = std::max(limit_, token.id + 1);
  }
  for (const PostStep& step : post_)
    for (const auto* side : {&step.before, &step.after})
      for (const int32_t id : *side)
        if (!text_of(id))
          root.refuse("post_processor", "id " + std::to_string(id) + " has no token",
                      "an id of the vocabulary");
}

void PipelineTokenizer::no_token(const AlignedText& text, const AlignedText::Segment& segment,
                                 size_t at) const {
  const std::string_view word = text.text_of(segment);
  const size_t length = size_t(utf8_length(static_cast<unsigned char>(word[at])));
  const std::string character(word.substr(at, length));
  const auto position = text.span(segment.begin + at, segment.begin + at + 1).begin;
  const auto byte = byte_level_ ? byte_level_bytes(character) : std::nullopt;
  char found[60];
  if (byte && byte->size() == 1)
    std::snprintf(found, sizeof found, "byte 0x%02x at position %u has no token",
                  static_cast<unsigned char>((*byte)[0]), position);
  else
    std::snprintf(found, sizeof found, "'%s' at byte %u has no token", printable(character, 8).c_str(),
                  position);
  throw Error({file_, "model.vocab", found, "a token for it, or for unknown text (unk_token)",
               "Leave this character out of the text."});
}

void PipelineTokenizer::run_model(const AlignedText& text, Encoding& result) const {
  const auto scratch = model_->scratch();
  std::vector<ModelToken> tokens;
  const auto push = [&](int32_t id, std::string value, Span span) {
    result.ids.push_back(id);
    result.tokens.push_back(std::move(value));
    result.byte_offsets.emplace_back(span.begin, span.end);
  };
  for (const auto& segment : text.segments()) {
    const std::string_view word = text.text_of(segment);
    if (segment.token >= 0) {
      push(segment.token, std::string(word), text.span(segment.begin, segment.end));
      continue;
    }
    tokens.clear();
    if (const size_t at = model_->tokenize(word, *scratch, tokens); at != TokenModel::kDone)
      no_token(text, segment, at);
    for (const ModelToken& token : tokens) {
      // A token of a prefix or suffix alone covers nothing.
      const size_t begin = segment.begin + token.begin, end = segment.begin + token.end;
      const Span span = end > begin ? text.span(begin, end) : Span{segment.origin, segment.origin};
      push(token.id,
           token.as_written ? std::string(word.substr(token.begin, token.end - token.begin))
                            : *text_of(token.id),
           span);
    }
  }
}

// For each byte the number of the character it is in, and the number of characters behind them.
std::vector<int64_t> characters(std::string_view text) {
  std::vector<int64_t> character(text.size() + 1);
  int64_t count = -1;
  for (size_t i = 0; i < text.size(); ++i) character[i] = count += !is_utf8_continuation(text[i]);
  character[text.size()] = count + 1;
  return character;
}

void put_around(Encoding& encoding, const std::vector<int32_t>& ids, bool before,
                const PipelineTokenizer& tokenizer) {
  const auto n = ids.size();
  const auto place = [&](auto& list) { return before ? list.begin() : list.end(); };
  encoding.ids.insert(place(encoding.ids), ids.begin(), ids.end());
  std::vector<std::string> texts;
  for (const int32_t id : ids) texts.push_back(tokenizer.token_text(id));
  encoding.tokens.insert(place(encoding.tokens), texts.begin(), texts.end());
  encoding.offsets.insert(place(encoding.offsets), n, {0, 0});
  encoding.byte_offsets.insert(place(encoding.byte_offsets), n, {0, 0});
}

Encoding PipelineTokenizer::encode(std::string_view text, bool add_special) const {
  require_utf8(text, "", "text");
  const Deadline deadline(text.size());
  AlignedText aligned(text);
  added_.cut(aligned, false);
  for (const auto& step : normalizers_) step->apply(aligned, deadline);
  added_.cut(aligned, true);
  for (const auto& step : pre_tokenizers_) step->apply(aligned, deadline);
  Encoding result;
  run_model(aligned, result);
  // A token that covers a part of a character has that character's range: first character touched to last
  // one.
  const std::vector<int64_t> character = characters(text);
  result.offsets.reserve(result.ids.size());
  for (const auto& [begin, end] : result.byte_offsets)
    result.offsets.emplace_back(character[size_t(begin)],
                                end > begin ? character[size_t(end - 1)] + 1 : character[size_t(begin)]);
  for (const PostStep& step : post_) {
    if (step.trim) trim_offsets(result, text, character, step.add_prefix_space);
    if (!add_special) continue;
    put_around(result, step.before, true, *this);
    put_around(result, step.after, false, *this);
  }
  return result;
}

std::string PipelineTokenizer::decode(const std::vector<int32_t>& ids, bool skip_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  // An id without an entry stands for nothing; the public library leaves it out as well.
  for (const int32_t id : ids)
    if (!(skip_special && is_special(id)))
      if (const std::string* text = text_of(id)) tokens.push_back(*text);
  for (const auto& step : decoders_) step->apply(tokens);
  std::string all;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && decoders_.empty()) all += ' ';  // the public library's rule without a decoder
    all += tokens[i];
  }
  return all;
}

std::string PipelineTokenizer::token_bytes(int32_t id) const {
  const auto added = added_text_.find(id);
  if (added != added_text_.end()) return added->second;
  const std::string* text = model_->vocabulary().text_of(id);
  if (!text) return {};
  std::string bytes = *text;
  for (const auto& step : decoders_) bytes = step->alone(std::move(bytes));
  return bytes;
}

}  // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(const json& root, const std::string& file) {
  return std::make_shared<PipelineTokenizer>(root, file);
}

}  // namespace slotscope::formats
