#include "core/trace/chunk_check.h"

#include <zlib.h>

#include <algorithm>
#include <array>

#include "core/trace/trace_source.h"

namespace slotscope::trace {
namespace {

constexpr uint64_t kFletcherBytes = 4;
constexpr size_t kMostRemembered = 1 << 16;

// How many bytes a zlib stream makes; stops counting above `most`. 0 for a damaged one.
uint64_t inflated_size(const unsigned char* data, uint64_t size, uint64_t most) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return 0;
  std::array<unsigned char, 32768> out;
  uint64_t total = 0;
  int state = Z_OK;
  while (state == Z_OK && total <= most) {
    if (stream.avail_in == 0 && size > 0) {
      const auto take = uInt(std::min<uint64_t>(size, 1u << 30));
      stream.next_in = const_cast<unsigned char*>(data);
      stream.avail_in = take;
      data += take;
      size -= take;
    }
    stream.next_out = out.data();
    stream.avail_out = uInt(out.size());
    state = inflate(&stream, Z_NO_FLUSH);
    total += out.size() - stream.avail_out;
  }
  inflateEnd(&stream);
  return state == Z_STREAM_END || total > most ? total : 0;
}

}  // namespace

ChunkCheck::ChunkCheck(hid_t dataset, hid_t properties, std::string file, std::string item, int64_t file_size)
    : file_(std::move(file)), item_(std::move(item)), file_size_(uint64_t(file_size)) {
  const Handle type(H5Dget_type(dataset)), space(H5Dget_space(dataset));
  const int rank = std::max(H5Sget_simple_extent_ndims(space), 0);
  shape_.resize(size_t(rank));
  chunk_.resize(size_t(rank));
  if (rank == 0 || H5Sget_simple_extent_dims(space, shape_.data(), nullptr) != rank ||
      H5Pget_chunk(properties, rank, chunk_.data()) != rank)
    damaged(file_, item_, "its chunks have another number of axes than its shape");
  chunk_bytes_ = H5Tget_size(type);  // a chunk has less than 4 GiB
  for (const hsize_t n : chunk_)
    if (__builtin_mul_overflow(chunk_bytes_, uint64_t(n), &chunk_bytes_)) damaged(file_, item_, "a chunk of impossible size");
  unsigned options = 0;
  whole_only_ = H5Pget_chunk_opts(properties, &options) >= 0 && (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
  const int count = H5Pget_nfilters(properties);
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0, settings = 0;
    size_t values = 0;
    char name[64] = "";
    const H5Z_filter_t id = H5Pget_filter2(properties, unsigned(i), &flags, &values, nullptr, sizeof name, name, &settings);
    if (id != H5Z_FILTER_DEFLATE && id != H5Z_FILTER_SHUFFLE && id != H5Z_FILTER_FLETCHER32)
      throw Error({.file = file_,
                   .item = item_,
                   .found = "packed with filter " + std::to_string(id) + (name[0] ? std::string(" (") + name + ")" : ""),
                   .expected = "deflate, shuffle or Fletcher32",
                   .advice = "Repack the file: h5repack -f SHUF -f GZIP=1"});
    // Undone from the last to the first: deflate has to come before shuffle there, and only once.
    const bool after_deflate = std::find(filters_.begin(), filters_.end(), H5Z_FILTER_DEFLATE) != filters_.end();
    if (after_deflate && id != H5Z_FILTER_FLETCHER32) damaged(file_, item_, "its filters have an order that no writer uses");
    filters_.push_back(id);
  }
}

uint64_t ChunkCheck::unpacked_size(const std::vector<unsigned char>& raw, uint32_t mask) const {
  uint64_t size = raw.size();
  for (size_t i = filters_.size(); i-- > 0;) {
    if (mask & 1u << std::min<size_t>(i, 31)) continue;  // left out when this chunk was stored
    if (filters_[i] == H5Z_FILTER_FLETCHER32) {
      if (size < kFletcherBytes) return 0;
      size -= kFletcherBytes;
    } else if (filters_[i] == H5Z_FILTER_DEFLATE) {
      size = inflated_size(raw.data(), size, chunk_bytes_ + kFletcherBytes * filters_.size());
    }
  }
  return size;
}

void ChunkCheck::look_at(hid_t dataset, const std::vector<hsize_t>& offset) {
  hsize_t size = 0;
  // A failure means that the chunk was never stored (it reads as fill values), or an index that is damaged, which the reading will say.
  if (H5Dget_chunk_storage_size(dataset, offset.data(), &size) < 0 || size == 0) return;
  if (size > file_size_) damaged(file_, item_, "a chunk of " + std::to_string(size) + " bytes");
  std::vector<unsigned char> raw(size);
  uint32_t mask = 0;
  if (H5Dread_chunk(dataset, H5P_DEFAULT, offset.data(), &mask, raw.data()) < 0)
    damaged(file_, item_, "cannot read a chunk (" + hdf5_message() + ")");
  bool cut = false;
  for (size_t i = 0; i < offset.size(); ++i) cut |= offset[i] + chunk_[i] > shape_[i];
  const uint64_t unpacked = whole_only_ && cut ? size : unpacked_size(raw, mask);
  if (unpacked == chunk_bytes_) return;
  std::string place;
  for (const hsize_t n : offset) place += (place.empty() ? "" : ",") + std::to_string(n);
  damaged(file_, item_, "its chunk at " + place + " cannot be unpacked to its size",
          std::to_string(chunk_bytes_) + " bytes");
}

void ChunkCheck::look(hid_t dataset, const std::vector<hsize_t>& start, const std::vector<hsize_t>& extent) {
  const size_t rank = chunk_.size();
  if (start.size() != rank || std::find(extent.begin(), extent.end(), 0u) != extent.end()) return;
  std::vector<hsize_t> first(rank), last(rank);
  for (size_t i = 0; i < rank; ++i) {
    first[i] = start[i] / chunk_[i];
    last[i] = (start[i] + extent[i] - 1) / chunk_[i];
  }
  std::vector<hsize_t> at = first, offset(rank);
  for (;;) {
    uint64_t number = 0;
    for (size_t i = 0; i < rank; ++i) {
      number = number * ((shape_[i] + chunk_[i] - 1) / chunk_[i]) + at[i];
      offset[i] = at[i] * chunk_[i];
    }
    if (!seen_.contains(number)) {
      look_at(dataset, offset);
      if (seen_.size() >= kMostRemembered) seen_.clear();  // chunks may be as small as one value: looking twice costs less
      seen_.insert(number);
    }
    size_t axis = rank;
    while (axis > 0 && at[axis - 1] == last[axis - 1]) {
      at[axis - 1] = first[axis - 1];
      --axis;
    }
    if (axis == 0) return;
    ++at[axis - 1];
  }
}

void ChunkCheck::look(hid_t dataset) { look(dataset, std::vector<hsize_t>(shape_.size(), 0), shape_); }

}  // namespace slotscope::trace
