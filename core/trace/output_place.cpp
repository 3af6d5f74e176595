#include "core/trace/output_place.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace slotscope::trace {
namespace fs = std::filesystem;

void check_output(const fs::path& out, const fs::path& part, bool force, const std::string& what) {
  std::error_code ignored;
  const fs::path folder = out.has_parent_path() ? out.parent_path() : fs::path(".");
  if (out.filename().empty() || fs::is_directory(out, ignored))
    throw Error({.file = out.string(),
                 .found = "this is a folder",
                 .expected = "the name of a file to write",
                 .advice = "Add a file name, such as " + (out / (what + ".h5")).string()});
  if (!fs::is_directory(folder, ignored))
    throw Error({.file = out.string(),
                 .found = "the folder " + folder.string() + " does not exist",
                 .advice = "Create it or choose another --out"});
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw Error({.file = out.string(),
                 .found = "the folder " + folder.string() + " may not be written: " + std::strerror(errno),
                 .advice = "Choose another place with --out"});
  if (!force && fs::exists(fs::symlink_status(out, ignored)))
    throw Error({.file = out.string(),
                 .found = "the file exists already",
                 .advice = "Choose another --out, or replace it with --force"});
  // The rename at the end would put the new file in the place of the device, pipe or socket itself.
  for (const fs::path& place : {out, part})
    if (fs::exists(place, ignored) && !fs::is_regular_file(place, ignored) && !fs::is_directory(place, ignored))
      throw Error({.file = place.string(),
                   .item = what + " to write",
                   .found = "this is a device, a pipe or a socket, not a file",
                   .expected = "the name of a file",
                   .advice = "Choose another --out; --force does not replace it"});
  if (fs::is_directory(part, ignored))
    throw Error({.file = part.string(),
                 .found = "this is a folder",
                 .expected = "room for the file while it is written",
                 .advice = "Choose another --out"});
}

}  // namespace slotscope::trace
