// Reading a trace file (format "slotscope-trace" version 1; spec: architecture; resources/trace-format.md).
// Opens read-only and without a lock; a file whose writer died is opened to its last flushed chunk. Needs no
// model and no LibTorch. All calls are serialised inside (one HDF5 user at a time); long reads take a
// Progress for stage and cancel.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/progress.h"
#include "core/routes.h"
#include "core/trace/sink.h"

namespace slotscope::trace {

struct DatasetInfo {
  std::string path;
  ElementType type;
  std::vector<int64_t> shape, chunk;
  std::string axes, description;
};

// Everything about one run but the layer data: loaded when the trace opens.
struct RunInfo {
  std::string name;
  int64_t tokens = 0;          // T: tokens fed (tokens_done)
  int64_t planned_tokens = 0;  // for "ends at token 3072 of 8192"; = tokens when unknown
  int64_t prompt_tokens = 0;   // P
  std::vector<int32_t> ids;
  std::vector<int64_t> position;
  std::vector<uint8_t> roles;  // 0 other, 1 retrieval
  std::vector<uint8_t> special;
  std::vector<uint8_t> bytes;         // decoded bytes of all tokens
  std::vector<int64_t> byte_offsets;  // [T+1]
  bool has_text = false;
  std::string text;
  std::vector<int64_t> char_begin, char_end;
  std::vector<Span> spans;
  bool has_answer = false;
  std::string answer;
  std::optional<bool> exact;
  std::vector<std::string> references;  // of an imported prompt: what the output is searched for
  std::optional<double> score;          // 0..1, core/score.h; known when the run came to its end
  std::vector<int32_t> output_ids;  // [G] generated tokens, the last sampled one included
  std::string output_text;
  int64_t candidates = 0;           // C
  std::vector<int32_t> top_ids;     // [G,C]
  std::vector<double> top_logprob;  // [G,C]
  std::vector<std::string> top_bytes;  // [G,C] decoded bytes of top_ids, at most 31 each; empty when not stored
  Attributes attributes;
  std::vector<LayerSpec> layers;
  std::vector<DatasetInfo> datasets;

  std::string_view token_bytes(int64_t t) const;
  const DatasetInfo* find(std::string_view path) const;
  const Span* span(std::string_view name) const;  // first span of that name
};

class Trace {
 public:
  // Throws Error: not HDF5, not a trace, newer major version (by number), damaged (names `slotscope-cli
  // repair`).
  static std::shared_ptr<Trace> open(const std::filesystem::path& file, Progress* progress = nullptr);
  ~Trace();

  const std::filesystem::path& path() const;
  Status status() const;
  bool writer_alive_or_dead() const;  // the file was still open for writing: shown as partial
  const std::string& created() const;
  const std::string& writer_version() const;
  const ModelSpec& model() const;
  int run_count() const;
  const RunInfo& run(int i) const;

  // Rows [first, first+count) of a dataset along its first axis, converted; count < 0: all. Row-major. Throws
  // Error for an unknown path, rows outside the dataset, damaged data and a cancel ("cancelled").
  std::vector<double> read(int run, std::string_view path, int64_t first = 0, int64_t count = -1,
                           Progress* progress = nullptr) const;
  // As above, restricted to index `head` of the second axis (axis 1).
  std::vector<double> read_head(int run, std::string_view path, int head, int64_t first = 0,
                                int64_t count = -1, Progress* progress = nullptr) const;
  std::vector<int64_t> read_int(int run, std::string_view path, int64_t first = 0, int64_t count = -1,
                                Progress* progress = nullptr) const;

  // Stored routes (sparse), or a rule that they follow from (dense, ring, append).
  bool has_routes(int run, int layer) const;
  // Routes of one head (0..H_r-1, its own index even when --heads captured fewer) with decay and
  // strength when captured. Throws Error when the layer has none (says why).
  HeadRoutes routes(int run, int layer, int head, Progress* progress = nullptr) const;
  // Counters over all tokens: [H_r][M], empty rows for heads that --heads left out (ties: [1][captured
  // heads]). Empty when not captured, or when the writer died before it stored them for the tokens that the
  // file holds.
  std::vector<std::vector<uint32_t>> counters(int run, int layer, std::string_view field) const;

 private:
  Trace();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slotscope::trace
