#include "core/formats/tokenizer_item.h"

#include <cmath>

#include "core/formats/tokenizer_json.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {

using nlohmann::json;

void JsonItem::refuse(std::string found, std::string expected) const {
  refuse_tokenizer(*file_, path_, std::move(found), std::move(expected));
}

void JsonItem::refuse(const char* key, std::string found, std::string expected) const {
  refuse_tokenizer(*file_, place(key), std::move(found), std::move(expected));
}

std::string JsonItem::shown() const {
  if (value_->is_structured()) return value_->is_array() ? "a list" : "an object";
  return printable(value_->dump(-1, ' ', false, json::error_handler_t::replace), 60);
}

std::optional<JsonItem> JsonItem::find(const char* key) const {
  if (!value_->is_object()) return std::nullopt;
  const auto at = value_->find(key);
  if (at == value_->end() || at->is_null()) return std::nullopt;
  return JsonItem(*at, *file_, place(key));
}

JsonItem JsonItem::at(const char* key, const char* expected) const {
  if (!value_->is_object()) refuse(shown(), "an object");
  const auto found = find(key);
  if (!found) refuse(key, "missing", expected);
  return *found;
}

JsonItem JsonItem::operator[](size_t i) const {
  return JsonItem((*value_)[i], *file_, path_ + "[" + std::to_string(i) + "]");
}

std::string JsonItem::type() const {
  if (!value_->is_object()) return value_->type_name();
  const auto type = find("type");
  return type && type->value().is_string() ? printable(type->value().get<std::string>(), 40) : "no type";
}

size_t JsonItem::list_size(const char* expected) const {
  if (!value_->is_array()) refuse(shown(), expected);
  return value_->size();
}

std::string JsonItem::text() const {
  if (!value_->is_string()) refuse(shown(), "text");
  auto text = value_->get<std::string>();
  if (first_invalid_utf8(text) != kValidUtf8) refuse("invalid UTF-8", "text in UTF-8");
  return text;
}

bool JsonItem::flag() const {
  if (!value_->is_boolean()) refuse(shown(), "true or false");
  return value_->get<bool>();
}

bool JsonItem::flag(const char* key, bool fallback) const {
  const auto found = find(key);
  return found ? found->flag() : fallback;
}

int32_t JsonItem::id() const {
  if (!value_->is_number_integer() || *value_ < 0 || *value_ > 0x7FFFFFFE)
    refuse(shown(), "a whole number below 2147483647");
  return value_->get<int32_t>();
}

int64_t JsonItem::whole(int64_t low, int64_t high) const {
  if (!value_->is_number_integer() || *value_ < low || *value_ > high)
    refuse(shown(), "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  return value_->get<int64_t>();
}

double JsonItem::number() const {
  if (!value_->is_number() || !std::isfinite(value_->get<double>())) refuse(shown(), "a finite number");
  return value_->get<double>();
}

uint32_t JsonItem::character() const {
  const std::string one = text();
  size_t at = 0;
  const uint32_t c = one.empty() ? 0 : next_code_point(one, at);
  if (one.empty() || at != one.size()) refuse(shown(), "exactly one character");
  return c;
}

}  // namespace slotscope::formats
