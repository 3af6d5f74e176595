// Shared by the engine's suites: golden cases, small runs into memory, and checkpoints made on the fly.
#pragma once

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/engine/session.h"
#include "core/error.h"
#include "core/fields.h"
#include "core/formats/checkpoint.h"
#include "core/trace/sink.h"
#include "tests/cases/case.h"

namespace slotscope::testing {

// The tensors of a golden.safetensors as doubles.
class Golden {
 public:
  explicit Golden(const std::filesystem::path& file) : file_(formats::Checkpoint::open(file)) {}
  bool has(const std::string& name) const { return file_->find(name) != nullptr; }
  std::vector<int64_t> shape(const std::string& name) const { return file_->find(name)->shape; }
  std::vector<double> values(const std::string& name) const {
    const formats::TensorInfo* info = file_->find(name);
    if (!info) throw Error({.item = name, .found = "not in the golden file"});
    uint64_t count = 1;
    for (const int64_t n : info->shape) count *= uint64_t(n);
    return formats::read_values(*file_, *info, 0, count);
  }
  std::vector<int32_t> ids() const {
    std::vector<int32_t> ids;
    for (const double v : values("input_ids")) ids.push_back(int32_t(v));
    return ids;
  }

 private:
  std::shared_ptr<const formats::Checkpoint> file_;
};

inline std::unique_ptr<engine::Model> load_model(const std::filesystem::path& folder,
                                                 const std::string& dtype = "float32",
                                                 const std::string& device = "cpu",
                                                 const std::string& flavour = "",
                                                 const std::string& router_dtype = "float32") {
  Progress progress;
  return engine::Model::load(
      formats::Checkpoint::open(folder),
      {.device = device, .dtype = dtype, .router_dtype = router_dtype, .flavour = flavour}, progress);
}

struct Ran {
  trace::MemorySink sink;
  engine::RunOutcome outcome;
  std::vector<double> values(const std::string& path, int run = 0) const { return sink.values(run, path); }
  bool has(const std::string& path, int run = 0) const { return sink.find(run, path) >= 0; }
  const trace::LayerSpec& layer(int i, int run = 0) const { return sink.runs[size_t(run)].layers[size_t(i)]; }
};

inline engine::RunOptions capture(const std::string& fields, int64_t segment = 0) {
  engine::RunOptions options;
  if (!fields.empty()) options.plan.fields = expand_fields(fields);
  options.segment = segment;
  return options;
}

inline std::unique_ptr<Ran> run_prompts(engine::Model& model, const std::vector<formats::Prompt>& prompts,
                                        const engine::RunOptions& options,
                                        const formats::Tokenizer* tokenizer = nullptr) {
  auto ran = std::make_unique<Ran>();
  Progress progress;
  ran->outcome = model.run(prompts, tokenizer, options, ran->sink, progress);
  return ran;
}

inline formats::Prompt ids_prompt(std::vector<int32_t> ids) {
  formats::Prompt prompt;
  prompt.name = "ids";
  prompt.ids = std::move(ids);
  return prompt;
}

inline std::unique_ptr<Ran> run_ids(engine::Model& model, std::vector<int32_t> ids,
                                    const engine::RunOptions& options) {
  return run_prompts(model, {ids_prompt(std::move(ids))}, options);
}

// Ids that visit the vocabulary without a pattern.
inline std::vector<int32_t> some_ids(int64_t count, int64_t vocab, uint64_t seed = 1) {
  std::vector<int32_t> ids;
  uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;
  for (int64_t i = 0; i < count; ++i) {
    x = x * 6364136223846793005ull + 1442695040888963407ull;
    ids.push_back(int32_t((x >> 33) % uint64_t(vocab)));
  }
  return ids;
}

inline double worst(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return NAN;
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double error = std::abs(a[i] - b[i]);
    if (!(error <= most)) most = error;  // NaN sticks: no later comparison is true
    if (std::isnan(error)) return NAN;
  }
  return most;
}

inline double largest(const std::vector<double>& a) {
  double most = 0;
  for (const double x : a) most = std::max(most, std::abs(x));
  return most;
}

inline std::vector<std::string> golden_cases(const Context& t) {
  std::ifstream file(t.data("golden/models/manifest.json"));
  std::vector<std::string> names;
  for (const auto& entry : nlohmann::json::parse(file))
    if (const std::string name = entry.at("name"); name.starts_with("raven_")) names.push_back(name);
  return names;
}

// Scientific notation for tables of errors.
inline std::string sci(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", v);
  return text;
}

}  // namespace slotscope::testing
