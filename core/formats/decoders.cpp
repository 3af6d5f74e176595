#include "core/formats/decoders.h"

#include "core/formats/byte_level.h"
#include "core/formats/normalizers.h"
#include "core/formats/pattern.h"
#include "core/formats/pre_tokenizers.h"
#include "core/formats/tokenizer_json.h"
#include "core/formats/tokenizer_model.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

void fuse(std::vector<std::string>& tokens) {
  std::string all;
  for (const auto& token : tokens) all += token;
  tokens.assign(1, std::move(all));
}

class ByteLevelDecoder : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    for (auto& token : tokens) token = alone(std::move(token));
    fuse(tokens);
  }
  // A token with a character outside of the alphabet stands for itself.
  std::string alone(std::string token) const override {
    if (first_invalid_utf8(token) != kValidUtf8) return token;
    auto bytes = byte_level_bytes(token);
    return bytes ? std::move(*bytes) : token;
  }
  bool byte_level() const override { return true; }
};

class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::vector<std::string>& tokens) const override {
    size_t bytes = 0;
    for (const auto& token : tokens) bytes += token.size();
    const Deadline deadline(bytes);
    Finder finder(pattern_, deadline);
    for (auto& token : tokens) replace(finder, token);
  }
  std::string alone(std::string token) const override {
    const Deadline deadline(token.size());
    Finder finder(pattern_, deadline);
    replace(finder, token);
    return token;
  }

 private:
  void replace(Finder& finder, std::string& token) const {
    if (pattern_.regex && first_invalid_utf8(token) != kValidUtf8) return;  // raw bytes are no text to search
    const auto& matches = finder.find(token);
    if (matches.empty()) return;
    std::string out;
    size_t from = 0;
    for (const auto& m : matches) {
      out.append(token, from, m.begin - from).append(content_);
      from = m.end;
    }
    token = out.append(token, from);
  }
  Pattern pattern_;
  std::string content_;
};

// <0xE2> and its like become bytes; neighbours become one token when they are whole characters, as in the
// public library.
class ByteFallbackDecoder : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (first_invalid_utf8(bytes) == kValidUtf8) {
        if (!bytes.empty()) out.push_back(bytes);
      } else {
        for (const char c : bytes) out.emplace_back(1, c);
      }
      bytes.clear();
    };
    for (auto& token : tokens) {
      if (const auto byte = byte_of_token(token)) {
        bytes.push_back(char(*byte));
      } else {
        flush();
        out.push_back(std::move(token));
      }
    }
    flush();
    tokens = std::move(out);
  }
  std::string alone(std::string token) const override {
    const auto byte = byte_of_token(token);
    return byte ? std::string(1, char(*byte)) : token;
  }
};

class FuseDecoder : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override { fuse(tokens); }
  std::string alone(std::string token) const override { return token; }
};

// Up to `start` times a character from the front, up to `stop` times from the end of every token.
class StripDecoder : public Decoder {
 public:
  StripDecoder(const JsonItem& item, bool whole)
      : start_(size_t(item.at("start", "a number").whole(0, 1 << 20))),
        stop_(size_t(item.at("stop", "a number").whole(0, 1 << 20))),
        whole_(whole) {
    append_utf8(content_, item.at("content", "one character").character());
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (auto& token : tokens) token = strip(token);
  }
  std::string alone(std::string token) const override { return whole_ ? token : strip(token); }

 private:
  std::string strip(const std::string& token) const {
    std::string_view rest = token;
    for (size_t i = 0; i < start_ && rest.starts_with(content_); ++i) rest.remove_prefix(content_.size());
    for (size_t i = 0; i < stop_ && rest.ends_with(content_); ++i) rest.remove_suffix(content_.size());
    return std::string(rest);
  }
  std::string content_;
  size_t start_, stop_;
  bool whole_;  // behind Fuse: it works on the whole text, not on a token
};

class MetaspaceDecoder : public Decoder {
 public:
  explicit MetaspaceDecoder(const JsonItem& item)
      : prefix_(read_prepend_scheme(item) != PrependScheme::never) {
    append_utf8(mark_, item.at("replacement", "one character").character());
  }
  void apply(std::vector<std::string>& tokens) const override {
    // All marks of the first token are taken for what was put in front.
    for (size_t i = 0; i < tokens.size(); ++i) replace(tokens[i], i == 0 && prefix_ ? "" : " ");
  }
  std::string alone(std::string token) const override { return replace(token, " "), token; }

 private:
  void replace(std::string& token, const char* by) const {
    std::string out;
    size_t from = 0;
    for (size_t at; (at = token.find(mark_, from)) != std::string::npos; from = at + mark_.size())
      out.append(token, from, at - from).append(by);
    token = out.append(token, from);
  }
  std::string mark_;
  bool prefix_;
};

// The suffix that ends a word becomes a space, at the end of the text nothing.
class BpeDecoder : public Decoder {
 public:
  explicit BpeDecoder(const JsonItem& item) : suffix_(item.text("suffix")) {
    if (suffix_.empty()) item.refuse("suffix", "empty", "the text that ends a word");
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replace(tokens[i], i + 1 == tokens.size() ? "" : " ");
  }
  std::string alone(std::string token) const override { return replace(token, " "); }

 private:
  std::string replace(const std::string& token, const char* by) const {
    std::string out;
    size_t from = 0;
    for (size_t at; (at = token.find(suffix_, from)) != std::string::npos; from = at + suffix_.size())
      out.append(token, from, at - from).append(by);
    return out.append(token, from);
  }
  std::string suffix_;
};

std::shared_ptr<const Decoder> read_one(const JsonItem& item, const Decoders& before) {
  const std::string type = item.type();
  if (type == "ByteLevel") return std::make_shared<ByteLevelDecoder>();
  if (type == "Replace")
    return std::make_shared<ReplaceDecoder>(read_pattern(item.at("pattern", "String or Regex")),
                                            item.text("content"));
  if (type == "ByteFallback") return std::make_shared<ByteFallbackDecoder>();
  if (type == "Fuse") return std::make_shared<FuseDecoder>();
  if (type == "Metaspace") return std::make_shared<MetaspaceDecoder>(item);
  if (type == "BPEDecoder") return std::make_shared<BpeDecoder>(item);
  if (type == "Strip") {
    bool whole = false;
    for (const auto& step : before)
      whole = whole || step->byte_level() || dynamic_cast<const FuseDecoder*>(step.get());
    return std::make_shared<StripDecoder>(item, whole);
  }
  item.refuse("type", type,
              "ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, BPEDecoder or Sequence");
}

void read_into(const JsonItem& item, int depth, Decoders& steps) {
  if (item.type() != "Sequence") return steps.push_back(read_one(item, steps));
  if (depth >= kMaxSequenceDepth) item.refuse("sequences nested deeper than 10", "at most 10");
  const JsonItem list = item.at("decoders", "a list");
  for (size_t i = 0; i < list.list_size(); ++i) {
    if (steps.size() >= kMaxSteps) list.refuse("more than 64 steps", "at most 64");
    read_into(list[i], depth + 1, steps);
  }
}

}  // namespace

Decoders read_decoder(const JsonItem& item) {
  Decoders steps;
  read_into(item, 0, steps);
  return steps;
}

}  // namespace slotscope::formats
