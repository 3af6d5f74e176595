// The text on its way through a tokenizer: what it was changed to, which bytes of the original each of its
// bytes stands for, and the segments that it was cut into. Alignment follows the public library, so that
// offsets agree with it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slotscope::formats {

// Bytes of the original text, half-open.
struct Span {
  uint32_t begin = 0, end = 0;
};

// One step of a rewriting: `code_point` replaces the next old character (changes = 0), replaces it and
// removes the n characters behind it (changes = -n), or is new (changes > 0; it shares the place of the old
// character before it).
struct Change {
  uint32_t code_point;
  int64_t changes;
};

// Writes the new form of one segment. Old positions are bytes of the segment's old text.
class Rewriter {
 public:
  Rewriter(std::string_view old, const Span* spans, uint32_t origin, std::string& text,
           std::vector<Span>& out, size_t limit)
      : old_(old), spans_(spans), origin_(origin), text_(text), out_(out), limit_(limit) {}

  std::string_view old() const { return old_; }
  uint32_t origin() const { return origin_; }  // byte of the original where the segment began when it was cut
  size_t at() const { return at_; }
  // Copies old bytes up to `end` as they are, byte by byte aligned.
  void keep(size_t end);
  // Leaves old bytes out up to `end`.
  void skip(size_t end) { at_ = end; }
  void change(Change step);
  // Adds text that stands where the old character before the current place stands.
  void insert(std::string_view text) { put(text, before()); }
  // Adds text that stands where the next old character stands; that one stays.
  void prepend(std::string_view text);
  // The byte-level alphabet: one character for each byte of the whole segment.
  void to_byte_level();

 private:
  Span of_character(size_t begin, size_t end) const { return {spans_[begin].begin, spans_[end - 1].end}; }
  Span before() const;
  void put(std::string_view text, Span span);

  std::string_view old_;
  const Span* spans_;
  uint32_t origin_;
  std::string& text_;
  std::vector<Span>& out_;
  size_t limit_, at_ = 0;
};

class AlignedText {
 public:
  struct Segment {
    size_t begin, end;  // bytes of text()
    uint32_t origin;    // byte of the original where it began when it was cut
    int32_t token;      // an added token's id, or -1 for text
  };
  static constexpr uint64_t kMaxBytes = 1ull << 30;

  // One segment, or none for an empty text. Throws Error for a text over 1 GiB.
  explicit AlignedText(std::string_view original);

  const std::string& text() const { return text_; }
  const std::vector<Segment>& segments() const { return segments_; }
  std::string_view text_of(const Segment& s) const {
    return std::string_view(text_).substr(s.begin, s.end - s.begin);
  }
  // Bytes of the original that text()[begin, end) stands for.
  Span span(size_t begin, size_t end) const { return {spans_[begin].begin, spans_[end - 1].end}; }

  struct Part {
    size_t begin, end;  // bytes of the segment
    int32_t token = -1;
  };
  // Cuts every text segment: `cut(text, parts)` appends what stays of it, in order; empty parts are dropped.
  template <class F>
  void split(F&& cut) {
    std::vector<Segment> next;
    std::vector<Part> parts;
    next.reserve(segments_.size());
    for (const Segment& s : segments_) {
      if (s.token >= 0) {
        next.push_back(s);
        continue;
      }
      parts.clear();
      cut(text_of(s), parts);
      for (const Part& p : parts)
        if (p.end > p.begin)
          next.push_back({s.begin + p.begin, s.begin + p.end, spans_[s.begin + p.begin].begin, p.token});
    }
    segments_ = std::move(next);
  }
  // Rewrites every text segment: `write(rewriter)`. Segments that become empty are dropped. Throws Error when
  // the text grows beyond 64 times its first size: a hostile normaliser.
  template <class F>
  void rewrite(F&& write) {
    std::string text;
    std::vector<Span> spans;
    text.reserve(text_.size() + text_.size() / 8);
    spans.reserve(text_.size() + text_.size() / 8);
    std::vector<Segment> next;
    next.reserve(segments_.size());
    for (const Segment& s : segments_) {
      const size_t begin = text.size();
      Rewriter writer(text_of(s), spans_.data() + s.begin, s.origin, text, spans, limit_);
      if (s.token >= 0)
        writer.keep(s.end - s.begin);
      else
        write(writer);
      if (text.size() > begin) next.push_back({begin, text.size(), s.origin, s.token});
    }
    text_ = std::move(text);
    spans_ = std::move(spans);
    segments_ = std::move(next);
  }

 private:
  std::string text_;
  std::vector<Span> spans_;  // one per byte of text_
  std::vector<Segment> segments_;
  size_t limit_;
};

}  // namespace slotscope::formats
