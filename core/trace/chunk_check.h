// Looks at packed chunks before the HDF5 library unpacks them. HDF5 1.10 copies as many bytes as the shape of a chunk says from whatever
// came out of the filters, and lets a packed chunk grow without a limit; a file made by hand can make it read past its buffer.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

namespace slotscope::trace {

class ChunkCheck {
 public:
  // `properties`: the creation properties of a chunked dataset with filters; `item` for messages. Throws Error for other filters than
  // deflate, shuffle and Fletcher32, and for an order of them that no writer uses.
  ChunkCheck(hid_t dataset, hid_t properties, std::string file, std::string item, int64_t file_size);
  // Every chunk that [start, start + extent) touches unpacks to its size, neither less nor more. Each is looked at once. Throws Error.
  void look(hid_t dataset, const std::vector<hsize_t>& start, const std::vector<hsize_t>& extent);
  // All chunks.
  void look(hid_t dataset);

 private:
  void look_at(hid_t dataset, const std::vector<hsize_t>& offset);
  uint64_t unpacked_size(const std::vector<unsigned char>& raw, uint32_t mask) const;

  std::string file_, item_;
  uint64_t file_size_, chunk_bytes_ = 0;
  std::vector<hsize_t> shape_, chunk_;
  std::vector<H5Z_filter_t> filters_;
  bool whole_only_ = false;  // chunks that the edge of the dataset cuts are stored without filters
  std::unordered_set<uint64_t> seen_;  // chunk numbers, row-major
};

}  // namespace slotscope::trace
