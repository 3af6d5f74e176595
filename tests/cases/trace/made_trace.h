// Made runs for the trace cases: every dataset kind of the format with values that a formula gives, written
// in segments.
#pragma once

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/trace/sink.h"
#include "core/trace/trace.h"
#include "core/trace/writer.h"

namespace slotscope::testing {

struct MadeOptions {
  int64_t tokens = 300, prompt = 290;
  int64_t heads = 4, slots = 16, top_k = 3, layers = 2;
  int64_t segment = 64;
  bool float64 = false;
  trace::ElementType weight = trace::ElementType::f32;
  int runs = 1;
};

// The value of element `i` (within its row) of row `row`; exact in every element type used here (f16
// included).
double made_value(const std::string& path, trace::ElementType type, int64_t row, int64_t i);
std::vector<std::byte> made_rows(const trace::DatasetSpec& spec, int64_t first, int64_t count);
trace::ModelSpec made_model();
trace::RunSpec made_run(const MadeOptions& options, int index);
// Feeds the whole run segment by segment, counters and spans at the end; does not finish. `stop_at` < tokens
// stops early (the counters then cover what was fed).
void feed(trace::Sink& sink, const std::vector<trace::RunSpec>& runs, const MadeOptions& options,
          int64_t stop_at = INT64_MAX);

}  // namespace slotscope::testing
