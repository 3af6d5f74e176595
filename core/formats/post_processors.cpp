#include "core/formats/post_processors.h"

#include <algorithm>

#include "core/formats/normalizers.h"
#include "core/formats/tokenizer_json.h"
#include "core/formats/unicode.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

// The ids that a template's special token stands for.
std::vector<int32_t> special_ids(const JsonItem& piece, const JsonItem& processor, const std::string& name) {
  const auto specials = processor.find("special_tokens");
  const auto special = specials ? specials->find(name.c_str()) : std::nullopt;
  const auto list = special ? special->find("ids") : std::nullopt;
  if (!list)
    piece.refuse("special token '" + printable(name, 40) + "' has no ids", "an entry of special_tokens");
  std::vector<int32_t> ids;
  for (size_t i = 0; i < list->list_size(); ++i) ids.push_back((*list)[i].id());
  return ids;
}

PostStep read_template(const JsonItem& item) {
  const JsonItem single = item.at("single", "a list of pieces");
  PostStep step;
  int texts = 0;
  for (size_t i = 0; i < single.list_size("a list of pieces"); ++i) {
    const JsonItem piece = single[i];
    const auto text = piece.find("Sequence"), special = piece.find("SpecialToken");
    if (!text && !special) piece.refuse(piece.shown(), "SpecialToken or Sequence with an id");
    const std::string id = (text ? *text : *special).text("id");
    if (text) {
      if (id != "A") piece.refuse("Sequence " + printable(id, 20), "Sequence A");
      ++texts;
      continue;
    }
    const auto ids = special_ids(piece, item, id);
    auto& side = texts ? step.after : step.before;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (texts != 1) single.refuse(std::to_string(texts) + " texts", "the text exactly once");
  return step;
}

// ["<s>", 0]
int32_t token_pair(const JsonItem& item) {
  if (item.list_size("[text, id]") != 2) item.refuse(item.shown(), "[text, id]");
  return item[1].id();
}

void read_into(const JsonItem& item, int depth, PostProcessor& steps) {
  const std::string type = item.type();
  if (type == "Sequence") {
    if (depth >= kMaxSequenceDepth) item.refuse("sequences nested deeper than 10", "at most 10");
    const JsonItem list = item.at("processors", "a list");
    for (size_t i = 0; i < list.list_size(); ++i) {
      if (steps.size() >= kMaxSteps) list.refuse("more than 64 steps", "at most 64");
      read_into(list[i], depth + 1, steps);
    }
    return;
  }
  PostStep step;
  if (type == "TemplateProcessing") {
    step = read_template(item);
  } else if (type == "ByteLevel") {
    step.trim = item.flag("trim_offsets");
    step.add_prefix_space = item.flag("add_prefix_space");
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    step.before = {token_pair(item.at("cls", "[text, id]"))};
    step.after = {token_pair(item.at("sep", "[text, id]"))};
    if (type == "RobertaProcessing") {
      step.trim = item.flag("trim_offsets");
      step.add_prefix_space = item.flag("add_prefix_space");
    }
  } else {
    item.refuse("type", type, "TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing or Sequence");
  }
  steps.push_back(std::move(step));
}

// White space of a token's text: spaces as written, or the byte-level form of one.
bool is_space(uint32_t c) { return c == 0x120 || unicode::is_white_space(c); }

}  // namespace

PostProcessor read_post_processor(const JsonItem& item) {
  PostProcessor steps;
  read_into(item, 0, steps);
  return steps;
}

void trim_offsets(Encoding& encoding, std::string_view text, const std::vector<int64_t>& character,
                  bool add_prefix_space) {
  const auto byte_of = [&](int64_t index) {  // the first byte of a character
    return std::lower_bound(character.begin(), character.begin() + long(text.size()), index) -
           character.begin();
  };
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    const std::string& token = encoding.tokens[i];
    int64_t leading = 0, trailing = 0;
    for (size_t at = 0; at < token.size() && is_space(next_code_point(token, at));) ++leading;
    for (size_t end = token.size(); end > 0; ++trailing) {
      do --end;
      while (end > 0 && is_utf8_continuation(token[end]));
      size_t at = end;
      if (!is_space(next_code_point(token, at))) break;
    }
    auto& [begin, end] = encoding.offsets[i];
    auto& bytes = encoding.byte_offsets[i];
    // The space that was put in front is not in the text.
    if (leading == 1 && add_prefix_space && (i == 0 || begin == 0)) leading = 0;
    const int64_t from = std::min(begin + leading, end);
    const int64_t to = end >= trailing ? std::max(end - trailing, from) : end;
    if (from != begin) bytes.first = byte_of(from);
    if (to != end) bytes.second = byte_of(to);
    if (bytes.second < bytes.first) bytes.second = bytes.first;
    begin = from, end = to;
  }
}

}  // namespace slotscope::formats
