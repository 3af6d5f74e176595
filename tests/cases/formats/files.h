// Builds small checkpoints for the cases: safetensors bytes, index files, whole folders.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

// Equality of things that have no text form.
#define CHECK_SAME(a, b) CHECK((a) == (b))

namespace slotscope::testing {

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), std::streamsize(bytes.size()));
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path.string());
}

inline std::string le64(uint64_t n) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[size_t(i)] = char(n >> (8 * i) & 0xFF);
  return bytes;
}

template <class T>
std::string raw(std::initializer_list<T> values) {
  std::string bytes;
  for (T v : values) bytes.append(reinterpret_cast<const char*>(&v), sizeof v);
  return bytes;
}

// A safetensors file from header text and data; the header is padded with spaces to 8 bytes as writers do.
inline std::string safetensors(std::string header, std::string_view data = "") {
  header.append((8 - header.size() % 8) % 8, ' ');
  return le64(header.size()) + header + std::string(data);
}

inline std::string entry(std::string_view dtype, std::string_view shape, uint64_t begin, uint64_t end) {
  return "{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":" + std::string(shape) + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

// Tensors of F32 zeros (or of `fill`) with the given names and shapes, as one file.
struct Shape {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype = "F32";
};
inline std::string zeros_file(const std::vector<Shape>& tensors, float fill = 0) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& tensor : tensors) {
    uint64_t count = 1;
    for (int64_t n : tensor.shape) count *= uint64_t(n);
    const size_t width = tensor.dtype == "F32" ? 4 : tensor.dtype.starts_with("F8") ? 1 : 2;  // F8: of zeros only
    const uint64_t begin = data.size();
    for (uint64_t i = 0; i < count; ++i) {
      uint32_t bits;
      std::memcpy(&bits, &fill, 4);
      if (width < 4) bits >>= 16;
      data.append(reinterpret_cast<const char*>(&bits), width);
    }
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  return safetensors(header.dump(), data);
}

}  // namespace slotscope::testing
