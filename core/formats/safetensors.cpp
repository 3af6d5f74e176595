#include "core/formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <tuple>
#include <unordered_set>

#include "core/error.h"
#include "core/formats/config.h"
#include "core/formats/json.h"
#include "core/formats/torch_file.h"
#include "core/formats/utf8.h"
#include "core/formats/weight_file.h"

namespace slotscope::formats {
namespace {

using nlohmann::json;

DType dtype_from(std::string_view text) {
  for (int d = 0; d < int(DType::unknown); ++d)
    if (dtype_name(DType(d)) == text) return DType(d);
  return DType::unknown;
}

// Bits per element of the format's kinds that have no place in DType: they are listed with their size, and never read.
int listed_bits(std::string_view text) {
  if (text == "F6_E2M3" || text == "F6_E3M2") return 6;
  return text == "F8_E4M3FNUZ" || text == "F8_E5M2FNUZ" ? 8 : 0;
}

std::string tensor_item(std::string_view name) { return "tensor '" + printable(name) + "'"; }

// Fills the tensor list straight from the parser's events: a document tree of a 100 MB header would need
// gigabytes.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}

  std::vector<TensorInfo> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;
  ErrorParts error;
  bool has_metadata = false;

  bool null() override { return scalar("null"); }
  bool boolean(bool v) override { return scalar(v ? "true" : "false"); }
  bool number_integer(number_integer_t v) override { return scalar(std::to_string(v)); }
  bool number_unsigned(number_unsigned_t v) override {
    if (place_ == Place::shape || place_ == Place::offsets) return whole_number(v);
    return scalar(std::to_string(v));
  }
  bool number_float(number_float_t, const string_t& text) override { return scalar(text); }
  bool binary(binary_t&) override { return false; }

  bool string(string_t& v) override {
    if (place_ == Place::metadata) {
      metadata.emplace_back(key_, v);
      return true;
    }
    if (place_ == Place::tensor && key_ == "dtype") {
      current_.dtype_text = v;
      current_.dtype = dtype_from(v);
      has_dtype_ = true;
      return true;
    }
    return scalar("'" + printable(v, 40) + "'");
  }

  bool key(string_t& v) override {
    switch (place_) {
      case Place::top:
        if (v == "__metadata__") {
          if (has_metadata) return fail("__metadata__", "appears twice in the header", "one entry");
          has_metadata = true;
        }
        break;
      case Place::tensor:
        if (std::find(keys_.begin(), keys_.end(), v) != keys_.end())
          return fail(tensor_item(current_.name), "'" + printable(v) + "' appears twice in its entry",
                      "each key once");
        if (keys_.size() >= 64)
          return fail(tensor_item(current_.name), "more than 64 keys", "dtype, shape, data_offsets");
        keys_.push_back(v);
        break;
      case Place::metadata:
        if (!metadata_keys_.insert(v).second)
          return fail("__metadata__", "key '" + printable(v) + "' appears twice", "each key once");
        break;
      default:
        break;
    }
    key_ = v;
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::start) return enter(Place::top);
    if (place_ == Place::top && key_ == "__metadata__") return enter(Place::metadata);
    if (place_ == Place::top) {
      current_ = {};
      current_.name = key_;
      keys_.clear();
      has_dtype_ = has_shape_ = false;
      offsets_.clear();
      return enter(Place::tensor);
    }
    return nested("an object");
  }
  bool end_object() override {
    if (place_ == Place::ignored) return leave_ignored();
    if (place_ == Place::tensor && !finish_tensor()) return false;
    place_ = place_ == Place::top ? Place::end : Place::top;
    return true;
  }
  bool start_array(size_t) override {
    if (place_ == Place::tensor && key_ == "shape") {
      has_shape_ = true;
      return enter(Place::shape);
    }
    if (place_ == Place::tensor && key_ == "data_offsets") return enter(Place::offsets);
    return nested("a list");
  }
  bool end_array() override {
    if (place_ == Place::ignored) return leave_ignored();
    place_ = Place::tensor;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    std::string reason = e.what();
    if (const auto at = reason.rfind("syntax error "); at != std::string::npos)
      reason = reason.substr(at + 13);
    return fail("header",
                "not valid JSON at header byte " + std::to_string(position ? position - 1 : 0) + ": " +
                    printable(reason, 160),
                "a JSON object");
  }

 private:
  enum class Place { start, top, tensor, shape, offsets, metadata, ignored, end };

  bool enter(Place place) {
    place_ = place;
    return true;
  }
  bool fail(std::string item, std::string found, std::string expected) {
    error = {file_, std::move(item), std::move(found), std::move(expected), ""};
    return false;
  }
  // An array or object where none belongs. Unknown keys of an entry may hold anything, as in the reference.
  bool nested(const char* what) {
    if (place_ == Place::ignored || (place_ == Place::tensor && !is_field(key_))) {
      if (++ignored_depth_ > kJsonDepthLimit)
        return fail("header", "JSON nested deeper than " + std::to_string(kJsonDepthLimit) + " levels",
                    "three levels");
      return enter(Place::ignored);
    }
    return scalar(what);
  }
  bool leave_ignored() {
    if (--ignored_depth_ == 0) place_ = Place::tensor;
    return true;
  }
  static bool is_field(const std::string& key) {
    return key == "dtype" || key == "shape" || key == "data_offsets";
  }

  // A value of the wrong kind for its place, or one that does not matter.
  bool scalar(const std::string& found) {
    switch (place_) {
      case Place::start:
        return fail("header", found, "a JSON object");
      case Place::top:
        if (key_ != "__metadata__")
          return fail(tensor_item(key_), found, "an object with dtype, shape and data_offsets");
        return found == "null" || fail("__metadata__", found, "an object of texts");
      case Place::metadata:
        return fail("__metadata__", "metadata value '" + printable(key_) + "' must be text, but is " + found,
                    "text");
      case Place::tensor:
        if (!is_field(key_)) return true;
        return fail(tensor_item(current_.name), key_ + " is " + found,
                    key_ == "dtype" ? "text such as \"F32\"" : "a list of whole numbers");
      case Place::shape:
        return fail(tensor_item(current_.name), "shape holds " + found,
                    "whole numbers from 0 to 9223372036854775807");
      case Place::offsets:
        return fail(tensor_item(current_.name), "data_offsets holds " + found,
                    "two whole numbers, not negative");
      default:
        return true;
    }
  }
  bool whole_number(uint64_t v) {
    if (place_ == Place::offsets) {
      if (offsets_.size() == 2)
        return fail(tensor_item(current_.name), "data_offsets holds more than two numbers", "two");
      offsets_.push_back(v);
      return true;
    }
    if (v > uint64_t(std::numeric_limits<int64_t>::max()))
      return fail(tensor_item(current_.name), "shape holds " + std::to_string(v),
                  "numbers up to 9223372036854775807");
    if (current_.shape.size() >= 64)
      return fail(tensor_item(current_.name), "shape has more than 64 axes", "at most 64");
    current_.shape.push_back(int64_t(v));
    return true;
  }

  bool finish_tensor() {
    const std::string item = tensor_item(current_.name);
    if (!has_dtype_) return fail(item, "no dtype", "dtype, shape and data_offsets");
    if (!has_shape_) return fail(item, "no shape", "dtype, shape and data_offsets");
    if (offsets_.size() != 2)
      return fail(item, "data_offsets holds " + std::to_string(offsets_.size()) + " numbers",
                  "two whole numbers");
    if (offsets_[1] < offsets_[0])
      return fail(item,
                  "data_offsets end " + std::to_string(offsets_[1]) + " is before their begin " +
                      std::to_string(offsets_[0]),
                  "begin <= end");
    current_.offset = offsets_[0];
    current_.bytes = offsets_[1] - offsets_[0];
    int bits = dtype_bits(current_.dtype);
    if (bits == 0) bits = listed_bits(current_.dtype_text);
    uint64_t bytes = 0;  // an unknown dtype is checked for overflow as if it had one byte per element
    const bool fits = tensor_bytes(current_.shape, bits ? bits : 8, bytes);
    if (!fits)
      return fail(item,
                  "shape " + shape_text(current_.shape) + " of " + printable(current_.dtype_text, 20) +
                      " is too large or no whole number of bytes",
                  "a size that fits the file");
    if (bits && bytes != current_.bytes)
      return fail(item,
                  "shape " + shape_text(current_.shape) + " of " + current_.dtype_text + " needs " +
                      std::to_string(bytes) + " bytes, data_offsets give " + std::to_string(current_.bytes),
                  "equal sizes");
    tensors.push_back(std::move(current_));
    return true;
  }

  const std::string& file_;
  Place place_ = Place::start;
  int ignored_depth_ = 0;
  std::string key_;
  TensorInfo current_;
  std::vector<std::string> keys_;
  std::unordered_set<std::string> metadata_keys_;
  std::vector<uint64_t> offsets_;
  bool has_dtype_ = false, has_shape_ = false;
};

// recognise_other_file, and torch.save files under a safetensors name: (found, advice), or empty.
std::pair<std::string, std::string> wrong_kind_of(std::string_view head) {
  if (looks_like_zip(head))
    return {"a torch zip file (torch.save) under a safetensors name",
            "Rename it to pytorch_model.bin, or convert it to safetensors."};
  if (head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
    return {"a pickle file (legacy torch.save)",
            "Rename it to pytorch_model.bin, or convert it to safetensors."};
  return recognise_other_file(head);
}

uint64_t header_length(const MappedFile& file, const std::string& head) {
  const std::string name = file.path().string(), size = "file has " + thousands(file.size()) + " bytes";
  if (file.size() == 0)
    throw Error({name, "", "the file is empty (0 bytes)", "a safetensors file", "Download it again."});
  if (file.size() < 8)
    throw Error(
        {name, "", "too short for a header length: " + size, "at least 8 bytes", "Download it again."});
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(head[size_t(i)]);
  if (length <= file.size() - 8 && length <= kMaxHeaderBytes) return length;
  // Only now: a good header may begin with any length, and so with any of these bytes.
  const auto kind = wrong_kind_of(head);
  if (!kind.first.empty())
    throw Error({name, "", kind.first + " (" + size + ")", "a safetensors file", kind.second});
  if (length > kMaxHeaderBytes)
    throw Error({name, "",
                 "header length " + std::to_string(length) + " is over the " + thousands(kMaxHeaderBytes) +
                     " byte limit (" + size + ")",
                 "a safetensors file", ""});
  throw Error(
      {name, "",
       "header needs " + std::to_string(length) + " bytes, file has " + std::to_string(file.size() - 8),
       "the whole header", "Incomplete download?"});
}

// Tensors must cover the data exactly: sorted by offset they start at 0, touch, and end at the file's end.
void check_layout(const MappedFile& file, std::vector<TensorInfo>& tensors, uint64_t data_begin) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  const std::string name = file.path().string();
  uint64_t end = 0;
  const TensorInfo* before = nullptr;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.offset < end)
      throw Error({name, tensor_item(tensor.name),
                   "overlap between '" + printable(before->name) + "' and '" + printable(tensor.name) + "'",
                   "data ranges that touch", ""});
    if (tensor.offset > end)
      throw Error(
          {name, tensor_item(tensor.name),
           std::to_string(tensor.offset - end) + " unused bytes before '" + printable(tensor.name) + "'",
           "data ranges that touch", ""});
    end = tensor.offset + tensor.bytes;  // begin <= end was checked: no wrap
    before = &tensor;
  }
  const uint64_t data = file.size() - data_begin;
  if (end > data) {
    // Promised total may exceed 2^64 only in theory: `end` is a number of the file, data_begin at most
    // 100,000,008.
    const std::string promised =
        end > UINT64_MAX - data_begin ? "over 2^64" : std::to_string(data_begin + end);
    const int percent = int(100.0 * double(file.size()) / (double(data_begin) + double(end)));
    throw Error({name, "",
                 "header promises " + promised + " bytes, file has " + std::to_string(file.size()) + " (" +
                     std::to_string(percent) + "%): incomplete download? The file is " +
                     std::to_string(end - data) + " bytes short",
                 "all data", "Download it again."});
  }
  if (end < data)
    throw Error({name, "", std::to_string(data - end) + " extra bytes at end",
                 "data that end with the last tensor", ""});
  for (TensorInfo& tensor : tensors) tensor.offset += data_begin;
}

// Names are unique. The list is sorted by offset, so a sorted view of pointers is compared.
void check_names(const std::string& file, const std::vector<TensorInfo>& tensors) {
  std::vector<const TensorInfo*> by_name;
  by_name.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) by_name.push_back(&tensor);
  std::sort(by_name.begin(), by_name.end(), [](auto* a, auto* b) { return a->name < b->name; });
  for (size_t i = 1; i < by_name.size(); ++i)
    if (by_name[i]->name == by_name[i - 1]->name)
      throw Error(
          {file, "", tensor_item(by_name[i]->name) + " appears twice in the header", "each name once", ""});
}

}  // namespace

bool tensor_bytes(const std::vector<int64_t>& shape, int bits, uint64_t& bytes) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    // 0 elements need no bytes, but the other numbers must still be possible ones.
    uint64_t product = 1;
    for (int64_t n : shape)
      if (n < 0 || (n && __builtin_mul_overflow(product, uint64_t(n), &product))) return false;
    bytes = 0;
    return true;
  }
  uint64_t product = uint64_t(bits);
  for (int64_t n : shape)
    if (n < 0 || __builtin_mul_overflow(product, uint64_t(n), &product) ||
        product > uint64_t(std::numeric_limits<int64_t>::max()))
      return false;
  if (product % 8) return false;
  bytes = product / 8;
  return true;
}

namespace {

SafetensorsHeader read_header(const MappedFile& file, int file_index) {
  static_assert(std::endian::native == std::endian::little, "safetensors data are little-endian");
  const std::string name = file.path().string();
  const uint64_t length = header_length(file, file.read(0, 64));
  std::string text = file.read(8, length);
  if (text.size() != length)
    throw Error({name, "header", "the file shrank while it was read", "the whole header", "Open it again."});
  text.resize(text.find_last_not_of(" \t\r\n") + 1);  // padding: up to 100 MB of it
  require_utf8(text, name, "header");
  HeaderReader reader(name);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) {
    if (reader.error.found.empty()) reader.error = {name, "header", "not valid JSON", "a JSON object", ""};
    throw Error(reader.error);
  }
  SafetensorsHeader header;
  header.tensors = std::move(reader.tensors);
  header.metadata = std::move(reader.metadata);
  check_names(name, header.tensors);
  check_layout(file, header.tensors, 8 + length);
  for (TensorInfo& tensor : header.tensors) tensor.file = file_index;
  return header;
}

}  // namespace

SafetensorsHeader read_safetensors_header(const MappedFile& file, int file_index) {
  try {
    return read_header(file, file_index);
  } catch (const Error& e) {
    // Most faults of a header leave the user the same two ways out.
    if (!e.parts().advice.empty()) throw;
    ErrorParts parts = e.parts();
    parts.advice = "The file is damaged, or its writer made a mistake: download it again, or save the model again.";
    throw Error(parts, e.kind());
  }
}

}  // namespace slotscope::formats
