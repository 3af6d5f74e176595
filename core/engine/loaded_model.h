// The implementation of engine::Model, spread over session.cpp (load), estimate.cpp and run.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/engine/capture/plan.h"
#include "core/engine/model/causal_lm.h"
#include "core/engine/session.h"

namespace slotscope::engine {

class LoadedModel final : public Model {
 public:
  const ModelInfo& info() const override { return info_; }
  const LoadOptions& options() const override { return options_; }
  Estimate estimate(const std::vector<formats::Prompt>& prompts, const RunOptions& options) const override;
  RunOutcome run(const std::vector<formats::Prompt>& prompts, const formats::Tokenizer* tokenizer,
                 const RunOptions& options, trace::Sink& sink, Progress& progress) override;

  // Tokens to generate at most for this prompt.
  int64_t generate_limit(const formats::Prompt& prompt, const RunOptions& options) const;
  // Tokens per segment when the options leave it open: a cancel is answered after one layer of one segment,
  // so that is what must stay well under a second.
  int64_t default_segment() const;
  // Bytes on the run's device with segments of `segment` tokens, weights included.
  int64_t memory_bytes(const std::vector<RunCapture>& runs, int64_t segment) const;
  int64_t available_bytes(const RunOptions& options) const;
  // Throws Error for prompts and options that cannot run.
  void check_request(const std::vector<formats::Prompt>& prompts, const RunOptions& options) const;
  trace::ModelSpec model_spec() const;

  std::shared_ptr<const formats::Checkpoint> checkpoint_;
  LoadOptions options_;
  ModelInfo info_;
  std::unique_ptr<CausalLM> lm_;
  ModelShape shape_;
  std::string device_text_;   // "cpu", "cuda:0 NVIDIA H200"
  std::vector<int32_t> eos_;  // eos_token_id of config.json: one, several or none
};

// Bytes that this process may still use: host memory within the limits of its control group, or the device's
// free memory.
int64_t free_host_bytes();
int64_t free_device_bytes(const at::Device& device);

}  // namespace slotscope::engine
