// A checkpoint that is only a listing, for tests of what is shown of one: every field can be set, values come from a function.
#pragma once

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/formats/checkpoint.h"

namespace slotscope::testing {

class ListedCheckpoint : public formats::Checkpoint {
 public:
  std::filesystem::path place = "/models/listed";
  std::vector<std::filesystem::path> file_list = {"/models/listed/model.safetensors"};
  std::vector<formats::TensorInfo> tensor_list;
  std::vector<std::string> warning_list, note_list;
  std::vector<formats::IgnoredItem> ignored_list;
  std::vector<std::pair<std::string, std::string>> metadata_list;
  formats::FileFormat file_format = formats::FileFormat::safetensors;
  uint64_t sum = 0;
  std::function<formats::TensorData(const formats::TensorInfo&, uint64_t, uint64_t)> read;

  formats::TensorInfo& add(std::string name, std::vector<int64_t> shape, formats::DType dtype = formats::DType::f32) {
    formats::TensorInfo tensor;
    tensor.name = std::move(name);
    tensor.dtype = dtype;
    tensor.dtype_text = std::string(formats::dtype_name(dtype));
    uint64_t elements = 1;
    for (const int64_t axis : shape) elements *= uint64_t(axis);
    tensor.bytes = elements * uint64_t(formats::dtype_bits(dtype)) / 8;
    tensor.shape = std::move(shape);
    tensor.offset = sum;
    sum += tensor.bytes;
    tensor_list.push_back(std::move(tensor));
    return tensor_list.back();
  }
  // `name` on the storage of `first`, the same elements.
  formats::TensorInfo& tie(std::string name, const std::string& first) {
    formats::TensorInfo tensor = *find(first);
    if (tensor.storage < 0) const_cast<formats::TensorInfo*>(find(first))->storage = tensor.storage = int64_t(tensor.offset);
    tensor.name = std::move(name);
    tensor.shares_with = first;
    tensor_list.push_back(std::move(tensor));
    return tensor_list.back();
  }
  void sort() {
    std::sort(tensor_list.begin(), tensor_list.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  }

  const std::filesystem::path& folder() const override { return place; }
  const std::vector<std::filesystem::path>& files() const override { return file_list; }
  const std::vector<formats::TensorInfo>& tensors() const override { return tensor_list; }
  const formats::TensorInfo* find(std::string_view name) const override {
    for (const auto& tensor : tensor_list)
      if (tensor.name == name) return &tensor;
    return nullptr;
  }
  formats::TensorData slice(const formats::TensorInfo& tensor, uint64_t first, uint64_t count) const override {
    if (read) return read(tensor, first, count);
    const auto zeros = std::make_shared<std::vector<std::byte>>(count * uint64_t(formats::dtype_bits(tensor.dtype)) / 8);
    return {std::span<const std::byte>(*zeros), zeros};
  }
  const nlohmann::json* config() const override { return nullptr; }
  const std::string& config_text() const override { return text; }
  const std::vector<std::string>& warnings() const override { return warning_list; }
  const std::vector<std::string>& notes() const override { return note_list; }
  uint64_t total_bytes() const override { return sum; }
  formats::FileFormat format() const override { return file_format; }
  const std::vector<formats::IgnoredItem>& ignored() const override { return ignored_list; }
  const std::vector<std::pair<std::string, std::string>>& metadata() const override { return metadata_list; }

 private:
  std::string text;
};

}  // namespace slotscope::testing
