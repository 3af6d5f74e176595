#include "core/formats/sentencepiece_tokenizer.h"

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/sentencepiece_model.h"
#include "core/formats/tokenizer_config.h"
#include "core/formats/tokenizer_json.h"
#include "core/formats/utf8.h"

#ifdef SLOTSCOPE_TOKENIZERS
#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <unordered_map>

// Of the library's own logging (to standard error); declared in a header that is not installed, so it may be missing.
namespace sentencepiece::logging {
__attribute__((weak)) void SetMinLogLevel(int level);
}
#endif

namespace slotscope::formats {

namespace fs = std::filesystem;

#ifndef SLOTSCOPE_TOKENIZERS

std::shared_ptr<const Tokenizer> load_sentencepiece(const fs::path&, const fs::path& model) {
  throw Error({model.string(), "", "a SentencePiece model", "a tokenizer that this program can read",
               "This program was built without SentencePiece (SLOTSCOPE_TOKENIZERS=OFF). Run the model from token ids instead."});
}

#else

namespace {

constexpr uint64_t kMaxModelBytes = 64ull << 20;  // the largest published ones have about 5 MB
constexpr uint64_t kMaxTextBytes = 1ull << 30;    // SentencePiece counts bytes in 32 bits
constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, a space in a piece
// Appended to the file: normalizer_spec { add_dummy_prefix: false }. A second message of that field is merged into the first.
constexpr std::string_view kNoDummyPrefix{"\x1A\x02\x18\x00", 4};

// A stretch of text that goes to SentencePiece at once, and where each of its bytes comes from.
struct Stretch {
  std::string text;
  std::vector<int64_t> source;  // per byte of text, and one more for its end: position in the text that was given
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  std::string file;
  sentencepiece::SentencePieceProcessor processor;
  struct Entry {
    std::string text, bytes;
    bool special = false, added = false;
    int type = 0;  // of SentencePieceModel; 0: an added token
  };
  std::unordered_map<int32_t, Entry> entries;
  std::vector<ConfiguredToken> added;           // every id known
  std::array<bool, 256> starts_added{};         // some added token begins with this byte
  int32_t limit = 0, bos = -1, eos = -1;        // -1: not added
  bool legacy = true, add_prefix_space = true;  // the latter counts without legacy only
  CharsMap charsmap;
  std::vector<std::string> user_defined;        // pieces that normalisation leaves alone; for align() only
  bool escape_spaces = true, suffix = false;
  bool dummy_prefix = true, extra_spaces_go = true;  // of the model: a space before each stretch; doubled spaces are one
  std::string unknown_text;     // unk_token
  size_t unknown_pieces = 0;    // how many pieces unknown_text gives
  std::string description;
  std::vector<std::string> remarks;

  Encoding encode(std::string_view text, bool add_special) const override;
  std::string decode(const std::vector<int32_t>& tokens, bool skip_special) const override;

  std::string token_text(int32_t id) const override {
    const auto at = entries.find(id);
    return at == entries.end() ? "<unused " + std::to_string(id) + ">" : at->second.text;
  }
  std::string token_bytes(int32_t id) const override {
    const auto at = entries.find(id);
    return at == entries.end() ? std::string() : at->second.bytes;
  }
  bool is_special(int32_t id) const override {
    const auto at = entries.find(id);
    return at != entries.end() && at->second.special;
  }
  int32_t size() const override { return limit; }
  std::string kind() const override { return description; }
  std::vector<std::string> notes() const override { return remarks; }

 private:
  int model_type(int32_t id) const { return entries.at(id).type; }
  struct Token {
    int32_t id;
    int64_t begin, end;
    bool prefix = false, special = false;  // the space that was put before the text; a special token written in it
    std::string text = {};                 // of an unknown piece
  };
  struct Part {
    size_t begin, end;
    const ConfiguredToken* token;  // null: text
  };
  std::vector<Part> split(std::string_view text) const;
  void encode_stretch(const Stretch& all, size_t begin, size_t end, std::string_view original, std::vector<Token>& out) const;
  std::vector<std::pair<size_t, size_t>> align(std::string_view text, std::string& normalised) const;
  void spread_bytes(std::string_view original, std::vector<Token>& tokens, size_t from) const;
  void fill(std::string_view text, const std::vector<Token>& tokens, Encoding& result) const;
};

// Leftmost, of several at one place the longest; then what lstrip and rstrip eat is taken from the text beside.
std::vector<SentencePieceTokenizer::Part> SentencePieceTokenizer::split(std::string_view text) const {
  std::vector<Part> parts;
  size_t from = 0;
  for (size_t at = 0; at < text.size();) {
    const ConfiguredToken* best = nullptr;
    if (starts_added[static_cast<unsigned char>(text[at])])
      for (const auto& token : added)
        if (text.substr(at).starts_with(token.content) && (!best || token.content.size() > best->content.size())) best = &token;
    if (!best) {
      ++at;
      continue;
    }
    if (at > from) parts.push_back({from, at, nullptr});
    parts.push_back({at, at + best->content.size(), best});
    from = at += best->content.size();
  }
  if (from < text.size()) parts.push_back({from, text.size(), nullptr});
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].token) continue;
    if (parts[i].token->rstrip && i + 1 < parts.size() && !parts[i + 1].token)
      parts[i + 1].begin += leading_space(text.substr(parts[i + 1].begin, parts[i + 1].end - parts[i + 1].begin));
    if (parts[i].token->lstrip && i > 0 && !parts[i - 1].token)
      parts[i - 1].end -= trailing_space(text.substr(parts[i - 1].begin, parts[i - 1].end - parts[i - 1].begin));
  }
  return parts;
}

// Byte pieces come one per byte, but SentencePiece gives the whole character to the last of them. Where the text has just these
// bytes each piece gets its own; where normalisation changed the character each gets all of it.
void SentencePieceTokenizer::spread_bytes(std::string_view original, std::vector<Token>& tokens, size_t from) const {
  const auto is_byte = [&](size_t i) { return model_type(tokens[i].id) == SentencePieceModel::byte; };
  for (size_t i = from; i < tokens.size();) {
    if (!is_byte(i)) {
      ++i;
      continue;
    }
    size_t last = i;
    while (tokens[last].begin == tokens[last].end && last + 1 < tokens.size() && is_byte(last + 1)) ++last;
    const int64_t begin = tokens[i].begin, end = tokens[last].end;
    bool same = end - begin == int64_t(last - i + 1);
    for (size_t k = i; same && k <= last; ++k)
      same = original[size_t(begin) + (k - i)] == entries.at(tokens[k].id).bytes[0];
    for (size_t k = i; k <= last; ++k) {
      tokens[k].begin = same ? begin + int64_t(k - i) : begin;
      tokens[k].end = same ? tokens[k].begin + 1 : end;
    }
    i = last + 1;
  }
}

void SentencePieceTokenizer::encode_stretch(const Stretch& all, size_t begin, size_t end, std::string_view original,
                                            std::vector<Token>& out) const {
  std::string text = all.text.substr(begin, end - begin);
  size_t skip = 0;  // bytes put before
  if (!legacy && (text[0] == ' ' || text.starts_with(kSpace))) {
    text = unknown_text + text;  // so that a space at the beginning is kept; its pieces are dropped again
    skip = unknown_text.size();
  }
  sentencepiece::ImmutableSentencePieceText pieces;
  const auto status = processor.Encode(text, pieces.mutable_proto());
  if (!status.ok())
    throw Error({file, "text", std::string("SentencePiece says: ") + printable(status.error_message(), 200), "a text", ""});
  const size_t first = skip && pieces.pieces_size() >= unknown_pieces ? unknown_pieces : 0, from = out.size();
  const auto source = [&](size_t at) { return all.source[begin + std::min(std::max(at, skip) - skip, end - begin)]; };
  // The library says where a piece begins; of a character that normalisation made longer (a ligature) it gives all to the last.
  std::string normalised;
  const auto aligned = charsmap.empty() ? std::vector<std::pair<size_t, size_t>>() : align(text, normalised);
  size_t at = 0;
  for (size_t i = 0; i < pieces.pieces_size(); ++i) {
    const auto piece = pieces.pieces(int(i));
    size_t left = piece.begin(), right = piece.end();
    if (const size_t count = piece.piece().size(); model_type(int32_t(piece.id())) == SentencePieceModel::byte) {
      ++at;
    } else if (at + count <= aligned.size() && normalised.compare(at, count, piece.piece()) == 0) {
      left = aligned[at].first, right = std::max(aligned[at + count - 1].second, left);
      at += count;
    }
    if (i < first) continue;
    const bool prefix = out.size() == from && left == right && piece.piece() == kSpace;
    out.push_back({int32_t(piece.id()), source(left), source(right), prefix});
    if (model_type(int32_t(piece.id())) == SentencePieceModel::unknown) out.back().text = piece.piece();
  }
  spread_bytes(original, out, from);
}

// Where each byte of the normalised text comes from: SentencePiece's normalisation step by step, with both ends of what was
// replaced. What it drops goes with the character before.
std::vector<std::pair<size_t, size_t>> SentencePieceTokenizer::align(std::string_view text, std::string& normalised) const {
  std::vector<std::pair<size_t, size_t>> ranges;
  const auto step = [&](size_t at, std::string_view& made) {
    const std::string_view rest = text.substr(at);
    size_t longest = 0;
    for (const auto& piece : user_defined)
      if (piece.size() > longest && rest.starts_with(piece)) longest = piece.size();
    if (longest == 0) longest = charsmap.match(rest, made);
    else made = rest.substr(0, longest);
    if (longest == 0) made = rest.substr(0, longest = size_t(utf8_length(static_cast<unsigned char>(rest[0]))));
    return longest;
  };
  const auto put = [&](std::string_view part, size_t from, size_t to) {
    normalised += part;
    ranges.insert(ranges.end(), part.size(), {from, to});
  };
  const std::string_view space = escape_spaces ? kSpace : std::string_view(" ");
  size_t at = 0;
  std::string_view made;
  for (size_t count = 0; extra_spaces_go && at < text.size() && (count = step(at, made), made == " ");) at += count;
  if (at == text.size()) return ranges;
  const bool prefix = dummy_prefix && legacy;
  if (prefix && !suffix) put(space, at, at);
  for (bool after_space = extra_spaces_go; at < text.size();) {
    const size_t count = step(at, made);
    while (after_space && made.starts_with(' ')) made.remove_prefix(1);
    for (const char& c : made) put(c == ' ' ? space : std::string_view(&c, 1), at, at + count);
    if (!made.empty()) after_space = extra_spaces_go && made.ends_with(' ');
    at += count;
  }
  while (extra_spaces_go && normalised.ends_with(space)) {
    normalised.resize(normalised.size() - space.size());
    ranges.resize(normalised.size());
  }
  if (prefix && suffix) put(space, at, at);
  for (size_t i = 0; i + 1 < ranges.size(); ++i) ranges[i].second = std::max(ranges[i].second, ranges[i + 1].first);
  return ranges;
}

Encoding SentencePieceTokenizer::encode(std::string_view text, bool add_special) const {
  require_utf8(text, "", "text");
  if (text.size() > kMaxTextBytes)
    throw Error({"", "text", thousands(text.size()) + " bytes", "at most " + thousands(kMaxTextBytes), "Cut the text."});
  // Without legacy, U+2581 in the text is a space and one is put before the text; with it, SentencePiece does the latter.
  Stretch all;
  all.source.reserve(text.size() + 1);
  const auto put = [&](std::string_view part, int64_t source, bool one_place) {
    for (size_t i = 0; i < part.size(); ++i) all.source.push_back(source + (one_place ? 0 : int64_t(i)));
    all.text += part;
  };
  if (!legacy && add_prefix_space && !text.empty()) put(kSpace, 0, true);
  for (size_t at = 0; at < text.size();) {
    const bool space = !legacy && text.substr(at).starts_with(kSpace);
    const size_t count = space ? kSpace.size() : size_t(utf8_length(static_cast<unsigned char>(text[at])));
    put(space ? " " : text.substr(at, count), int64_t(at), space);
    at += count;
  }
  all.source.push_back(int64_t(text.size()));

  std::vector<Token> tokens;
  for (const Part& part : split(all.text)) {
    if (part.token)
      tokens.push_back({part.token->id, all.source[part.begin], all.source[part.end], false, is_special(part.token->id)});
    else if (part.end > part.begin)
      encode_stretch(all, part.begin, part.end, text, tokens);
  }
  if (!legacy && tokens.size() > 1 && entries.at(tokens[0].id).text == kSpace && tokens[1].special)
    tokens.erase(tokens.begin());
  Encoding result;
  if (add_special && bos >= 0) tokens.insert(tokens.begin(), {bos, 0, 0});
  if (add_special && eos >= 0) tokens.push_back({eos, 0, 0});
  fill(text, tokens, result);
  return result;
}

// A token that covers a part of a character has that character's range. The space that was put before the text stands with the
// first character, as in the public library's offsets; it has no bytes of its own.
void SentencePieceTokenizer::fill(std::string_view text, const std::vector<Token>& tokens, Encoding& result) const {
  std::vector<int64_t> character(text.size() + 1);  // of each byte
  int64_t count = -1;
  for (size_t i = 0; i < text.size(); ++i) character[i] = count += !is_utf8_continuation(text[i]);
  for (const Token& token : tokens) {
    result.ids.push_back(token.id);
    result.tokens.push_back(token.text.empty() ? token_text(token.id) : token.text);
    result.byte_offsets.emplace_back(token.begin, token.end);
    if (token.end > token.begin)
      result.offsets.emplace_back(character[size_t(token.begin)], character[size_t(token.end - 1)] + 1);
    else if (token.prefix && size_t(token.begin) < text.size())
      result.offsets.emplace_back(character[size_t(token.begin)], character[size_t(token.begin)] + 1);
    else
      result.offsets.emplace_back(0, 0);
  }
}

// The bytes that the tokens stand for. A stretch of pieces loses the space that encoding put before it, as in SentencePiece;
// nothing is put between stretches and special tokens, and bytes that are no UTF-8 stay as they are.
std::string SentencePieceTokenizer::decode(const std::vector<int32_t>& tokens, bool skip_special) const {
  const bool at_start = legacy ? dummy_prefix || extra_spaces_go : add_prefix_space || extra_spaces_go;
  const bool later = legacy ? at_start : extra_spaces_go;
  std::string bytes;
  bool strip = at_start;  // the next piece loses its leading space
  for (const int32_t id : tokens) {
    const auto at = entries.find(id);
    if (at == entries.end()) continue;
    const Entry& entry = at->second;
    if (entry.special && skip_special) continue;
    if (entry.special || entry.added) {
      bytes += entry.bytes;
      strip = later;
      continue;
    }
    std::string_view part = entry.bytes;
    if (entry.type == SentencePieceModel::byte) {
      strip = false;
    } else if (strip && part.starts_with(' ')) {
      part.remove_prefix(1);
      strip = extra_spaces_go && part.empty();
    } else {
      strip = false;
    }
    bytes += part;
  }
  return bytes;
}

std::string replaced_spaces(std::string_view piece) {
  std::string text;
  while (!piece.empty()) {
    const bool space = piece.starts_with(kSpace);
    text += space ? ' ' : piece[0];
    piece.remove_prefix(space ? kSpace.size() : 1);
  }
  return text;
}

// Pieces as entries; the library and this program must agree on every one of them.
void add_pieces(const SentencePieceModel& model, SentencePieceTokenizer& t) {
  if (t.processor.GetPieceSize() != int(model.pieces.size()))
    throw Error({t.file, "pieces", std::to_string(t.processor.GetPieceSize()) + " in SentencePiece", std::to_string(model.pieces.size()), ""});
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const auto& piece = model.pieces[i];
    SentencePieceTokenizer::Entry entry{std::string(piece.text), "", false, false, piece.type};
    if (piece.type == SentencePieceModel::byte)
      entry.bytes = std::string(1, char(std::stoi(entry.text.substr(3, 2), nullptr, 16)));
    else
      entry.bytes = replaced_spaces(piece.text);
    entry.special = piece.type == SentencePieceModel::control || piece.type == SentencePieceModel::unknown;
    if (entry.special) entry.bytes = entry.text;
    t.entries.emplace(int32_t(i), std::move(entry));
  }
  t.limit = int32_t(model.pieces.size());
}

// Added tokens, special ones among them: cut out of the text before SentencePiece sees it.
void add_configured(const TokenizerConfig& config, const std::vector<ConfiguredToken>& special, SentencePieceTokenizer& t) {
  std::unordered_map<std::string, int32_t> ids;
  for (const auto& [id, entry] : t.entries) ids.emplace(entry.text, id);
  const auto add = [&](ConfiguredToken token) {
    const std::string item = "added token '" + printable(token.content, 40) + "'";
    if (token.single_word) refuse_tokenizer(config.file, item, "single_word", "an added token without single_word");
    const auto [entry, fresh] = t.entries.emplace(token.id, SentencePieceTokenizer::Entry{token.content, token.content});
    if (entry->second.text != token.content)
      refuse_tokenizer(config.file, item, "id " + std::to_string(token.id) + ", which is '" + printable(entry->second.text, 40) + "' in " +
                       t.file, "one token per id");
    if (const auto [at, is_new] = ids.emplace(token.content, token.id); !is_new && at->second != token.id)
      refuse_tokenizer(config.file, item, "id " + std::to_string(token.id) + ", but " + std::to_string(at->second) + " in " + t.file, "one id");
    entry->second.bytes = token.content;
    entry->second.added = true;
    entry->second.special |= token.special;
    t.limit = std::max(t.limit, token.id + 1);
    t.starts_added[static_cast<unsigned char>(token.content[0])] = true;
    t.added.push_back(std::move(token));
  };
  for (const auto& token : config.added) add(token);
  for (ConfiguredToken token : special) {
    const auto same = [&](const auto& other) { return other.content == token.content; };
    if (const auto at = std::find_if(t.added.begin(), t.added.end(), same); at != t.added.end()) {
      t.entries.at(at->id).special = true;
      continue;
    }
    const auto at = ids.find(token.content);
    if (at == ids.end())
      refuse_tokenizer(config.file, "special token '" + printable(token.content, 40) + "'", "no id",
                       "a piece of " + t.file + ", or an entry of added_tokens_decoder or added_tokens.json");
    token.id = at->second;
    add(token);
  }
}

// bos_token and the others with the defaults of LlamaTokenizer; without tokenizer_config.json only those that the model has.
std::vector<ConfiguredToken> special_tokens(const TokenizerConfig& config, const SentencePieceModel& model) {
  std::vector<ConfiguredToken> tokens;
  const auto in_model = [&](const std::string& text) {
    return std::any_of(model.pieces.begin(), model.pieces.end(), [&](const auto& p) { return p.text == text; });
  };
  for (const auto& [key, text] : {std::pair{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}})
    if (!config.role(key) && (config.exists || in_model(text))) tokens.push_back({-1, text, false, false, false, false, true});
  for (auto& token : config.special_tokens()) tokens.push_back(std::move(token));
  return tokens;
}

void check_config(const TokenizerConfig& config, bool legacy) {
  const std::string& name = config.tokenizer_class;
  if (!name.empty() && name != "LlamaTokenizer" && name != "LlamaTokenizerFast")
    refuse_tokenizer(config.file, "tokenizer_class", printable(name, 60),
                     "LlamaTokenizer for a folder with a SentencePiece model (or a tokenizer.json beside it)");
  config.refuse_unless("sp_model_kwargs", nlohmann::json::object());
  config.refuse_unless("split_special_tokens", false);
  config.refuse_unless("do_lower_case", false);
  if (!legacy) config.refuse_unless("from_slow", false);
}

// What the special token of a role is; -1 when there is none and none is asked for.
int32_t role_id(const TokenizerConfig& config, const char* key, const char* text, bool asked, const SentencePieceTokenizer& t) {
  if (!asked) return -1;
  const auto role = config.role(key);
  const std::string content = role ? role->content : text;
  for (const auto& token : t.added)
    if (token.content == content) return token.id;
  if (config.exists) refuse_tokenizer(config.file, key, "none, but add_bos_token or add_eos_token asks for it", "a token");
  return -1;
}

std::string describe(const SentencePieceModel& model, size_t entries) {
  const char* names[] = {"", "Unigram", "BPE", "words", "characters"};
  return std::string("SentencePiece ") + names[model.model_type] + (model.byte_fallback ? " with byte fallback" : "") + ", " +
         thousands(entries) + " entries";
}

}  // namespace

std::shared_ptr<const Tokenizer> load_sentencepiece(const fs::path& folder, const fs::path& path) {
  auto t = std::make_shared<SentencePieceTokenizer>();
  t->file = path.string();
  std::string bytes = read_text_file(path, kMaxModelBytes);
  const SentencePieceModel model = read_sentencepiece_model(bytes, t->file);
  const TokenizerConfig config = TokenizerConfig::read(folder);
  t->legacy = config.flag("legacy", true);
  t->add_prefix_space = config.flag("add_prefix_space", true);
  check_config(config, t->legacy);
  t->dummy_prefix = model.add_dummy_prefix;
  t->charsmap = model.charsmap;
  t->escape_spaces = model.escape_whitespaces;
  t->suffix = model.suffix;
  for (const auto& piece : model.pieces)
    if (piece.type == SentencePieceModel::user_defined) t->user_defined.emplace_back(piece.text);
  t->extra_spaces_go = model.remove_extra_whitespaces;
  if (sentencepiece::logging::SetMinLogLevel) sentencepiece::logging::SetMinLogLevel(2);
  try {
    const auto status = t->processor.LoadFromSerializedProto(t->legacy ? bytes : bytes + std::string(kNoDummyPrefix));
    if (!status.ok())
      throw Error({t->file, "", std::string("SentencePiece says: ") + printable(status.error_message(), 200), "a SentencePiece model",
                   "Download the file again."});
    add_pieces(model, *t);
    add_configured(config, special_tokens(config, model), *t);
    t->bos = role_id(config, "bos_token", "<s>", config.flag("add_bos_token", true), *t);
    t->eos = role_id(config, "eos_token", "</s>", config.flag("add_eos_token", false), *t);
    const auto unknown = config.role("unk_token");
    t->unknown_text = unknown && !unknown->content.empty() ? unknown->content : "<unk>";
    if (!t->legacy) {
      std::vector<int> pieces;
      (void)t->processor.Encode(t->unknown_text, &pieces).ok();
      t->unknown_pieces = pieces.size();
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw Error({t->file, "", std::string("SentencePiece failed: ") + printable(e.what(), 200), "a SentencePiece model",
                 "Download the file again."});
  }
  t->description = describe(model, t->entries.size());
  if (config.tokenizer_class.empty())
    t->remarks.push_back("tokenizer_config.json " + std::string(config.exists ? "names no tokenizer_class" : "is missing") +
                         ": the special tokens of " + path.filename().string() + " are treated as LlamaTokenizer treats them");
  return t;
}

#endif

}  // namespace slotscope::formats
