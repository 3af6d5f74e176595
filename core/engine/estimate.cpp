// What a run will need, before it starts (spec: bad-inputs B40).
#include <algorithm>

#include "core/engine/loaded_model.h"
#include "core/error.h"

namespace slotscope::engine {
namespace {

constexpr int64_t kMiB = int64_t(1) << 20;

std::string mib(int64_t bytes) { return std::to_string((bytes + kMiB - 1) / kMiB) + " MiB"; }

// Bytes of captured rows that one segment keeps on the device until it is done.
int64_t capture_bytes(const trace::RunSpec& spec, int64_t segment) {
  int64_t total = 0;
  for (const trace::DatasetSpec& d : spec.datasets) {
    int64_t row = int64_t(trace::element_size(d.type));
    for (const int64_t n : d.shape) row *= n;
    total += row * (d.growing ? std::min(segment, std::max<int64_t>(1, d.expected_rows)) : 1);
  }
  return total;
}

}  // namespace

int64_t LoadedModel::generate_limit(const formats::Prompt& prompt, const RunOptions& options) const {
  if (options.stop_after >= 0) return 0;
  if (options.generate >= 0) return options.generate;
  if (!prompt.has_answer) return 0;
  return prompt.generate >= 0 ? prompt.generate : int64_t(prompt.answer_ids.size()) + 1;
}

int64_t LoadedModel::default_segment() const {
  const int64_t per_layer =
      std::max<int64_t>(1, info_.parameters / std::max<int64_t>(1, int64_t(lm_->blocks.size())));
  // Multiplications per layer and segment that take about a tenth of a second on a slow machine of the kind.
  const bool cpu = lm_->numerics.device.is_cpu();
  const int64_t budget = cpu ? int64_t(1'000'000'000) : int64_t(500'000'000'000);
  return std::clamp<int64_t>(budget / per_layer, 16, cpu ? 512 : 4096);
}

int64_t LoadedModel::memory_bytes(const std::vector<RunCapture>& runs, int64_t segment) const {
  const int64_t element = int64_t(at::elementSize(lm_->numerics.exact));
  int64_t worst = 0;
  for (const RunCapture& run : runs) {
    const int64_t tokens = std::min(segment, run.planned), before = run.planned - tokens;
    int64_t states = 0, layer = 0;
    for (const Block& block : lm_->blocks) {
      states += block.mixer->state_bytes(run.planned);
      const int64_t mlp = tokens * (3 * block.mlp.width() + 6 * info_.hidden_size) * element;
      layer = std::max(layer, std::max(mlp, block.mixer->work_bytes(tokens, before)));
    }
    const int64_t logits = (run.logits >= 0 ? 2 * tokens : 2) * shape_.vocab * element;
    worst = std::max(worst, states + layer + logits + capture_bytes(run.spec, tokens) +
                                3 * tokens * info_.hidden_size * element);
  }
  return lm_->weight_bytes() + worst;
}

int64_t LoadedModel::available_bytes(const RunOptions& options) const {
  const at::Device& device = lm_->numerics.device;
  // The weights are loaded already: what they hold counts as available to the run that uses them.
  int64_t bytes = (device.is_cpu() ? free_host_bytes() : free_device_bytes(device)) + lm_->weight_bytes();
  if (!device.is_cpu() && options.max_gpu_mem > 0)
    bytes = std::min(bytes, int64_t(options.max_gpu_mem * 1024) * kMiB);
  return bytes;
}

Estimate LoadedModel::estimate(const std::vector<formats::Prompt>& prompts, const RunOptions& options) const {
  Estimate e;
  std::vector<std::string> notes;
  std::vector<RunCapture> runs;
  int64_t tokens = 0;
  for (const formats::Prompt& prompt : prompts) {
    runs.push_back(plan_run(shape_, prompt, options, generate_limit(prompt, options), notes));
    e.file_bytes += planned_bytes(runs.back().spec);
    tokens += runs.back().planned;
  }
  const int64_t segment = options.segment > 0 ? options.segment : default_segment();
  e.memory_bytes = memory_bytes(runs, segment);
  e.available_bytes = available_bytes(options);
  // About 20 G multiplications a second on two cores: the order of magnitude, for the choice between waiting
  // and not.
  if (lm_->numerics.device.is_cpu()) e.seconds = double(tokens) * double(info_.parameters) / 20e9;
  e.fits = e.memory_bytes <= e.available_bytes;
  if (e.fits) return e;
  for (int64_t smaller = segment / 2; smaller >= 1; smaller /= 2) {
    const int64_t bytes = memory_bytes(runs, smaller);
    if (bytes > e.available_bytes) continue;
    e.advice = "--segment " + std::to_string(smaller) + " needs " + mib(bytes);
    return e;
  }
  e.advice = lm_->numerics.device.is_cpu() ? "Capture fewer fields or use a shorter prompt"
                                           : "Use --device cpu, or a shorter prompt";
  return e;
}

void LoadedModel::check_request(const std::vector<formats::Prompt>& prompts,
                                const RunOptions& options) const {
  const auto refuse = [](std::string item, std::string found, std::string expected) {
    throw Error({.item = std::move(item), .found = std::move(found), .expected = std::move(expected)},
                Error::Kind::usage);
  };
  if (prompts.empty()) refuse("prompts", "none", "at least one prompt");
  const int layers = int(lm_->blocks.size());
  if (options.stop_after >= layers)
    refuse("--stop-after", std::to_string(options.stop_after),
           "a layer from 0 to " + std::to_string(layers - 1));
  if (options.stop_after >= 0 && options.generate > 0)
    refuse("--generate", "with --stop-after", "only one of them: generating needs the logits");
  if (options.segment < 0) refuse("--segment", std::to_string(options.segment), "1 or more tokens");
  if (!(options.temperature >= 0))
    refuse("--temperature", std::to_string(options.temperature), "0 (greedy) or more");
  if (!(options.top_p > 0 && options.top_p <= 1))
    refuse("--top-p", std::to_string(options.top_p), "more than 0, at most 1");
  if (options.plan.store != "float32" && options.plan.store != "float16")
    refuse("--store", options.plan.store, "float32 or float16");
  for (size_t i = 0; i < prompts.size(); ++i) {
    const formats::Prompt& prompt = prompts[i];
    const std::string item = prompts.size() == 1 ? "prompt" : "prompt " + std::to_string(i);
    if (prompt.ids.empty())
      throw Error({.item = item, .found = "no tokens", .expected = "at least one token"});
    for (size_t t = 0; t < prompt.ids.size(); ++t)
      if (prompt.ids[t] < 0 || prompt.ids[t] >= shape_.vocab)
        throw Error({.item = item + ", token " + std::to_string(t),
                     .found = "id " + std::to_string(prompt.ids[t]),
                     .expected = "0 to " + std::to_string(shape_.vocab - 1) + " (the embedding has " +
                                 std::to_string(shape_.vocab) + " rows)"});
    if (!prompt.roles.empty() && prompt.roles.size() != prompt.ids.size())
      throw Error({.item = item,
                   .found = std::to_string(prompt.roles.size()) + " roles",
                   .expected = std::to_string(prompt.ids.size())});
  }
}

}  // namespace slotscope::engine
