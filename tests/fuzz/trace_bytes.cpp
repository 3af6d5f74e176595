// Traces with damaged bytes: a valid file, then up to 60 changes of four bytes each (place, kind, value). trace_bytes takes the files of
// the ordinary writer, whose metadata carry checksums. trace_plain takes one without any (network drives, other writers): there damage
// reaches the HDF5 library itself, which is not ours to mend; what the reader can check before, it does.
#include <algorithm>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/trace_base.h"

namespace slotscope::fuzz {
namespace {

// Records of 20 bits place, 4 bits kind, 8 bits value.
void damage(std::string& bytes, Reader& in) {
  for (int edits = 0; edits < 60 && !in.done(); ++edits) {
    const uint64_t record = in.number(4);
    const size_t at = size_t(record & 0xFFFFF) % bytes.size();
    const auto value = uint8_t(record >> 24);
    switch (record >> 20 & 7) {
      case 0:
      case 1:
        bytes[at] = char(value);
        break;
      case 2:
        bytes[at] = char(uint8_t(bytes[at]) ^ (1u << (value % 8)));
        break;
      case 3:
        bytes[at] = char(uint8_t(bytes[at]) + value);
        break;
      case 4:  // cut off
        bytes.resize(std::max<size_t>(at, 1));
        break;
      case 5:  // a hole
        std::fill_n(bytes.begin() + long(at), std::min<size_t>(value + 1u, bytes.size() - at), '\0');
        break;
      case 6:
        std::fill_n(bytes.begin() + long(at), std::min<size_t>(value % 9 + 1u, bytes.size() - at), '\xff');
        break;
      default:  // bytes of another place
        for (size_t i = 0; i < 8 && at + i < bytes.size(); ++i) bytes[at + i] = bytes[(at + i + 8 * value) % bytes.size()];
    }
  }
}

void read_damaged(std::string bytes, Reader& in) {
  static const std::filesystem::path file = scratch_folder() / "bytes.h5";
  damage(bytes, in);
  write_file(file, bytes);
  read_trace(file, false, false);
}

}  // namespace

// First byte: which file.
void run_trace_bytes(Bytes input) {
  Reader in(input);
  read_damaged(base_trace(in.byte() % 2 ? Base::dead : Base::complete), in);
}

void run_trace_plain(Bytes input) {
  Reader in(input);
  in.byte();
  read_damaged(base_trace(Base::plain), in);
}

}  // namespace slotscope::fuzz
