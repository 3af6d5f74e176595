#include "core/formats/pre_tokenizers.h"

#include "core/formats/normalizers.h"
#include "core/formats/pattern.h"
#include "core/formats/tokenizer_json.h"
#include "core/formats/unicode.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

// GPT-2's rule, which ByteLevel applies with use_regex.
constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void split_at(AlignedText& text, const Pattern& pattern, const Deadline& deadline, Behaviour behaviour,
              bool invert) {
  Finder finder(pattern, deadline);
  text.split([&](std::string_view part, std::vector<AlignedText::Part>& parts) {
    cut_at(part.size(), finder.find(part), behaviour, invert, parts);
  });
}

class ByteLevel : public PreTokenizer {
 public:
  explicit ByteLevel(const JsonItem& item) : prefix_(item.flag("add_prefix_space")) {
    if (item.flag("use_regex", true)) gpt2_.regex = Regex::compile(kGpt2, item.at("type", "ByteLevel"));
  }
  void apply(AlignedText& text, const Deadline& deadline) const override {
    if (prefix_)
      text.rewrite([](Rewriter& w) {
        if (!w.old().starts_with(' ')) w.prepend(" ");
        w.keep(w.old().size());
      });
    if (gpt2_.regex) split_at(text, gpt2_, deadline, Behaviour::isolated, false);
    text.rewrite([](Rewriter& w) { w.to_byte_level(); });
  }
  bool byte_level() const override { return true; }

 private:
  bool prefix_;
  Pattern gpt2_;
};

class Split : public PreTokenizer {
 public:
  Split(Pattern pattern, Behaviour behaviour, bool invert)
      : pattern_(std::move(pattern)), behaviour_(behaviour), invert_(invert) {}
  void apply(AlignedText& text, const Deadline& deadline) const override {
    split_at(text, pattern_, deadline, behaviour_, invert_);
  }

 private:
  Pattern pattern_;
  Behaviour behaviour_;
  bool invert_;
};

// \w+|[^\w\s]+: words and what is neither word nor space.
class Whitespace : public PreTokenizer {
 public:
  void apply(AlignedText& text, const Deadline&) const override {
    text.split([](std::string_view part, std::vector<AlignedText::Part>& parts) {
      int previous = 0;
      for (size_t at = 0; at < part.size();) {
        const size_t begin = at;
        const uint32_t c = next_code_point(part, at);
        const int kind = unicode::is_word(c) ? 1 : unicode::is_white_space(c) ? 0 : 2;
        if (kind != 0 && kind == previous)
          parts.back().end = at;
        else if (kind != 0)
          parts.push_back({begin, at});
        previous = kind;
      }
    });
  }
};

class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(const JsonItem& item)
      : scheme_(read_prepend_scheme(item)), split_(item.flag("split", true)) {
    append_utf8(mark_, item.at("replacement", "one character").character());
    pattern_.literal = mark_;
    space_.literal = " ";
  }
  void apply(AlignedText& text, const Deadline& deadline) const override {
    Finder spaces(space_, deadline);
    text.rewrite([&](Rewriter& w) {
      const bool marked = w.old().starts_with(' ') || w.old().starts_with(mark_);
      if (!marked &&
          (scheme_ == PrependScheme::always || (scheme_ == PrependScheme::first && w.origin() == 0)))
        w.prepend(mark_);
      replace_matches(w, spaces.find(w.old()), mark_);
    });
    if (split_) split_at(text, pattern_, deadline, Behaviour::merged_with_next, false);
  }

 private:
  std::string mark_;
  Pattern pattern_, space_;
  PrependScheme scheme_;
  bool split_;
};

std::shared_ptr<const PreTokenizer> at_characters(std::function<bool(uint32_t)> one, Behaviour behaviour) {
  return std::make_shared<Split>(Pattern{"", nullptr, std::move(one)}, behaviour, false);
}

std::shared_ptr<const PreTokenizer> read_one(const JsonItem& item) {
  const std::string type = item.type();
  if ((type == "Digits" || type == "Punctuation" || type == "Whitespace") && !has_all_tokenizers())
    item.refuse("type", type, "a tokenizer without Unicode tables: this program was built without them");
  if (type == "ByteLevel") return std::make_shared<ByteLevel>(item);
  if (type == "Metaspace") return std::make_shared<Metaspace>(item);
  if (type == "Split")
    return std::make_shared<Split>(read_pattern(item.at("pattern", "String or Regex")),
                                   read_behaviour(item.at("behavior", "a behaviour")),
                                   item.flag("invert", false));
  if (type == "Digits")
    return at_characters(unicode::is_numeric,
                         item.flag("individual_digits") ? Behaviour::isolated : Behaviour::contiguous);
  if (type == "Punctuation") {
    const auto behaviour = item.find("behavior");
    return at_characters(unicode::is_punctuation,
                         behaviour ? read_behaviour(*behaviour) : Behaviour::isolated);
  }
  if (type == "Whitespace") return std::make_shared<Whitespace>();
  if (type == "WhitespaceSplit") return at_characters(unicode::is_white_space, Behaviour::removed);
  if (type == "CharDelimiterSplit") {
    const uint32_t delimiter = item.at("delimiter", "one character").character();
    return at_characters([delimiter](uint32_t c) { return c == delimiter; }, Behaviour::removed);
  }
  item.refuse(
      "type", type,
      "ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit, CharDelimiterSplit or "
      "Sequence");
}

void read_into(const JsonItem& item, int depth, PreTokenizers& steps) {
  if (item.type() != "Sequence") return steps.push_back(read_one(item));
  if (depth >= kMaxSequenceDepth) item.refuse("sequences nested deeper than 10", "at most 10");
  const JsonItem list = item.at("pretokenizers", "a list");
  for (size_t i = 0; i < list.list_size(); ++i) {
    if (steps.size() >= kMaxSteps) list.refuse("more than 64 steps", "at most 64");
    read_into(list[i], depth + 1, steps);
  }
}

}  // namespace

PrependScheme read_prepend_scheme(const JsonItem& item) {
  const auto scheme = item.find("prepend_scheme");
  const bool prefix = item.flag("add_prefix_space", true);
  if (!scheme) return prefix ? PrependScheme::always : PrependScheme::never;
  const std::string name = scheme->text();
  if (name != "always" && name != "first" && name != "never")
    scheme->refuse("'" + printable(name, 30) + "'", "always, first or never");
  const auto value = name == "always"  ? PrependScheme::always
                     : name == "first" ? PrependScheme::first
                                       : PrependScheme::never;
  // Files of the change-over hold both; the public library refuses those that disagree.
  if (!prefix && value != PrependScheme::never)
    scheme->refuse("'" + name + "' beside add_prefix_space false", "never");
  return value;
}

PreTokenizers read_pre_tokenizer(const JsonItem& item) {
  PreTokenizers steps;
  read_into(item, 0, steps);
  return steps;
}

}  // namespace slotscope::formats
