// Where a run's data go. The engine describes everything once (SWMR allows no new dataset afterwards), then
// hands over rows as they leave the device. MemorySink keeps them; Hdf5Sink (writer.h) puts them on a writer
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/routes.h"

namespace slotscope::trace {

// Width of one row of output/top_bytes: a count, then at most 31 bytes of one candidate.
inline constexpr int64_t kTopBytesWidth = 32;

enum class ElementType { u8, u16, u32, i32, i64, f16, f32, f64 };
size_t element_size(ElementType);

using AttributeValue = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

// One dataset of a run. Path is relative to /runs/NNNN: "layers/0/route_index", "output/ids", "tokens/ids",
// ...
struct DatasetSpec {
  std::string path;
  ElementType type = ElementType::f32;
  bool growing = true;         // grows along its first axis as tokens come
  std::vector<int64_t> shape;  // growing: shape of one row ([] = scalar rows). Fixed: the full shape.
  int64_t expected_rows = 0;   // growing: for chunk and size choice; not a limit
  std::string axes;            // "T,H_r,K"
  std::string description;
};

struct LayerSpec {
  int index = 0;
  std::string family;      // "raven", "attention", ...
  std::string route_kind;  // sparse, dense, ring, append, none
  int64_t heads = 0, route_heads = 0, slots = 0, top_k = 0;
  Attributes attributes;  // notes, rules (window, r = 1, ...), d_k, d_v, scale, eps ...
};

// The root group model/.
struct ModelSpec {
  std::string config_json, family, flavour, dtype, router_dtype, device, checkpoint, tensor_digest;
  Attributes attributes;
};

// One prompt = one run.
struct RunSpec {
  std::string name;  // "password · 512", file name, ...
  bool has_text = false;
  std::string text;                           // prompt text, UTF-8
  std::vector<int64_t> char_begin, char_end;  // [P] code points; only with text
  int64_t prompt_tokens = 0;                  // P
  std::vector<Span> spans;  // on the token axis; "answer" may be rewritten by set_spans when generation stops
  bool has_answer = false;
  std::string answer;     // expected text
  Attributes attributes;  // task, length, depth, seed, haystack, capture settings ...
  std::vector<LayerSpec> layers;
  std::vector<DatasetSpec> datasets;  // ids in the calls below are positions in this list
};

enum class Status : int32_t { partial = 0, complete = 1, cancelled = 2, failed = 3 };

class Sink {
 public:
  virtual ~Sink() = default;
  // Once, before anything else.
  virtual void begin(const ModelSpec& model, const std::vector<RunSpec>& runs) = 0;
  // `rows` more rows of a growing dataset, row-major. May block while the writer is behind (bounded queue).
  // Throws what the writer met (disk full ...), so that the run stops.
  virtual void append(int run, int dataset, int64_t rows, std::vector<std::byte> data) = 0;
  // The whole of a fixed dataset; may be called again (counters), the last call counts.
  virtual void write(int run, int dataset, std::vector<std::byte> data) = 0;
  // All rows of tokens < n of this run have been handed over.
  virtual void tokens_done(int run, int64_t n) = 0;
  virtual void set_spans(int run, std::vector<Span> spans) = 0;
  virtual void set_exact(int run, bool exact) = 0;
  // Once, last. Waits until everything is stored; Hdf5Sink then renames NAME.part to NAME (complete or
  // cancelled).
  virtual void finish(Status status) = 0;
};

// Keeps everything; for tests, verify and small runs.
class MemorySink : public Sink {
 public:
  struct Data {
    int64_t rows = 0;
    std::vector<std::byte> bytes;
  };
  ModelSpec model;
  std::vector<RunSpec> runs;
  std::vector<std::vector<Data>> data;  // [run][dataset]
  std::vector<int64_t> done;            // [run]
  std::vector<int> exact;               // [run] -1 unknown, 0, 1
  Status status = Status::partial;

  void begin(const ModelSpec&, const std::vector<RunSpec>&) override;
  void append(int run, int dataset, int64_t rows, std::vector<std::byte>) override;
  void write(int run, int dataset, std::vector<std::byte>) override;
  void tokens_done(int run, int64_t n) override;
  void set_spans(int run, std::vector<Span>) override;
  void set_exact(int run, bool) override;
  void finish(Status) override;

  // Position in runs[run].datasets, or -1.
  int find(int run, std::string_view path) const;
  // The dataset's values as double, row-major; throws Error naming the path when there is none.
  std::vector<double> values(int run, std::string_view path) const;
};

}  // namespace slotscope::trace
