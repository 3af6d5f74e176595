// How a growing dataset is cut into chunks (spec: architecture "Trace file": 0.25 to 1 MiB along tokens).
#pragma once

#include <cstdint>
#include <vector>

#include "core/trace/sink.h"

namespace slotscope::trace {

// Chunk dimensions, first axis = rows, all >= 1. `spec.shape` is one row.
// - A chunk has 0.25 MiB up to (not including) 0.5 MiB, its rows a power of two; a row larger than 1 MiB is cut along its
//   longest axes, and a row of 0.25 to 1 MiB is a chunk by itself.
// - Heads (second axis named H or H_r) are spread over up to four chunks, so that a view of one head unpacks a quarter of the
//   data at most, while the writer never has to collect more than about 2 MiB per dataset.
// - Little data get smaller chunks, about an eighth of the expected rows but not under 16 KiB: a chunk is the unit of what
//   survives a crash, so a short run keeps seven eighths instead of nothing.
std::vector<int64_t> choose_chunk(const DatasetSpec& spec);

}  // namespace slotscope::trace
