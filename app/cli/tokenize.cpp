// slotscope-cli tokenize and detokenize: a folder's tokenizer without its model.
#include <filesystem>

#include "app/cli/commands.h"
#include "core/formats/prompt.h"
#include "core/formats/tokenizer.h"
#include "core/formats/tokenizer_files.h"
#include "core/formats/utf8.h"

namespace slotscope::cli {
namespace {

using formats::Encoding;
using formats::Tokenizer;

struct Opened {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::string> notes;
};

Opened open_tokenizer(const std::string& folder, const Console& console) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    throw Error({.file = folder, .found = std::filesystem::exists(folder, ignored) ? "not a folder" : "no such folder",
                 .expected = "a folder with a tokenizer"});
  Opened opened{Tokenizer::load(folder), {}};
  if (!opened.tokenizer)
    throw Error({.file = folder, .found = "no tokenizer in this folder",
                 .expected = "tokenizer.json, tokenizer.model, spiece.model, or vocab.json with merges.txt"});
  opened.notes = opened.tokenizer->notes();
  if (const std::string note = formats::find_tokenizer(folder).note(); !note.empty()) opened.notes.push_back(note);
  for (const auto& note : opened.notes) console.note(note);
  return opened;
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const unsigned char c : bytes) {
    char two[4];
    std::snprintf(two, sizeof two, "%02X", c);
    text += (text.empty() ? "" : " ") + std::string(two);
  }
  return text;
}

std::string in_quotes(std::string_view text) { return "'" + printable(text) + "'"; }

// Bytes of a token: text, or hex when they are not whole characters (bad-inputs B32).
std::string shown_bytes(const std::string& bytes) { return valid_utf8(bytes) ? in_quotes(bytes) : hex(bytes); }

// The piece of text that a token covers; a part of a character as hex with the character it belongs to.
std::string shown_span(std::string_view text, std::pair<int64_t, int64_t> span) {
  const auto begin = size_t(span.first), end = size_t(span.second);
  if (begin == end) return "";
  const std::string_view bytes = text.substr(begin, end - begin);
  if (valid_utf8(bytes)) return in_quotes(bytes);
  size_t from = begin, to = end;
  while (from > 0 && formats::is_utf8_continuation(text[from])) --from;
  while (to < text.size() && formats::is_utf8_continuation(text[to])) ++to;
  return hex(bytes) + " of " + in_quotes(text.substr(from, to - from));
}

std::string count_of(size_t tokens) { return count_text(int64_t(tokens)) + (tokens == 1 ? " token" : " tokens"); }

Json pairs(const std::vector<std::pair<int64_t, int64_t>>& list) {
  Json out = Json::array();
  for (const auto& [begin, end] : list) out.push_back({begin, end});
  return out;
}

struct Decoded {
  std::vector<int32_t> ids;
  std::string text;
};

Json detokenized_json(const Tokenizer& tokenizer, const Decoded& d) {
  Json tokens = Json::array();
  for (const int32_t id : d.ids) tokens.push_back(tokenizer.token_text(id));
  Json object = {{"ids", d.ids}, {"tokens", tokens}};
  put_text(object, "decoded", d.text);
  return object;
}

}  // namespace

int run_tokenize(const TokenizeSettings& s, const Console& console) {
  if (s.text.has_value() == s.text_file.has_value())
    throw Error({.item = "text", .found = s.text ? "--text and --text-file given together" : "none given",
                 .expected = "exactly one of --text, --text-file"},
                Error::Kind::usage);
  const Opened opened = open_tokenizer(s.folder, console);
  const std::string text = s.text ? *s.text : read_text_file(*s.text_file);
  const Encoding encoding = opened.tokenizer->encode(text, !s.no_special);
  const std::string decoded = opened.tokenizer->decode(encoding.ids, true);
  if (console.json) {
    Json document = {{"tokenizer", opened.tokenizer->kind()}, {"ids", encoding.ids}, {"tokens", encoding.tokens},
                     {"offsets", pairs(encoding.offsets)}, {"byte_offsets", pairs(encoding.byte_offsets)}};
    put_text(document, "decoded", decoded);
    document["notes"] = opened.notes;
    console.out_json(document, -1);
    return kExitOk;
  }
  Table table({">position", ">id", "token", ">from", ">to", "text"});
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    const bool special = opened.tokenizer->is_special(encoding.ids[i]);
    const auto [begin, end] = encoding.offsets[i];
    table.row({std::to_string(i), std::to_string(encoding.ids[i]), printable(encoding.tokens[i]), std::to_string(begin),
               std::to_string(end), shown_span(text, encoding.byte_offsets[i]) + (special ? "  special" : "")});
  }
  console.out(opened.tokenizer->kind() + "\n" + (encoding.ids.empty() ? "" : table.text()) + count_of(encoding.ids.size()) +
              "\ndecoded  " + shown_bytes(decoded) + "\n");
  return kExitOk;
}

int run_detokenize(const DetokenizeSettings& s, const Console& console) {
  if (s.ids.has_value() == s.ids_file.has_value())
    throw Error({.item = "ids", .found = s.ids ? "--ids and --ids-file given together" : "none given",
                 .expected = "exactly one of --ids, --ids-file"},
                Error::Kind::usage);
  RunSettings settings;
  settings.ids = s.ids;
  settings.ids_file = s.ids_file;
  const Opened opened = open_tokenizer(s.folder, console);
  std::vector<Decoded> all;
  for (auto& prompt : make_prompts(settings, nullptr, 0)) {
    std::string text = opened.tokenizer->decode(prompt.ids, !s.keep_special);
    all.push_back({std::move(prompt.ids), std::move(text)});
  }
  if (console.json) {
    Json document = {{"tokenizer", opened.tokenizer->kind()}};
    if (all.size() == 1) {
      document.update(detokenized_json(*opened.tokenizer, all[0]));
    } else {
      document["prompts"] = Json::array();
      for (const auto& d : all) document["prompts"].push_back(detokenized_json(*opened.tokenizer, d));
    }
    document["notes"] = opened.notes;
    console.out_json(document, -1);
    return kExitOk;
  }
  std::string text = opened.tokenizer->kind() + "\n";
  for (const auto& d : all) {
    Table table({">position", ">id", "token", "bytes"});
    for (size_t i = 0; i < d.ids.size(); ++i)
      table.row({std::to_string(i), std::to_string(d.ids[i]), printable(opened.tokenizer->token_text(d.ids[i])),
                 shown_bytes(opened.tokenizer->token_bytes(d.ids[i])) + (opened.tokenizer->is_special(d.ids[i]) ? "  special" : "")});
    text += table.text() + count_of(d.ids.size()) + "\ndecoded  " + shown_bytes(d.text) + "\n";
  }
  console.out(text);
  return kExitOk;
}

}  // namespace slotscope::cli
