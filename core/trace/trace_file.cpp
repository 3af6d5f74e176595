#include "core/trace/trace_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace slotscope::trace {
namespace {

// Superblock version 3 (the one of SWMR files), 8-byte offsets: signature 8, version, two sizes, flags, base
// address, extension address, end of file, root address, checksum.
constexpr size_t kSuperblockBytes = 48, kSuperblockEnd = 28;

// Refuses early when the disk (or the file size allowed to this process) is nearly used up, while there is
// still room to close the file properly.
void require_space(const std::filesystem::path& part, int64_t bytes, int64_t reserve) {
  const int64_t wanted = bytes + reserve;
  struct statvfs info {};
  if (statvfs(part.c_str(), &info) == 0 && info.f_blocks > 0 &&
      (unsigned __int128)(info.f_bavail) * info.f_frsize < (unsigned __int128)(std::max<int64_t>(wanted, 0)))
    throw disk_full(part.string(), "the disk is full");
  rlimit limit{};
  std::error_code ignored;
  if (wanted > 0 && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      std::filesystem::file_size(part, ignored) + uint64_t(wanted) > limit.rlim_cur)
    throw disk_full(part.string(), "the file reached the largest size allowed here");
}

}  // namespace

TraceFile::~TraceFile() {
  if (file_ < 0) return;
  try {
    close(Status::failed, true);
  } catch (const std::exception&) {  // nobody left to tell
  }
}

hid_t TraceFile::open(Column& column) {
  if (column.dataset) return column.dataset;
  const Handle access(H5Pcreate(H5P_DATASET_ACCESS));
  H5Pset_chunk_cache(access, 0, 0, 1.0);  // whole chunks are written once: a cache would only hold them back
  column.dataset = Handle(
      checked(H5Dopen2(file_, column.path.c_str(), access), name_, column.path, "cannot open the dataset"));
  return column.dataset;
}

void TraceFile::store(Column& column, const std::byte* rows, int64_t count) {
  if (count == 0) return;
  require_space(part_, count * column.row_bytes, options_.reserve_bytes);
  const hid_t dataset = open(column);
  std::vector<hsize_t> size{hsize_t(column.stored + count)}, start{hsize_t(column.stored)},
      extent{hsize_t(count)};
  for (int64_t n : column.spec.shape) {
    size.push_back(hsize_t(n));
    start.push_back(0);
    extent.push_back(hsize_t(n));
  }
  if (H5Dset_extent(dataset, size.data()) < 0) fail_hdf5(name_, column.path, "cannot grow the dataset");
  const Handle space(H5Dget_space(dataset)),
      memory(H5Screate_simple(int(extent.size()), extent.data(), nullptr));
  const Handle type = element_type(column.spec.type);
  if (H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr) < 0 ||
      H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, rows) < 0)
    fail_hdf5(name_, column.path, "cannot write rows");
  // In plain mode a flush of one dataset would leave an index that points beyond the end the superblock
  // knows: the whole file is flushed when tokens are done.
  if (swmr_ && H5Dflush(dataset) < 0) fail_hdf5(name_, column.path, "cannot flush rows");
  column.stored += count;
}

void TraceFile::append(int run, int dataset, int64_t rows, const std::vector<std::byte>& data) {
  // Runs come one after another: what came before is over, so its last chunks need no memory and survive a
  // crash from here on.
  for (; current_ < run; ++current_) {
    flush_rest(runs_[size_t(current_)]);
    for (Column& c : runs_[size_t(current_)].columns) c.dataset.reset();
  }
  Run& r = runs_[size_t(run)];
  Column& c = r.columns[size_t(dataset)];
  c.handed += rows;
  const int64_t chunk_rows = c.chunk[0], chunk_bytes = chunk_rows * c.row_bytes;
  if (c.row_bytes == 0) {  // rows without content (a restricted field with no head): only the length counts
    return;
  }
  const std::byte* at = data.data();
  int64_t left = int64_t(data.size());
  while (left > 0) {
    if (c.buffer.empty() && left >= chunk_bytes) {
      store(c, at, chunk_rows);
      at += chunk_bytes;
      left -= chunk_bytes;
      continue;
    }
    const int64_t take = std::min(left, chunk_bytes - int64_t(c.buffer.size()));
    c.buffer.insert(c.buffer.end(), at, at + take);
    at += take;
    left -= take;
    if (int64_t(c.buffer.size()) == chunk_bytes) {
      store(c, c.buffer.data(), chunk_rows);
      c.buffer.clear();
    }
  }
  advance(r);
}

void TraceFile::write(int run, int dataset, const std::vector<std::byte>& data) {
  Run& r = runs_[size_t(run)];
  Column& c = r.columns[size_t(dataset)];
  const hid_t id = open(c);
  const Handle type = element_type(c.spec.type);
  if (!data.empty() && H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data()) < 0)
    fail_hdf5(name_, c.path, "cannot write the dataset");
  rewrite_attribute(id, "tokens_covered", r.announced, name_);
  if (H5Dflush(id) < 0) fail_hdf5(name_, c.path, "cannot flush the dataset");
}

void TraceFile::tokens_done(int run, int64_t n) {
  Run& r = runs_[size_t(run)];
  r.announced = std::max(r.announced, n);
  Mark mark{r.announced, {}};
  for (const Column& c : r.columns) mark.rows.push_back(c.handed);
  r.marks.push_back(std::move(mark));
  advance(r);
}

// tokens_done in the file moves only to a mark all of whose rows are stored: readers never go past it.
void TraceFile::advance(Run& r) {
  int64_t n = r.done;
  while (!r.marks.empty()) {
    const Mark& mark = r.marks.front();
    for (size_t i = 0; i < r.columns.size(); ++i)
      if (r.columns[i].spec.growing && r.columns[i].row_bytes > 0 && r.columns[i].stored < mark.rows[i]) {
        if (n > r.done) put_tokens_done(r, n);
        return;
      }
    n = mark.tokens;
    r.marks.pop_front();
  }
  if (n > r.done) put_tokens_done(r, n);
}

void TraceFile::put_tokens_done(Run& r, int64_t n) {
  r.done = n;
  if (!swmr_) flush("rows");
  const Handle group(
      checked(H5Gopen2(file_, r.path.c_str(), H5P_DEFAULT), name_, r.path, "cannot open the group"));
  rewrite_attribute(group, "tokens_done", n, name_);
  int64_t total = 0;
  for (const Run& run : runs_) total += run.done;
  rewrite_attribute(file_, "tokens_done", total, name_);
  flush("tokens_done");
}

void TraceFile::flush(const char* what) {
  if (H5Fflush(file_, H5F_SCOPE_LOCAL) < 0) fail_hdf5(name_, what, "cannot flush the file");
}

void TraceFile::set_spans(int run, const std::vector<Span>& spans) {
  const std::string path = runs_[size_t(run)].path + "/prompt/spans";
  const Handle dataset(
      checked(H5Dopen2(file_, path.c_str(), H5P_DEFAULT), name_, path, "cannot open the dataset"));
  std::vector<SpanRecord> records;
  for (const Span& span : spans) records.push_back(span_record(span));
  const hsize_t n = records.size();
  if (H5Dset_extent(dataset, &n) < 0) fail_hdf5(name_, path, "cannot resize the spans");
  const Handle type = span_type();
  if (n > 0 && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, records.data()) < 0)
    fail_hdf5(name_, path, "cannot write the spans");
  if (H5Dflush(dataset) < 0) fail_hdf5(name_, path, "cannot flush the spans");
}

void TraceFile::set_exact(int run, bool exact) {
  const std::string path = runs_[size_t(run)].path + "/prompt/answer";
  if (H5Lexists(file_, path.c_str(), H5P_DEFAULT) <= 0)
    return;  // no expected answer: nothing to be exact about
  const Handle dataset(
      checked(H5Dopen2(file_, path.c_str(), H5P_DEFAULT), name_, path, "cannot open the dataset"));
  rewrite_attribute(dataset, "exact", exact ? 1 : 0, name_);
}

// A partly filled chunk that is written once and never again is as safe as a full one.
void TraceFile::flush_rest(Run& r) {
  for (Column& c : r.columns) {
    if (!c.spec.growing) continue;
    if (!c.buffer.empty()) store(c, c.buffer.data(), int64_t(c.buffer.size()) / c.row_bytes);
    std::vector<std::byte>().swap(c.buffer);
    if (c.row_bytes == 0 && c.handed > 0) {
      std::vector<hsize_t> size{hsize_t(c.handed)};
      for (int64_t n : c.spec.shape) size.push_back(hsize_t(n));
      if (H5Dset_extent(open(c), size.data()) < 0) fail_hdf5(name_, c.path, "cannot grow the dataset");
      c.stored = c.handed;
    }
  }
  advance(r);
}

// After a failed write HDF5 may close the file with an end that lies beyond the bytes on the disk, and then
// refuses it as truncated. The superblock from the start of SWMR write says "a writer is at work" instead, as
// after a crash: readers then go to the last flushed chunk.
void TraceFile::restore_superblock() {
  if (superblock_.size() != kSuperblockBytes) return;
  const int descriptor = ::open(name_.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return;
  std::string now(kSuperblockBytes, '\0');
  struct stat info {};
  uint64_t end = 0;
  if (pread(descriptor, now.data(), now.size(), 0) == ssize_t(now.size()) && fstat(descriptor, &info) == 0) {
    std::memcpy(&end, now.data() + kSuperblockEnd, sizeof end);
    if (end > uint64_t(info.st_size) && pwrite(descriptor, superblock_.data(), superblock_.size(), 0) < 0) {
      // Nothing more can be done here: repair will say what is wrong.
    }
  }
  ::close(descriptor);
}

void TraceFile::remember_superblock() {
  const int descriptor = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  superblock_.resize(kSuperblockBytes);
  const bool version3 =
      pread(descriptor, superblock_.data(), superblock_.size(), 0) == ssize_t(kSuperblockBytes) &&
      superblock_[8] == 3 && superblock_[9] == 8;
  if (!version3) superblock_.clear();
  ::close(descriptor);
}

void TraceFile::close(Status status, bool broken) {
  if (file_ < 0) return;
  std::exception_ptr first;
  const auto attempt = [&](auto action) {
    try {
      action();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  };
  if (!broken)
    for (Run& r : runs_) attempt([&] { flush_rest(r); });
  // An error while closing must not leave the word "complete" behind.
  attempt([&] { rewrite_attribute(file_, "status", int64_t(first ? Status::failed : status), name_); });
  for (Run& r : runs_)
    for (Column& c : r.columns) c.dataset.reset();
  attempt([&] { flush("status"); });
  if (H5Fclose(file_) < 0) attempt([&] { fail_hdf5(name_, "", "cannot close the file"); });
  file_ = -1;
  if (broken || first) restore_superblock();
  if (first) std::rethrow_exception(first);
}

}  // namespace slotscope::trace
