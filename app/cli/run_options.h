// The options of a run: one struct, one set of names. slotscope-cli and the window both fill it with add_run_options() and
// turn it into what the engine takes (spec: architecture, "Capture and command line semantics"). Nothing here loads a weight.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/session.h"
#include "core/formats/prompt.h"
#include "core/formats/tokenizer.h"

namespace CLI {
class App;
class Validator;
}

namespace slotscope::cli {

// What a run captures when --capture is not given: all that the window needs to show everything.
inline constexpr const char* kDefaultCapture =
    "route,log_decay,write_strength,read_weight,margin,ties,addresses,top_ids,top_logprob";

struct RunSettings {
  // Prompt: exactly one of these six.
  std::optional<std::string> text, text_file, ids, ids_file, prompts, task;
  std::string rows, format = "auto";  // of prompts: which rows (empty: all), which layout
  // Of the task.
  int64_t length = 512;            // prompt tokens with <bos>, without the answer
  std::optional<double> depth;     // 0..1; not set: drawn from the seed
  uint64_t seed = 0;               // of the task and of sampling
  std::string haystack = "noise";  // noise, or a text file
  std::string key;                 // empty: drawn from the seed
  bool no_bos = false;
  // Model.
  std::string device = "cpu", dtype = "float32", router_dtype = "float32", flavour;
  std::string weights;             // of a file with several candidates; empty: the likely one
  bool tf32 = false;
  // Capture.
  std::string capture = kDefaultCapture;
  std::string layers, heads, tokens;  // empty: all
  std::string read_at = "query", state_at = "end";
  std::string store = "float32";
  // Run.
  int stop_after = -1;
  int64_t segment = 0;
  int64_t generate = -1;  // -1: what the prompt's task takes, or answer tokens + 1 with a known answer, else 0
  double temperature = 0, top_p = 1;
  int64_t candidates = 4;
  bool unused_rows = false;
  double max_gpu_mem = 0;
};

// The one list of names that exist; the window builds its choices from them.
const std::vector<std::string>& dtype_names();         // float32, bfloat16, float64
const std::vector<std::string>& router_dtype_names();  // float32, bf16
const std::vector<std::string>& flavour_names();       // fla, goombalab, nope
const std::vector<std::string>& task_names();          // passkey
const std::vector<std::string>& store_names();         // float32, float16

// Adds every option above to `app` in the help groups Prompt, Task, Model, Capture, Run. `settings` must outlive the parse.
void add_run_options(CLI::App& app, RunSettings& settings);
// Its parts, in the order of the help text.
void add_prompt_options(CLI::App& app, RunSettings& settings);
void add_model_options(CLI::App& app, RunSettings& settings);  // device, dtype, flavour: also for verify
void add_capture_options(CLI::App& app, RunSettings& settings);
void add_forward_options(CLI::App& app, RunSettings& settings);

// Checks of option values on their text, stricter than CLI11's conversion, which wraps "-1" and cuts what is too large.
CLI::Validator whole_number(int64_t low, uint64_t high = uint64_t(INT64_MAX));
CLI::Validator real_number(double low, double high);
CLI::Validator not_empty();

// Whether any of --text, --text-file, --ids, --ids-file, --prompts, --task was given.
bool has_prompt(const RunSettings&);

// Everything that can be refused without opening a file: names, ranges, combinations. Throws Error(usage).
void check_settings(const RunSettings&);
// The part of it about add_model_options().
void check_model_settings(const RunSettings&);

// The prompts, in run order. `tokenizer` may be null (token ids only: --text and --task then throw Error that says so).
// vocab_rows > 0: ids outside 0..vocab_rows-1 are refused here, with their place (bad-inputs B29). Throws Error.
std::vector<formats::Prompt> make_prompts(const RunSettings&, const formats::Tokenizer* tokenizer, int64_t vocab_rows);

// What was odd about imported rows, one line each: "run 0003 (row 17): the value '123' is not in the prompt".
std::vector<std::string> import_warnings(const std::vector<formats::Prompt>& prompts);

// "0003": the group of a run in the trace.
std::string run_name(size_t run);

engine::LoadOptions load_options(const RunSettings&);

// Engine options for this model; --layers, --heads and --stop-after are checked against its layers, --tokens, --read-at and
// --state-at against the prompts' lengths (with what may be generated). Throws Error(usage); `notes` gets clipped ranges.
engine::RunOptions run_options(const RunSettings&, const engine::ModelInfo&, const std::vector<formats::Prompt>& prompts,
                               std::vector<std::string>& notes);

// The bytes of a file, exactly; "-" is standard input. Throws Error (missing, a folder, unreadable, over 1 GiB).
std::string read_text_file(const std::string& path);

}  // namespace slotscope::cli
