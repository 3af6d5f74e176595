// One value of tokenizer.json with its place in the file, so that every refusal names it:
// "pre_tokenizer.pretokenizers[0].pattern".
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace slotscope::formats {

class JsonItem {
 public:
  JsonItem(const nlohmann::json& value, const std::string& file, std::string path = "")
      : value_(&value), file_(&file), path_(std::move(path)) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& file() const { return *file_; }
  const std::string& path() const { return path_; }

  [[noreturn]] void refuse(std::string found, std::string expected) const;
  [[noreturn]] void refuse(const char* key, std::string found, std::string expected) const;
  std::string shown() const;  // the value, short, for messages

  // Null counts as missing everywhere.
  std::optional<JsonItem> find(const char* key) const;
  JsonItem at(const char* key, const char* expected) const;  // refuses when it is missing
  JsonItem operator[](size_t i) const;                       // an entry of a list

  std::string type() const;  // "type" of an object; "no type" and the JSON type otherwise
  size_t list_size(const char* expected = "a list") const;
  std::string text() const;
  std::string text(const char* key) const { return at(key, "text").text(); }
  bool flag() const;
  bool flag(const char* key) const { return at(key, "true or false").flag(); }
  bool flag(const char* key, bool fallback) const;
  int32_t id() const;                              // a token id: 0 to 2147483646
  int64_t whole(int64_t low, int64_t high) const;  // a whole number
  double number() const;
  uint32_t character() const;  // text of exactly one character

 private:
  std::string place(const char* key) const { return path_.empty() ? key : path_ + "." + key; }
  const nlohmann::json* value_;
  const std::string* file_;
  std::string path_;
};

}  // namespace slotscope::formats
