// The file of a sweep (format "slotscope-sweep" version 1, resources/sweep-format.md): what was asked, and one row per prompt and
// model that has been run. A file is only ever replaced as a whole (NAME.part, fsync, rename), so that a kill at any moment leaves
// the last complete one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/trace/sink.h"

namespace slotscope::trace {

// What a sweep was asked for: the same for every model and every prompt of the file.
struct SweepSettings {
  std::string task = "passkey";
  std::vector<int64_t> lengths;            // tokens, ascending
  std::string length_counts = "prompt";    // prompt: of the prompt alone; total: with answer and <eos>
  std::vector<double> depths;              // 0..1, ascending; empty: drawn uniformly from each prompt's seed
  int64_t prompts = 25;                    // per length and depth
  uint64_t seed = 0;                       // of the sweep
  std::string haystack = "noise";          // noise, shakespeare, mixed or the name of a text file
  std::string haystack_digest;             // SHA-256 of the text file; "" for the built-in ones
  bool bos = true;
  std::string device = "cpu";              // kind: cpu or cuda
  std::string dtype = "float32", router_dtype = "float32";
  bool tf32 = false;
  std::string layers;                      // of the head scores; "" all
  double threshold = 0, tau = 0;           // as in analysis::AllocationOptions

  // Prompts per model.
  int64_t cells() const { return int64_t(lengths.size()) * int64_t(depths.empty() ? 1 : depths.size()); }
  int64_t total() const { return cells() * prompts; }
};

// Values per prompt and head, the last axis of heads/values. Normalised ESL = writes with r != 0 divided by tokens.
enum class SweepValue { esl_mean, esl_longest, esl_shortest, esl_gini, slots_used, head_score };
inline constexpr int kSweepValues = 6;
// "esl_mean": over all slots; "esl_longest", "esl_shortest": over slots that were written; "esl_gini" over all slots; "slots_used";
// "head_score" (raven-analysis, "Specialisation").
const char* sweep_value_name(SweepValue value);

// One layer whose heads are measured.
struct SweepLayer {
  int index = 0;
  std::string family, route_kind;
  int64_t route_heads = 0, slots = 0, top_k = 0;  // append: slots 0, they grow with the prompt
  std::string why;                                // why there are no numbers; "" when there are
};

// One prompt through one model.
struct SweepRow {
  int64_t length = 0, depth = 0, number = 0;  // positions in the settings' lengths and depths; 0 .. prompts-1
  int64_t seed = 0;                           // of the prompt: `run --task passkey --seed` makes it again
  std::string digest;                         // SHA-256 of the prompt's ids as little-endian int32, 64 hex digits
  std::string haystack;                       // noise, shakespeare or the text file: which one this prompt is from
  double place = 0;                           // depth as it came out
  int64_t prompt_tokens = 0, tokens = 0;      // tokens fed: prompt and what was generated but the last
  int64_t answer_tokens = 0, right = 0;       // of the answer and <eos>; how many of them were generated before the first wrong one
  bool exact = false;                         // all of them: right = answer_tokens
  double seconds = 0;
  std::string answer, output;                 // expected; generated (special tokens left out)
  std::vector<int32_t> output_ids;
  std::vector<double> heads;                  // [heads of the model, kSweepValues]; NaN where undefined
};

struct SweepModel {
  std::string name;        // the folder's own name, made unique
  std::string checkpoint;  // folder as given
  std::string model_type, family, flavour, device, config_json;
  std::string tensor_digest;   // SHA-256 of the sorted lines "name dtype shape"
  std::string weights_digest;  // SHA-256 over the same and the first values of every tensor
  std::vector<SweepLayer> layers;
  std::vector<SweepRow> rows;  // in the order in which they were run

  // (layer, head) of every entry of SweepRow::heads.
  std::vector<std::pair<int, int>> heads() const;
};

struct Sweep {
  SweepSettings settings;
  Status status = Status::partial;  // complete: every model has every prompt
  std::string created, writer_version;
  std::vector<SweepModel> models;
};

// "slotscope-trace", "slotscope-sweep", "slotscope-result", another name, or "" for an HDF5 file that does not say. Throws Error for what is no HDF5 file.
std::string file_format(const std::filesystem::path& file);

// Throws Error: not HDF5, not a sweep, newer version (by number), damaged (item, found, expected).
Sweep read_sweep(const std::filesystem::path& file);

// Replaces `file` by this sweep. Throws Error (folder, disk full, ...); what was there then stays.
void write_sweep(const Sweep& sweep, const std::filesystem::path& file);

}  // namespace slotscope::trace
