#include "core/formats/json.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "core/error.h"
#include "core/formats/mapped_file.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

using nlohmann::json;

std::string key_path(const std::vector<std::string>& keys, const std::string& last) {
  std::string path;
  for (const auto& key : keys)
    if (!key.empty()) path += printable(key) + ".";
  return path + printable(last);
}

// Builds the document; nlohmann's own builder keeps the last of doubled keys silently and knows no depth
// limit.
class Builder : public nlohmann::json_sax<json> {
 public:
  Builder(const JsonOptions& options, const std::vector<std::pair<size_t, double>>& nonfinite)
      : options_(options), nonfinite_(nonfinite) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool v) override { return add(v); }
  bool number_integer(number_integer_t v) override { return add(v); }
  bool number_unsigned(number_unsigned_t v) override { return add(v); }
  bool number_float(number_float_t v, const string_t&) override { return add(v); }
  bool binary(binary_t&) override { return false; }
  bool string(string_t& v) override {
    const size_t ordinal = strings_++;
    if (next_ < nonfinite_.size() && nonfinite_[next_].first == ordinal)
      return add(nonfinite_[next_++].second);
    return add(std::move(v));
  }
  bool key(string_t& v) override {
    ++strings_;
    if (stack_.back()->contains(v)) {
      const std::string text = "key '" + key_path(path_, v) + "' appears twice";
      if (options_.refuse_duplicates) return fail(text, "each key once", "");
      duplicates.push_back(text);
    }
    key_ = v;
    return true;
  }
  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    std::string reason = e.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..." -> from "syntax
    // error"
    for (const char* mark : {": syntax error ", "syntax error "})
      if (const auto at = reason.find(mark); at != std::string::npos) {
        reason = reason.substr(at + std::string_view(mark).size());
        break;
      }
    return fail("not valid JSON at byte " + std::to_string(position ? position - 1 : 0) + ": " +
                    printable(reason, 200),
                "", "");
  }

  json root;
  std::vector<std::string> duplicates;
  ErrorParts error;

 private:
  bool fail(std::string found, std::string expected, std::string advice) {
    error = {options_.file, "", std::move(found), std::move(expected), std::move(advice)};
    return false;
  }
  template <class V>
  bool add(V&& v) {
    place(json(std::forward<V>(v)));
    return true;
  }
  json* place(json v) {
    if (stack_.empty()) {
      root = std::move(v);
      return &root;
    }
    json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    json& child = parent[key_];
    child = std::move(v);
    return &child;
  }
  bool open(json container) {
    if (int(stack_.size()) >= options_.depth_limit)
      return fail("JSON nested deeper than " + std::to_string(options_.depth_limit) + " levels",
                  "a document of ordinary depth", "");
    path_.push_back(stack_.empty() || stack_.back()->is_array() ? std::string() : key_);
    stack_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    stack_.pop_back();
    path_.pop_back();
    return true;
  }

  const JsonOptions& options_;
  const std::vector<std::pair<size_t, double>>& nonfinite_;
  size_t strings_ = 0, next_ = 0;
  std::vector<json*> stack_;  // parents do not move while a child is being filled
  std::vector<std::string> path_;
  std::string key_;
};

// End of the string literal that starts at `at` (a quote), one behind its closing quote.
size_t string_end(std::string_view text, size_t at) {
  for (size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      return i + 1;
  }
  return text.size();
}

bool is_number_char(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

}  // namespace

std::string replace_nonfinite(std::string_view text, std::vector<std::pair<size_t, double>>& values) {
  std::string out(text);
  size_t strings = 0;
  const auto put = [&](size_t at, size_t length, double value) {
    std::fill(out.begin() + long(at), out.begin() + long(at + length), ' ');
    out[at] = out[at + 1] = '"';
    values.emplace_back(strings++, value);
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    if (text[i] == '"') {
      i = string_end(text, i);
      ++strings;
    } else if (rest.starts_with("Infinity")) {
      put(i, 8, infinity), i += 8;
    } else if (rest.starts_with("-Infinity")) {
      put(i, 9, -infinity), i += 9;
    } else if (rest.starts_with("NaN")) {
      put(i, 3, std::numeric_limits<double>::quiet_NaN()), i += 3;
    } else if (is_number_char(text[i])) {
      size_t end = i;
      while (end < text.size() && is_number_char(text[end])) ++end;
      double value = 0;
      const auto parsed = std::from_chars(text.data() + i, text.data() + end, value);
      // from_chars reports under- and overflow alike: only a positive exponent (or hundreds of digits)
      // overflows.
      if (parsed.ec == std::errc::result_out_of_range && parsed.ptr == text.data() + end &&
          std::isinf(std::strtod(std::string(text.substr(i, end - i)).c_str(), nullptr)))
        put(i, end - i, text[i] == '-' ? -infinity : infinity);
      i = end;
    } else {
      ++i;
    }
  }
  return out;
}

void require_utf8(std::string_view text, const std::string& file, const std::string& item) {
  const size_t at = first_invalid_utf8(text);
  if (at == kValidUtf8) return;
  char found[80];
  std::snprintf(found, sizeof found, "invalid UTF-8 at byte %zu (0x%02x)", at,
                static_cast<unsigned char>(text[at]));
  throw Error({file, item, found, "UTF-8 text", ""});
}

namespace {

json parse(std::string_view text, const JsonOptions& options, std::vector<std::string>* duplicates) {
  require_utf8(text, options.file, "");
  std::vector<std::pair<size_t, double>> nonfinite;
  std::string replaced;
  if (options.nonfinite) {
    replaced = replace_nonfinite(text, nonfinite);
    text = replaced;
  }
  Builder builder(options, nonfinite);
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    if (builder.error.found.empty()) builder.error = {options.file, "", "not valid JSON", "", ""};
    throw Error(builder.error);
  }
  if (duplicates) *duplicates = std::move(builder.duplicates);
  return std::move(builder.root);
}

}  // namespace

json parse_json(std::string_view text, const JsonOptions& options, std::vector<std::string>* duplicates) {
  try {
    return parse(text, options, duplicates);
  } catch (const Error& e) {
    if (!e.parts().advice.empty()) throw;
    ErrorParts parts = e.parts();
    parts.advice = "Correct the file there, or download it again.";
    throw Error(parts, e.kind());
  }
}

std::string read_text_file(const std::filesystem::path& path, uint64_t limit) {
  MappedFile file(path);
  if (file.size() > limit)
    throw Error({path.string(), "", "file has " + thousands(file.size()) + " bytes",
                 "at most " + thousands(limit), "Is this the right file?"});
  return file.read(0, file.size());
}

std::string thousands(uint64_t n) {
  std::string digits = std::to_string(n);
  for (int at = int(digits.size()) - 3; at > 0; at -= 3) digits.insert(size_t(at), ",");
  return digits;
}

}  // namespace slotscope::formats
