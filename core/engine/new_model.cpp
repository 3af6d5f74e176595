#include "core/engine/new_model.h"

#include <algorithm>

#include "core/engine/model/registry.h"
#include "core/error.h"
#include "core/formats/planned_checkpoint.h"

namespace slotscope::engine {
namespace {

bool same(const std::vector<formats::ExpectedTensor>& a, const std::vector<formats::ExpectedTensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.name == y.name && x.shape == y.shape; });
}

}  // namespace

NewModel plan_model(const std::string& config_text, const std::filesystem::path& folder, const std::string& flavour,
                    formats::DType dtype) {
  const formats::PlannedCheckpoint planned(config_text, folder);
  NewModel model;
  std::string type;
  model.tensors = read_family(planned, flavour, type)->tensors();
  // Read again as the folder will be: what the family finds then must be what it asked for.
  for (const formats::ExpectedTensor& tensor : model.tensors) model.dtypes.push_back(formats::stored_dtype(tensor, dtype));
  const formats::PlannedCheckpoint listed(planned, model.tensors, model.dtypes);
  model.bytes = listed.total_bytes();
  const auto family = read_model(listed, flavour, type);
  if (!same(family->tensors(), model.tensors))
    throw Error({.file = folder.string(), .item = "config.json", .found = "other tensors when they are there than before",
                 .expected = "one meaning", .advice = "Set every option of this family that its weights could decide"});
  model.info = describe_model(*family, type, listed);
  const formats::ModelConfig& c = family->config();
  model.random = {.model_type = type, .embedding = c.prefix + c.names.embedding, .layers = c.layers, .tied = c.tied};
  return model;
}

formats::WrittenCheckpoint write_random_model(const std::filesystem::path& folder, const NewModel& model, uint64_t seed,
                                              std::vector<std::pair<std::string, std::string>> texts,
                                              std::vector<std::filesystem::path> copies, const formats::CheckpointWriteOptions& options,
                                              Progress& progress) {
  formats::CheckpointContent content;
  std::vector<formats::RandomTensor> values;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const formats::ExpectedTensor& tensor = model.tensors[i];
    content.tensors.push_back(formats::tensor_to_write(tensor.name, model.dtypes[i], tensor.shape));
    values.emplace_back(seed, tensor.name, formats::initial_of(model.random, tensor));
  }
  content.read = [&](size_t index, uint64_t first, std::span<std::byte> out) {
    const uint64_t element = uint64_t(formats::dtype_bits(model.dtypes[index])) / 8;
    values[index].fill(model.dtypes[index], first / element, out.size() / element, out.data());
  };
  content.texts = std::move(texts);
  content.texts.emplace(content.texts.begin(), "config.json", model.info.config_json);
  content.copies = std::move(copies);
  return formats::write_checkpoint(folder, content, options, progress);
}

std::vector<std::string> model_types() {
  std::vector<std::string> list;
  for (const Family& family : families()) list.push_back(family.model_type);
  return list;
}

}  // namespace slotscope::engine
