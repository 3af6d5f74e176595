// An open trace file, for the reader's own files. Every call expects a Hdf5Lock.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "core/trace/chunk_check.h"
#include "core/trace/hdf5_util.h"
#include "core/trace/trace.h"

namespace slotscope::trace {

[[noreturn]] void damaged(const std::string& file, const std::string& item, const std::string& found,
                          const std::string& expected = {});

// A dataset of numbers whose sizes have been checked against the size of the file.
struct Numbers {
  Handle id;
  ElementType type = ElementType::f64;
  std::vector<int64_t> shape, chunk;  // chunk empty: contiguous
  std::shared_ptr<ChunkCheck> check;  // of a dataset with filters, else null
  int64_t row_elements() const;
};

class Source {
 public:
  ~Source();
  // Opens read-only and without a lock; falls back to SWMR read. Throws Error.
  void open(const std::filesystem::path& path);

  // Throws Error when a step of the path is a soft or external link: no trace leads anywhere else.
  bool exists(const std::string& path) const;
  // The creation properties of a dataset. Throws Error for external and virtual ones, which would make HDF5 open
  // other files, and for a compact one whose bytes are fewer than its shape needs.
  Handle own_properties(hid_t dataset, const std::string& path) const;
  // Throws Error for a dataset that is none of numbers or whose sizes the file cannot hold.
  Numbers numbers(const std::string& path) const;
  // Rows [first, first+count) of `data`, all of the other axes or (head >= 0) only index `head` of axis 1.
  void read(const Numbers& data, const std::string& path, int64_t first, int64_t count, int64_t head,
            double* out) const;
  void read(const Numbers& data, const std::string& path, int64_t first, int64_t count, int64_t head,
            int64_t* out) const;
  // As stored (little endian of data.type).
  void read_bytes(const Numbers& data, const std::string& path, int64_t first, int64_t count,
                  void* out) const;
  // Up to `limit` rows (< 0: all) as T; empty when the dataset is absent.
  template <class T>
  std::vector<T> column(const std::string& path, int64_t limit) const;
  bool text(const std::string& path, std::string& value) const;
  std::vector<Span> spans(const std::string& path) const;
  // The dataset stays open for the next call: its chunk cache holds a row of chunks.
  const Numbers& cached(const std::string& path);

  hid_t file = -1;
  std::string name;
  int64_t file_size = 0;
  bool swmr = false;  // the writer did not close the file: it died, or is still at work

 private:
  // As own_properties, with a limit of values and a look at every chunk: for small datasets that are read as a whole.
  void require_sound(hid_t dataset, const std::string& path) const;
  void reopen_with_cache(Numbers& data, const std::string& path) const;
  void read_raw(const Numbers& data, const std::string& path, int64_t first, int64_t count, int64_t head,
                hid_t memory, void* out) const;
  std::list<std::pair<std::string, Numbers>> cache_;
};

// What the root group says.
struct FileState {
  Status status = Status::partial;
  int64_t tokens = -1;  // tokens_done over all runs, -1: missing
  bool only_run = true;
};

// "/runs/0000", ... in order.
std::vector<std::string> run_groups(const Source& source);

// Everything of one run but the layer data. Throws Error for damaged data.
RunInfo load_run(const Source& source, const std::string& group, const FileState& file);

}  // namespace slotscope::trace
