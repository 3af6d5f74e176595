// Edits of a trace file through the HDF5 API: the file stays well-formed HDF5, only what it says is not what the reader expects.
#pragma once

#include <hdf5.h>

#include <string>

#include "tests/fuzz/fuzz.h"

namespace slotscope::fuzz {

class Recipe {
 public:
  // `canary`: the other file that links, external and virtual datasets point to.
  Recipe(hid_t file, Reader& in, std::string canary) : file_(file), in_(in), canary_(std::move(canary)) {}
  // Takes one edit off the input and makes it; edits that HDF5 refuses leave the file as it was.
  void edit();

 private:
  std::string path();       // of an object of the base trace, or an odd one
  int64_t number();         // a remarkable integer or a small one
  hid_t element_type();     // caller closes
  hid_t shape();            // a dataspace of rank 0 to 4; caller closes
  void remove(const std::string& path);
  void numbers();
  void values(hid_t dataset);
  void attribute();
  void link();
  void text();
  void spans();
  void other_file();
  void group();
  void poke();
  void children();
  void move();
  void resize();
  void raw_chunk();

  hid_t file_;
  Reader& in_;
  std::string canary_;
};

}  // namespace slotscope::fuzz
