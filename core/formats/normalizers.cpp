#include "core/formats/normalizers.h"

#include "core/formats/pattern.h"
#include "core/formats/tokenizer_json.h"
#include "core/formats/unicode.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

class FormNormalizer : public Normalizer {
 public:
  explicit FormNormalizer(unicode::Form form) : form_(form) {}
  void apply(AlignedText& text, const Deadline&) const override {
    text.rewrite([&](Rewriter& w) {
      if (!unicode::is_normalized(form_, w.old()))
        for (const Change& step : unicode::normalize(form_, w.old())) w.change(step);
      else
        w.keep(w.old().size());
    });
  }

 private:
  unicode::Form form_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(AlignedText& text, const Deadline&) const override {
    text.rewrite([&](Rewriter& w) {
      w.prepend(prefix_);
      w.keep(w.old().size());
    });
  }

 private:
  std::string prefix_;
};

class Replace : public Normalizer {
 public:
  Replace(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(AlignedText& text, const Deadline& deadline) const override {
    Finder finder(pattern_, deadline);
    text.rewrite([&](Rewriter& w) { replace_matches(w, finder.find(w.old()), content_); });
  }

 private:
  Pattern pattern_;
  std::string content_;
};

// Keeps the characters for which `map` gives one, in its new form; kNone leaves a character out.
class MapCharacters : public Normalizer {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  explicit MapCharacters(std::function<uint32_t(uint32_t)> map) : map_(std::move(map)) {}
  void apply(AlignedText& text, const Deadline&) const override {
    text.rewrite([&](Rewriter& w) {
      for (size_t at = 0; at < w.old().size();) {
        const size_t begin = at;
        const uint32_t c = next_code_point(w.old(), at), to = map_(c);
        if (to == c) {
          w.keep(at);
        } else if (to == kNone) {
          w.skip(at);
        } else {
          w.skip(begin);
          w.change({to, 0});
        }
      }
    });
  }

 private:
  std::function<uint32_t(uint32_t)> map_;
};

class Lowercase : public Normalizer {
 public:
  void apply(AlignedText& text, const Deadline&) const override {
    text.rewrite([&](Rewriter& w) {
      uint32_t lower[3];
      for (size_t at = 0; at < w.old().size();) {
        const int n = unicode::lowercase(next_code_point(w.old(), at), lower);
        for (int i = 0; i < n; ++i) w.change({lower[i], i > 0});
      }
    });
  }
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(AlignedText& text, const Deadline&) const override {
    text.rewrite([&](Rewriter& w) {
      const std::string_view old = w.old();
      size_t begin = 0, end = old.size();
      if (left_)
        for (size_t at = 0; at < end && unicode::is_white_space(next_code_point(old, at));) begin = at;
      while (right_ && end > begin) {
        size_t last = end - 1;
        while (last > begin && is_utf8_continuation(old[last])) --last;
        size_t at = last;
        if (!unicode::is_white_space(next_code_point(old, at))) break;
        end = last;
      }
      w.skip(begin);
      w.keep(end);
    });
  }

 private:
  bool left_, right_;
};

class ByteLevelNormalizer : public Normalizer {
 public:
  void apply(AlignedText& text, const Deadline&) const override {
    text.rewrite([](Rewriter& w) { w.to_byte_level(); });
  }
};

// The control characters and spaces that machine translation prepares its text with.
uint32_t nmt(uint32_t c) {
  if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F)
    return MapCharacters::kNone;
  const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  return space ? ' ' : c;
}

void needs_unicode(const JsonItem& item, const std::string& type) {
  if (!has_all_tokenizers())
    item.refuse("type", type, "a tokenizer without Unicode tables: this program was built without them");
}

std::shared_ptr<const Normalizer> read_one(const JsonItem& item) {
  const std::string type = item.type();
  const auto form = type == "NFC"    ? std::optional(unicode::Form::nfc)
                    : type == "NFD"  ? std::optional(unicode::Form::nfd)
                    : type == "NFKC" ? std::optional(unicode::Form::nfkc)
                    : type == "NFKD" ? std::optional(unicode::Form::nfkd)
                                     : std::nullopt;
  if (form || type == "Lowercase" || type == "StripAccents") needs_unicode(item, type);
  if (form) return std::make_shared<FormNormalizer>(*form);
  if (type == "Prepend") return std::make_shared<Prepend>(item.text("prepend"));
  if (type == "Replace")
    return std::make_shared<Replace>(read_pattern(item.at("pattern", "String or Regex")),
                                     item.text("content"));
  if (type == "Lowercase") return std::make_shared<Lowercase>();
  if (type == "Strip") {
    const bool left = item.flag("strip_left"), right = item.flag("strip_right");
    return std::make_shared<Strip>(left, right);
  }
  if (type == "StripAccents")
    return std::make_shared<MapCharacters>(
        [](uint32_t c) { return unicode::is_mark(c) ? MapCharacters::kNone : c; });
  if (type == "Nmt") return std::make_shared<MapCharacters>(nmt);
  if (type == "ByteLevel") return std::make_shared<ByteLevelNormalizer>();
  item.refuse(
      "type", type,
      "NFC, NFD, NFKC, NFKD, Prepend, Replace, Lowercase, Strip, StripAccents, Nmt, ByteLevel or Sequence");
}

void read_into(const JsonItem& item, int depth, Normalizers& steps) {
  if (item.type() != "Sequence") return steps.push_back(read_one(item));
  if (depth >= kMaxSequenceDepth) item.refuse("sequences nested deeper than 10", "at most 10");
  const JsonItem list = item.at("normalizers", "a list");
  for (size_t i = 0; i < list.list_size(); ++i) {
    if (steps.size() >= kMaxSteps) list.refuse("more than 64 steps", "at most 64");
    read_into(list[i], depth + 1, steps);
  }
}

}  // namespace

Normalizers read_normalizer(const JsonItem& item) {
  Normalizers steps;
  read_into(item, 0, steps);
  return steps;
}

}  // namespace slotscope::formats
