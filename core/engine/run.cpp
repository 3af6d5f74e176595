// One run: prompts in order, segments with carried state, generation from the state, everything to the sink.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "core/engine/capture/recorder.h"
#include "core/engine/cuda_stream.h"
#include "core/engine/loaded_model.h"
#include "core/engine/sampler.h"
#include "core/error.h"
#include "core/formats/vocabulary_rows.h"

namespace slotscope::engine {
namespace {

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), text.data(), bytes.size());
  return bytes;
}

std::string join(const std::vector<std::string>& list) {
  std::string text;
  for (const auto& item : list) text += (text.empty() ? "" : ",") + item;
  return text;
}

std::string join(const std::vector<int>& list) {
  std::string text;
  for (const int item : list) text += (text.empty() ? "" : ",") + std::to_string(item);
  return text;
}

// Everything that is needed to repeat the run, next to the prompt's own parameters.
trace::Attributes settings(const RunOptions& o, int64_t generate, int64_t segment) {
  std::string tokens;
  for (const auto& [begin, end] : o.plan.tokens)
    tokens += (tokens.empty() ? "" : ",") + std::to_string(begin) + ":" + std::to_string(end);
  return {{"unused_rows", int64_t(o.unused_rows)},
          {"capture", join(o.plan.fields)},
          {"capture_layers", join(o.plan.layers)},
          {"capture_heads", join(o.plan.heads)},
          {"capture_tokens", tokens},
          {"read_at", o.plan.read_at},
          {"state_at", o.plan.state_at},
          {"store", o.plan.store},
          {"segment", segment},
          {"stop_after", int64_t(o.stop_after)},
          {"generate", generate},
          {"temperature", o.temperature},
          {"top_p", o.top_p},
          {"sampling_seed", std::to_string(o.seed)}};
}

struct Cancelled {};

// One token of a small model is done before a second thread has woken up, and threads that wait for each
// other at every operation are slow on a busy machine.
class SingleThread {
 public:
  explicit SingleThread(bool on) : before_(on ? at::get_num_threads() : 0) {
    if (before_ > 1) at::set_num_threads(1);
  }
  ~SingleThread() {
    if (before_ > 1) at::set_num_threads(before_);
  }
  SingleThread(const SingleThread&) = delete;

 private:
  int before_;
};
constexpr int64_t kSmallModel = 20'000'000;  // parameters

class PromptRun {
 public:
  PromptRun(const LoadedModel& model, const formats::Prompt& prompt, const formats::Tokenizer* tokenizer,
            const RunOptions& options, const RunCapture& capture, int run, int64_t segment, trace::Sink& sink,
            Progress& progress, std::string label)
      : model_(model),
        lm_(*model.lm_),
        prompt_(prompt),
        tokenizer_(tokenizer),
        options_(options),
        capture_(capture),
        run_(run),
        segment_(segment),
        sink_(sink),
        progress_(progress),
        label_(std::move(label)),
        recorder_(capture, model.shape_, run, sink, lm_.numerics.device),
        states_(lm_.initial_state(1)),
        limit_(model.generate_limit(prompt, options)),
        random_(options.seed + uint64_t(run)) {
    for (const Block& block : lm_.blocks) mixers_.push_back(block.mixer.get());
    last_block_ = options.stop_after >= 0 ? options.stop_after : int(lm_.blocks.size()) - 1;
  }

  // Throws Cancelled; what is in the sink then ends with a whole segment.
  void feed_prompt() {
    const int64_t total = int64_t(prompt_.ids.size());
    at::Tensor last;
    while (fed_ < total) {
      const int64_t count = std::min({segment_, total - fed_, next_state_cut() - fed_});
      const std::vector<int32_t> ids(prompt_.ids.begin() + fed_, prompt_.ids.begin() + fed_ + count);
      last = feed(ids, false);
    }
    if (last.defined()) next_logits_ = row_of(last);
  }

  void generate() {
    const SingleThread threads(lm_.numerics.device.is_cpu() && model_.info_.parameters < kSmallModel);
    const std::vector<bool> known = choosable();
    int64_t steps = 0, listed = 0, best = 0;
    while (int64_t(result.output_ids.size()) < limit_) {
      if (progress_.cancel_requested()) throw Cancelled{};
      const SampledToken token =
          sample(next_logits_, known, {options_.temperature, options_.top_p, options_.candidates}, random_);
      if (!token.finite) {
        notes.push_back(label_ + "generation stopped after " + std::to_string(result.output_ids.size()) +
                        " tokens: the logits are not finite");
        break;
      }
      emit(token);
      ++steps, listed += token.passed_over > 0, best += token.best_passed_over;
      progress_.add(1);
      const bool eos = std::find(model_.eos_.begin(), model_.eos_.end(), token.id) != model_.eos_.end();
      if (eos || int64_t(result.output_ids.size()) == limit_) break;
      next_logits_ = row_of(feed({token.id}, true));
    }
    if (listed > 0)
      notes.push_back(label_ + "rows without a token would have been among the candidates in " + std::to_string(listed) + " of " +
                      std::to_string(steps) + " generated tokens, the best in " + std::to_string(best) +
                      ": left out (--unused-rows lets them be chosen)");
  }

  // Rows that may be generated: those with a token, and what the model itself ends with. Empty: all.
  std::vector<bool> choosable() const {
    if (!tokenizer_ || options_.unused_rows) return {};
    std::vector<bool> known = formats::rows_with_token(*tokenizer_, model_.shape_.vocab);
    for (const auto id : model_.eos_)
      if (id >= 0 && size_t(id) < known.size()) known[size_t(id)] = true;
    return known;
  }

  // Spans, exactness, states after the last token, counters. `complete`: not cancelled.
  void close(bool complete) {
    if (capture_.state_end && fed_ > 0) {
      recorder_.begin_segment(fed_, 0, false);
      recorder_.states(fed_ - 1, states_, mixers_);
      recorder_.end_segment();
    }
    recorder_.write_counters(mixers_);
    if (limit_ > 0) {
      std::vector<Span> spans = capture_.spec.spans;
      for (Span& span : spans)
        if (span.name == "answer" && span.begin == prompt_tokens())
          span.end = prompt_tokens() + answer_tokens_fed();
      sink_.set_spans(run_, spans);
    }
    if (complete && prompt_.has_answer && limit_ > 0) {
      result.exact = is_exact();
      sink_.set_exact(run_, *result.exact);
    }
    result.tokens = fed_;
    ties = recorder_.ties();
  }

  RunOutcome::PerRun result;
  int64_t ties = 0;
  std::vector<std::string> warnings, notes;

 private:
  int64_t prompt_tokens() const { return int64_t(prompt_.ids.size()); }

  int64_t answer_tokens_fed() const {
    const int64_t generated = std::max<int64_t>(0, fed_ - prompt_tokens());
    return prompt_.has_answer ? std::min(generated, int64_t(prompt_.answer_ids.size())) : generated;
  }

  // A segment ends behind every token whose state is wanted.
  int64_t next_state_cut() const {
    for (const int64_t at : capture_.state_at)
      if (at >= fed_) return at + 1;
    return INT64_MAX;
  }

  // Runs one segment. Returns the residual of its last token, undefined when the run stops before the logits.
  at::Tensor feed(const std::vector<int32_t>& ids, bool answer) {
    const int64_t count = int64_t(ids.size());
    const int layers = last_block_ + 1;
    const std::vector<MixerState> before = states_;
    recorder_.begin_segment(fed_, count, answer);
    const at::Tensor tokens = at::tensor(std::vector<int64_t>(ids.begin(), ids.end()), at::kLong)
                                  .unsqueeze(0)
                                  .to(lm_.numerics.device);
    const at::Tensor x = lm_.forward(tokens, states_, recorder_, last_block_, [&](int layer) {
      if (progress_.cancel_requested()) return false;
      if (!answer)
        progress_.set_detail(label_ + "layer " + std::to_string(layer + 1) + " of " + std::to_string(layers));
      return true;
    });
    if (!x.defined()) {
      states_ = before;  // forward() replaced the states of the layers it reached
      throw Cancelled{};
    }
    check_finite(x);
    at::Tensor last;
    if (options_.stop_after < 0) {
      if (recorder_.wants_logits()) recorder_.logits(lm_.logits(x));
      last = x.select(1, count - 1);
    }
    if (std::binary_search(capture_.state_at.begin(), capture_.state_at.end(), fed_ + count - 1))
      recorder_.states(fed_ + count - 1, states_, mixers_);
    append_tokens(ids, answer);
    recorder_.end_segment();
    fed_ += count;
    sink_.tokens_done(run_, fed_);
    // Counters are rewritten now and then, so that a run that dies leaves some; the final ones are written by
    // close().
    if (!answer && ++segments_ % 16 == 0) recorder_.write_counters(mixers_);
    if (!answer) progress_.add(count);
    return last;
  }

  std::vector<double> row_of(const at::Tensor& x) const {
    const at::Tensor row = lm_.logits(x).flatten().to(at::kCPU, at::kDouble).contiguous();
    return {row.const_data_ptr<double>(), row.const_data_ptr<double>() + row.numel()};
  }

  void check_finite(const at::Tensor& x) {
    if (not_finite_) return;
    const at::Tensor good = at::isfinite(x[0]).all(-1);
    if (good.all().item<bool>()) return;
    not_finite_ = true;
    const int64_t row = (~good).to(at::kInt).argmax().item<int64_t>();
    warnings.push_back(label_ + "values that are not finite (NaN or infinity) from token " +
                       std::to_string(fed_ + row) + " on: the weights or the dtype may be wrong");
  }

  void append_tokens(const std::vector<int32_t>& ids, bool answer) {
    std::vector<int64_t> position, offsets;
    std::vector<uint8_t> roles, special;
    std::string text;
    if (fed_ == 0) offsets.push_back(0);
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t at = fed_ + int64_t(i);
      position.push_back(at);
      if (answer)  // right or wrong: the first tokens generated in the answer's place
        roles.push_back(answer_role(at - prompt_tokens()));
      else
        roles.push_back(prompt_.roles.empty() ? 0 : prompt_.roles[size_t(at)]);
      special.push_back(tokenizer_ && tokenizer_->is_special(ids[i]));
      if (tokenizer_) text += tokenizer_->token_bytes(ids[i]);
      offsets.push_back(byte_offset_ + int64_t(text.size()));
    }
    const auto rows = int64_t(ids.size());
    sink_.append(run_, capture_.ids, rows, bytes_of(ids));
    sink_.append(run_, capture_.position, rows, bytes_of(position));
    sink_.append(run_, capture_.roles, rows, bytes_of(roles));
    sink_.append(run_, capture_.special, rows, bytes_of(special));
    if (!text.empty()) sink_.append(run_, capture_.bytes, int64_t(text.size()), bytes_of(text));
    sink_.append(run_, capture_.byte_offsets, int64_t(offsets.size()), bytes_of(offsets));
    byte_offset_ += int64_t(text.size());
  }

  uint8_t answer_role(int64_t i) const {
    if (!prompt_.has_answer || i >= int64_t(prompt_.answer_ids.size())) return 0;
    return prompt_.answer_roles.empty() ? 1 : prompt_.answer_roles[size_t(i)];
  }

  void emit(const SampledToken& token) {
    result.output_ids.push_back(token.id);
    sink_.append(run_, capture_.output_ids, 1, bytes_of(std::vector<int32_t>{token.id}));
    if (tokenizer_ && !tokenizer_->is_special(token.id)) {
      const std::string text = tokenizer_->token_bytes(token.id);
      result.output_text += text;
      if (!text.empty()) sink_.append(run_, capture_.output_text, int64_t(text.size()), bytes_of(text));
    }
    if (capture_.top_ids < 0) return;
    sink_.append(run_, capture_.top_ids, 1, bytes_of(padded(token.top_ids, int32_t(-1))));
    if (capture_.real == trace::ElementType::f64) {
      sink_.append(run_, capture_.top_logprob, 1, bytes_of(padded(token.top_logprob, double(-INFINITY))));
    } else {
      const std::vector<float> narrow(token.top_logprob.begin(), token.top_logprob.end());
      sink_.append(run_, capture_.top_logprob, 1, bytes_of(padded(narrow, float(-INFINITY))));
    }
    std::vector<uint8_t> text;
    for (const int32_t id : padded(token.top_ids, int32_t(-1))) append_candidate_bytes(id, text);
    sink_.append(run_, capture_.top_bytes, 1, bytes_of(text));
  }

  // One row of output/top_bytes: the number of bytes, then the bytes, then zeros.
  void append_candidate_bytes(int32_t id, std::vector<uint8_t>& out) const {
    std::string bytes = tokenizer_ && id >= 0 ? tokenizer_->token_bytes(id) : std::string();
    bytes.resize(std::min<size_t>(bytes.size(), size_t(trace::kTopBytesWidth) - 1));
    out.push_back(uint8_t(bytes.size()));
    out.insert(out.end(), bytes.begin(), bytes.end());
    out.insert(out.end(), size_t(trace::kTopBytesWidth) - 1 - bytes.size(), 0);
  }

  // C entries, also when the tokenizer knows fewer ids than that.
  template <class T>
  std::vector<T> padded(std::vector<T> list, T fill) const {
    list.resize(size_t(capture_.spec.datasets[size_t(capture_.top_ids)].shape[0]), fill);
    return list;
  }

  bool is_exact() const {
    std::vector<int32_t> ids = result.output_ids;
    if (!ids.empty() && std::find(model_.eos_.begin(), model_.eos_.end(), ids.back()) != model_.eos_.end())
      ids.pop_back();
    return ids == prompt_.answer_ids ||
           (tokenizer_ && (result.output_text == prompt_.answer ||
                           result.output_text == prompt_.answer_lead + prompt_.answer));
  }

  const LoadedModel& model_;
  const CausalLM& lm_;
  const formats::Prompt& prompt_;
  const formats::Tokenizer* tokenizer_;
  const RunOptions& options_;
  const RunCapture& capture_;
  int run_;
  int64_t segment_;
  trace::Sink& sink_;
  Progress& progress_;
  std::string label_;  // "run 2 of 5, " or empty
  Recorder recorder_;
  std::vector<MixerState> states_;
  std::vector<const Mixer*> mixers_;
  int64_t limit_;
  std::mt19937_64 random_;
  int last_block_ = 0;
  int64_t fed_ = 0, byte_offset_ = 0, segments_ = 0;
  bool not_finite_ = false;
  std::vector<double> next_logits_;
};

void set_precision(bool tf32) {
  at::globalContext().setAllowTF32CuBLAS(tf32);
  at::globalContext().setAllowTF32CuDNN(tf32);
}

void check_fits(const Estimate& estimate, const LoadedModel& model, int64_t tokens) {
  if (estimate.fits) return;
  throw Error({.item = "memory on " + model.options().device,
               .found = std::to_string(tokens) + " tokens, " + std::to_string(model.info().layers.size()) +
                        " layers need " + std::to_string(estimate.memory_bytes >> 20) + " MiB, " +
                        std::to_string(estimate.available_bytes >> 20) + " MiB available",
               .expected = "a run that fits",
               .advice = estimate.advice});
}

}  // namespace

RunOutcome LoadedModel::run(const std::vector<formats::Prompt>& prompts, const formats::Tokenizer* tokenizer,
                            const RunOptions& options, trace::Sink& sink, Progress& progress) {
  const auto started = std::chrono::steady_clock::now();
  check_request(prompts, options);
  RunOutcome outcome;
  const int64_t segment = options.segment > 0 ? options.segment : default_segment();
  std::vector<RunCapture> captures;
  std::vector<trace::RunSpec> specs;
  int64_t total = 0, longest = 0;
  for (const formats::Prompt& prompt : prompts) {
    const int64_t generate = generate_limit(prompt, options);
    captures.push_back(plan_run(shape_, prompt, options, generate, outcome.notes));
    for (auto& attribute : settings(options, generate, segment))
      captures.back().spec.attributes.push_back(std::move(attribute));
    specs.push_back(captures.back().spec);
    total += int64_t(prompt.ids.size());
    longest = std::max(longest, captures.back().planned);
  }
  check_fits(estimate(prompts, options), *this, longest);

  const c10::InferenceMode inference;
  // Kernels are launched on the current device, which need not be the one that holds the tensors.
  const c10::OptionalDeviceGuard device(lm_->numerics.device.is_cuda() ? std::optional(lm_->numerics.device)
                                                                       : std::nullopt);
  set_precision(options_.tf32);
  sink.begin(model_spec(), specs);
  trace::Status status = trace::Status::complete;
  try {
    progress.begin_stage("running", total);
    for (size_t i = 0; i < prompts.size() && status == trace::Status::complete; ++i) {
      const std::string label = prompts.size() == 1 ? ""
                                                    : "run " + std::to_string(i + 1) + " of " +
                                                          std::to_string(prompts.size()) + ", ";
      PromptRun run(*this, prompts[i], tokenizer, options, captures[i], int(i), segment, sink, progress,
                    label);
      try {
        run.feed_prompt();
        if (generate_limit(prompts[i], options) > 0) {
          const int64_t done = progress.snapshot().done;
          progress.begin_stage("generating", generate_limit(prompts[i], options));
          if (!label.empty()) progress.set_detail(label.substr(0, label.size() - 2));
          run.generate();
          if (i + 1 < prompts.size()) {
            progress.begin_stage("running", total);
            progress.set(done);
          }
        }
      } catch (const Cancelled&) {
        status = trace::Status::cancelled;
      }
      run.close(status == trace::Status::complete);
      outcome.runs.push_back(run.result);
      outcome.ties += run.ties;
      outcome.warnings.insert(outcome.warnings.end(), run.warnings.begin(), run.warnings.end());
      outcome.notes.insert(outcome.notes.end(), run.notes.begin(), run.notes.end());
    }
    progress.begin_stage("writing", 0);
    sink.finish(status);
  } catch (const std::exception& e) {
    const Error* known = dynamic_cast<const Error*>(&e);
    const auto* torch_error = dynamic_cast<const c10::Error*>(&e);
    const bool memory =
        dynamic_cast<const c10::OutOfMemoryError*>(&e) || dynamic_cast<const std::bad_alloc*>(&e);
    const Error error =
        known ? *known
              : Error({.item = memory ? "memory on " + options_.device : "running the model",
                       .found = torch_error ? torch_error->what_without_backtrace() : e.what(),
                       .advice = memory ? "Use a smaller --segment, or capture fewer fields" : ""});
    try {
      sink.finish(trace::Status::failed);
    } catch (const std::exception&) {
      // The first error is the one that matters.
    }
    throw error;
  }
  outcome.status = status;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return outcome;
}

}  // namespace slotscope::engine
