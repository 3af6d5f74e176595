// Traces that are well-formed HDF5 and say odd things: a valid file, then the edits that the input asks for (trace_recipe.h). Nothing
// that a trace says may make the reader open another file.
#include <hdf5.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/trace_base.h"
#include "tests/fuzz/trace_recipe.h"

namespace slotscope::fuzz {
namespace {

constexpr int kMostEdits = 24;

// False when HDF5 did not get to a closed file.
bool write_edited(const std::filesystem::path& path, Base base, Reader& in, const std::string& canary) {
  write_file(path, base_trace(base));
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
  H5Pset_file_locking(access, false, true);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, access);
  H5Pclose(access);
  if (file < 0) throw std::runtime_error("cannot open the base trace");
  Recipe recipe(file, in, canary);
  for (int edits = 0; edits < kMostEdits && !in.done(); ++edits) recipe.edit();
  return H5Fclose(file) >= 0;
}

}  // namespace

void run_trace(Bytes input) {
  static const std::filesystem::path path = scratch_folder() / "edited.h5";
  static Canary canary;
  Reader in(input);
  const uint8_t flags = in.byte();
  if (!write_edited(path, flags & 1 ? Base::plain : Base::complete, in, canary.path().string())) return;
  canary.opened();  // an edit may have gone through a link itself
  const bool opened = read_trace(path, (flags & 14) == 14, (flags & 48) == 48);
  require(!canary.opened(), "no other file is opened");
  require(opened || input.size() > 1, "a trace without edits opens");
}

}  // namespace slotscope::fuzz
