// How a growing dataset is cut into chunks (spec: architecture "Trace file": 0.25 to 1 MiB along tokens).
#pragma once

#include <cstdint>
#include <vector>

#include "core/trace/sink.h"

namespace slotscope::trace {

// Chunk dimensions, first axis = rows, all >= 1. `spec.shape` is one row.
// - A chunk has 0.25 MiB up to (not including) 0.5 MiB, its rows a power of two; a row larger than 1 MiB is
// cut along its
//   longest axes, and a row of 0.25 to 1 MiB is a chunk by itself.
// - Heads (second axis named H or H_r) are spread over up to four chunks when the data are long enough, so
// that a view of one
//   head unpacks a quarter of them at most, while the writer never has to collect more than about 2 MiB per
//   dataset.
// - Less than about 2 MiB of expected data get smaller chunks: an eighth of the expected rows, but not under
// 512 rows or
//   16 KiB. A chunk is the unit of what survives a crash, and every dataset must have a token's row before
//   the token counts.
std::vector<int64_t> choose_chunk(const DatasetSpec& spec);

}  // namespace slotscope::trace
