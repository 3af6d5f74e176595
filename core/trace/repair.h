// Copies what a dead writer left (or any readable trace) to a clean file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/progress.h"
#include "core/trace/sink.h"

namespace slotscope::trace {

struct RepairReport {
  struct Run {
    std::string name;
    int64_t tokens = 0, planned = 0;
  };
  Status status = Status::partial;  // of the source; the copy keeps it
  std::vector<Run> runs;
  std::vector<std::string>
      lost;  // datasets left out because they cannot be read: "runs/0000/layers/1/hidden: reason"
  // "trace.h5: 3072 of 8192 tokens kept in 1 run", and a line for each dataset left out.
  std::string text(const std::filesystem::path& file) const;
};

// Every run up to its last flushed chunk. `source` is not changed. `target` must differ from it; an existing
// one is refused unless `force`. Throws Error when the source cannot be opened or the target not written; a
// cancel leaves no target.
RepairReport repair(const std::filesystem::path& source, const std::filesystem::path& target,
                    bool force = false, Progress* progress = nullptr);

}  // namespace slotscope::trace
