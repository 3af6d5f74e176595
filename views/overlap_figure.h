// The figure of a file of results of kind "ramnet-overlap" (slotscope-cli ramnet overlap).
#pragma once

#include <string>

#include "core/trace/result_file.h"
#include "views/export.h"

namespace slotscope::views {

// `shown`: overlap, induced, attention or difference ("": overlap). `file` names it in errors. Throws Error when the result holds
// no such matrix or contradicts itself.
Figure overlapFigure(const trace::Result& result, const std::string& file, const std::string& shown);

}  // namespace slotscope::views
