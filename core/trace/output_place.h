// Where a file may be written, asked before the work begins.
#pragma once

#include <filesystem>
#include <string>

namespace slotscope::trace {

// `part` is the name while it is written, in the same folder. `what`: "trace", "result", for messages. Throws Error: a folder, a device,
// a folder that is not there or may not be written, a file that exists (unless `force`).
void check_output(const std::filesystem::path& out, const std::filesystem::path& part, bool force, const std::string& what);

}  // namespace slotscope::trace
