// Oniguruma's syntax (the public library's) to ICU's. What means the same passes through; what differs is
// rewritten; anything else is refused by name. Differences that matter:
//   {n,m}+   repeats the repetition (not possessive)      .  ^  $   only \n ends a line; ^ and $ work at
//   every line
//   {,m}     from none to m                                \w \b \h \v   other sets of characters
//   (?m)     the dot matches line ends                     { } ]    stand for themselves where they can mean
//   nothing else
#include <cctype>
#include <cstring>
#include <set>

#include "core/formats/regex.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

constexpr const char* kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\u00B2\\u00B3\\u00B9\\u00BC-\\u00BE";

class Translator {
 public:
  Translator(const std::string& pattern, const JsonItem& item) : in_(pattern), item_(item) {}

  std::string run() {
    while (at_ < in_.size()) piece();
    if (!groups_.empty()) refuse("a group that is not closed");
    return out_;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    item_.refuse(what + " in '" + printable(in_, 60) + "'",
                 "a regular expression that this program can follow exactly");
  }
  char peek(size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  bool starts(const char* s) const { return in_.compare(at_, std::strlen(s), s) == 0; }
  void atom(const std::string& text) {
    atom_ = out_.size();
    out_ += text;
    has_atom_ = true;
  }

  void piece() {
    switch (const char c = peek()) {
      case '\\':
        return escape();
      case '[':
        atom_ = out_.size();
        has_atom_ = true;
        return set();
      case '(':
        return open();
      case ')':
        return close();
      case '*':
      case '+':
      case '?':
        return simple_repeat();
      case '{':
        return interval();
      case '|':
        out_ += c, ++at_;
        has_atom_ = false;
        return;
      // At every line: behind a line end (but not the one that ends the text), before a line end or at the
      // very end.
      case '^':
        ++at_;
        return atom("(?:\\A|(?<=\\n)(?!\\z))");
      case '$':
        ++at_;
        return atom("(?:(?=\\n)|(?<!\\n)\\z)");
      case '.':
        ++at_;
        return atom(dot_all_ ? "[\\s\\S]" : ".");
      case '}':
      case ']':
        ++at_;
        return atom(std::string("\\") + c);
      default:
        return literal();
    }
  }

  void literal() {
    const size_t begin = at_;
    at_ += size_t(utf8_length(static_cast<unsigned char>(in_[at_])));
    atom(in_.substr(begin, at_ - begin));
  }

  void simple_repeat() {
    if (!has_atom_) refuse(std::string("'") + peek() + "' without anything to repeat");
    out_ += in_[at_++];
    if (peek() == '?' || peek() == '+') out_ += in_[at_++];  // lazy and possessive mean the same in both
    if (peek() == '*' || peek() == '+' || peek() == '?') wrap();
  }

  // Puts what was repeated into a group, so that another repetition applies to the whole of it.
  void wrap() {
    out_.insert(atom_, "(?:");
    out_ += ")";
  }

  void interval() {
    size_t end = at_ + 1;
    std::string low, high;
    bool comma = false;
    while (end < in_.size() &&
           (std::isdigit(static_cast<unsigned char>(in_[end])) || (in_[end] == ',' && !comma))) {
      if (in_[end] == ',')
        comma = true;
      else
        (comma ? high : low) += in_[end];
      ++end;
    }
    const bool valid = end < in_.size() && in_[end] == '}' && !(low.empty() && high.empty());
    if (!valid) return ++at_, atom("\\{");
    if (!has_atom_) refuse("'{' without anything to repeat");
    if (low.size() > 5 || high.size() > 5) refuse("a repetition of more than 99,999 times");
    if (comma && !high.empty() && !low.empty() && std::stoi(low) > std::stoi(high))
      refuse("a reversed interval");
    out_ += "{" + (low.empty() ? std::string("0") : low) + (comma ? "," + high : "") + "}";
    at_ = end + 1;
    if (peek() == '?' && comma) out_ += in_[at_++];  // lazy; behind {n} it makes the whole optional instead
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{') wrap();
  }

  void open() {
    if (groups_.size() > 100) refuse("groups nested deeper than 100");
    groups_.push_back({out_.size(), dot_all_});
    has_atom_ = false;
    for (const char* same : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"})
      if (starts(same)) {
        out_ += same, at_ += std::strlen(same);
        return;
      }
    if (starts("(?#")) {
      const size_t end = in_.find(')', at_);
      if (end == std::string::npos) refuse("a comment that is not closed");
      groups_.pop_back();
      at_ = end + 1;
      return;
    }
    if (starts("(?<")) {
      const size_t end = in_.find('>', at_);
      if (end == std::string::npos) refuse("a name that is not closed");
      out_ += "(";  // references to names are refused, so that the name does not matter
      at_ = end + 1;
      return;
    }
    if (starts("(?")) return options();
    out_ += "(", ++at_;
  }

  // (?imx-imx) and (?imx-imx:...).
  void options() {
    std::string flags;
    const bool first = out_.empty();
    at_ += 2;
    bool on = true;
    for (; peek() != ')' && peek() != ':'; ++at_) {
      if (peek() == '-' && on)
        flags += '-', on = false;
      else if (peek() == 'i')
        flags += 'i';
      else if (peek() == 'm')
        dot_all_ = on;
      else
        refuse(std::string("the group '(?") + (peek() ? peek() : ' ') + "'");
    }
    if (peek() == ')') {
      // Oniguruma puts everything that follows, alternatives included, into such a group; ICU does not.
      if (!first) refuse("options in the middle");
      const bool now = dot_all_;
      groups_.pop_back();
      dot_all_ = now;
      out_ += flags.empty() || flags == "-" ? "" : "(?" + flags + ")";
    } else {
      out_ += flags.empty() || flags == "-" ? "(?:" : "(?" + flags + ":";
    }
    ++at_;
  }

  void close() {
    if (groups_.empty()) refuse("')' without '('");
    atom_ = groups_.back().begin;
    dot_all_ = groups_.back().dot_all;
    groups_.pop_back();
    has_atom_ = true;
    out_ += ")", ++at_;
  }

  // \p{...}: general categories, scripts and the few properties that both know by the same name and meaning.
  std::string property() {
    const size_t open = at_ + 2;
    if (open >= in_.size() || in_[open] != '{') refuse("'\\" + std::string(1, peek(1)) + "' without braces");
    const size_t end = in_.find('}', open);
    if (end == std::string::npos) refuse("a property that is not closed");
    bool negated = peek(1) == 'P';
    std::string name = in_.substr(open + 1, end - open - 1);
    if (!name.empty() && name[0] == '^') negated = !negated, name.erase(0, 1);
    std::string key;
    for (const char c : name)
      if (c != ' ' && c != '_' && c != '-') key += char(std::tolower(static_cast<unsigned char>(c)));
    static const std::set<std::string> others = {"alnum",  "blank", "cntrl", "graph",   "print",
                                                 "xdigit", "word",  "any",   "assigned"};
    if (key.empty() || others.contains(key) || key.find_first_of(":=<>[]\\") != std::string::npos)
      refuse("the property \\p{" + printable(name, 30) + "}");
    at_ = end + 1;
    const std::string sign = negated ? "^" : "";
    if (key == "punct") return std::string(sign.empty() ? "\\p" : "\\P") + "{P}";
    if (key == "space") return "[" + sign + "\\p{White_Space}]";
    if (key == "digit") return "[" + sign + "\\p{Nd}]";
    if (key == "alpha") return "[" + sign + "\\p{Alphabetic}]";
    return std::string(negated ? "\\P{" : "\\p{") + name + "}";
  }

  std::string code_point() {
    // \xHH, \x{H...}, \uHHHH
    const bool wide = peek(1) == 'u';
    std::string digits;
    size_t end = at_ + 2;
    const bool braces = !wide && end < in_.size() && in_[end] == '{';
    if (braces) ++end;
    const size_t most = braces ? 8 : wide ? 4 : 2;
    while (end < in_.size() && digits.size() < most && std::isxdigit(static_cast<unsigned char>(in_[end])))
      digits += in_[end++];
    if (digits.empty() || (wide && digits.size() != 4) || (braces && (end >= in_.size() || in_[end] != '}')))
      refuse("a broken code point");
    const auto c = std::stoul(digits, nullptr, 16);
    // Without braces Oniguruma takes \x80 to \xff as raw bytes of UTF-8.
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000) || (!wide && !braces && c > 0x7F))
      refuse("the code point \\x" + digits);
    at_ = end + (braces ? 1 : 0);
    return "\\x{" + digits + "}";
  }

  // What means the same inside and outside of a set; empty when it is none of these.
  std::string common_escape(bool in_set) {
    const char c = peek(1);
    switch (c) {
      case 't':
      case 'n':
      case 'r':
      case 'f':
      case 'a':
      case 'e':
      case 's':
      case 'S':
      case 'd':
      case 'D':
        at_ += 2;
        return std::string("\\") + c;
      case 'v':
        at_ += 2;
        return "\\x{B}";
      case 'w':
        at_ += 2;
        return in_set ? std::string(kWord) : "[" + std::string(kWord) + "]";
      case 'W':
        at_ += 2;
        return "[^" + std::string(kWord) + "]";
      case 'h':
        at_ += 2;
        return in_set ? "0-9a-fA-F" : "[0-9a-fA-F]";
      case 'H':
        at_ += 2;
        return "[^0-9a-fA-F]";
      case 'p':
      case 'P':
        return property();
      case 'x':
      case 'u':
        return code_point();
      default:
        break;
    }
    if (c == '\0' || std::isalnum(static_cast<unsigned char>(c))) return "";
    const size_t begin = at_ + 1;  // any other character stands for itself
    at_ = begin + size_t(utf8_length(static_cast<unsigned char>(in_[begin])));
    const std::string self = in_.substr(begin, at_ - begin);
    return static_cast<unsigned char>(self[0]) < 0x80 ? "\\" + self : self;
  }

  void escape() {
    const std::string word = "[" + std::string(kWord) + "]";
    if (const std::string text = common_escape(false); !text.empty()) return atom(text);
    const char c = peek(1);
    at_ += 2;
    switch (c) {
      case 'A':
        return atom("\\A");
      case 'z':
        return atom("\\z");
      case 'Z':
        return atom("(?=\\n?\\z)");
      case 'R':
        return atom("(?>\\r\\n|[\\n-\\r\\x{85}\\x{2028}\\x{2029}])");
      case 'b':
        return atom("(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))");
      case 'B':
        return atom("(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))");
      default:
        refuse(c ? std::string("'\\") + c + "'" : "a single backslash at the end");
    }
  }

  void set() {
    if (++depth_ > 20) refuse("sets nested deeper than 20");
    out_ += "[", ++at_;
    if (peek() == '^') out_ += "^", ++at_;
    if (peek() == ']') refuse("an empty set");
    bool after_class = false;  // a set or property was the last element: no range can begin with it
    while (peek() != ']') {
      if (at_ >= in_.size()) refuse("a set that is not closed");
      if (starts("[:")) {
        posix();
        after_class = true;
      } else if (peek() == '[') {
        set();
        after_class = true;
      } else if (peek() == '\\') {
        const bool is_class = std::strchr("sSdDwWhHpP", peek(1)) && peek(1);
        const std::string text = peek(1) == 'b' ? (at_ += 2, "\\x{8}") : common_escape(true);
        if (text.empty()) refuse(std::string("'\\") + (peek(1) ? peek(1) : ' ') + "' in a set");
        out_ += text;
        after_class = is_class;
      } else if (starts("&&")) {
        out_ += "&&", at_ += 2;
        after_class = false;
      } else if (peek() == '-') {
        range_dash(after_class);
        after_class = false;
      } else {
        const size_t begin = at_;
        at_ += size_t(utf8_length(static_cast<unsigned char>(in_[at_])));
        const std::string one = in_.substr(begin, at_ - begin);
        out_ += std::ispunct(static_cast<unsigned char>(one[0])) ? "\\" + one : one;
        after_class = false;
      }
    }
    out_ += "]", ++at_;
    --depth_;
  }

  // A dash is a range between two characters and stands for itself at the edges and beside a class.
  void range_dash(bool after_class) {
    ++at_;
    if (peek() == '-') refuse("'--' in a set");
    const char before = in_[at_ - 2];
    const bool first = before == '[' || (before == '^' && at_ >= 3 && in_[at_ - 3] == '[');
    out_ += first || after_class || peek() == ']' ? "\\-" : "-";
  }

  void posix() {
    const size_t end = in_.find(":]", at_);
    if (end == std::string::npos) refuse("a class that is not closed");
    std::string name = in_.substr(at_ + 2, end - at_ - 2);
    const bool negated = !name.empty() && name[0] == '^';
    if (negated) name.erase(0, 1);
    const char* same = name == "alpha"   ? "\\p{Alphabetic}"
                       : name == "digit" ? "\\p{Nd}"
                       : name == "space" ? "\\p{White_Space}"
                       : name == "upper" ? "\\p{Uppercase}"
                       : name == "lower" ? "\\p{Lowercase}"
                       : name == "alnum" ? "\\p{Alphabetic}\\p{Nd}"
                       : name == "punct"
                           ? "\\p{P}\\p{S}"  // Oniguruma counts symbols in, but not in \p{Punct}
                           : nullptr;
    if (!same) refuse("the class [:" + printable(name, 30) + ":]");
    out_ += std::string(negated ? "[^" : "[") + same + "]";
    at_ = end + 2;
  }

  struct Group {
    size_t begin;
    bool dot_all;
  };
  const std::string& in_;
  const JsonItem& item_;
  std::string out_;
  size_t at_ = 0, atom_ = 0;
  bool has_atom_ = false, dot_all_ = false;
  std::vector<Group> groups_;
  int depth_ = 0;
};

}  // namespace

std::string translate_regex(const std::string& pattern, const JsonItem& item) {
  return Translator(pattern, item).run();
}

}  // namespace slotscope::formats
