// Traces with damaged bytes: a valid file, then up to 60 changes of four bytes each (place, kind, value). HDF5 is the library of
// others and knows no ends of hostile metadata; this target shows what the reader's own checks keep from it.
#include <algorithm>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/trace_base.h"

namespace slotscope::fuzz {

// First byte: which file. Then records: 17 bits place, 3 bits kind, ...
void run_trace_bytes(Bytes input) {
  static const std::filesystem::path file = scratch_folder() / "bytes.h5";
  Reader in(input);
  std::string bytes = base_trace(Base(in.below(kBases)));
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
  write_file(file, bytes);
  read_trace(file, false);
}

}  // namespace slotscope::fuzz
