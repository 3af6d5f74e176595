// The prompt in role colours under the allocation strips: wrapped at words, never inside the key, with "…"
// for what is left out.
#pragma once

#include <QString>
#include <QVector>
#include <cstdint>
#include <vector>

#include "core/trace/trace.h"

namespace slotscope::views {

struct RoleRun {
  QString text;
  bool retrieval = false;
  bool ellipsis = false;
};
struct RoleLine {
  QVector<RoleRun> runs;
};

// Lines of at most `columns` characters for tokens [0, end) of the run, at most `lines` of them. What does
// not fit is left out between the start, the surroundings of the retrieval tokens and the end, each gap shown
// as "…".
QVector<RoleLine> roleText(const trace::RunInfo& run, const std::vector<uint8_t>& roles, int64_t end,
                           int columns, int lines);

}  // namespace slotscope::views
