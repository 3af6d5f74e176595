// The HDF5 side of Hdf5Sink: used by the writer thread only.
#pragma once

#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "core/trace/hdf5_util.h"
#include "core/trace/sink.h"
#include "core/trace/writer.h"

namespace slotscope::trace {

class TraceFile {
 public:
  TraceFile(std::filesystem::path part, WriterOptions options, bool swmr)
      : part_(std::move(part)), name_(part_.string()), options_(std::move(options)), swmr_(swmr) {}
  ~TraceFile();

  // Every group, dataset, attribute and text; then SWMR write.
  void create(const ModelSpec& model, const std::vector<RunSpec>& runs);
  void append(int run, int dataset, int64_t rows, const std::vector<std::byte>& data);
  void write(int run, int dataset, const std::vector<std::byte>& data);
  void tokens_done(int run, int64_t n);
  void set_spans(int run, const std::vector<Span>& spans);
  void set_exact(int run, bool exact);
  // Last chunks (unless `broken`), status, close. Throws what goes wrong, always with the file closed.
  void close(Status status, bool broken);

 private:
  struct Column {
    DatasetSpec spec;
    std::string path;  // whole path in the file
    int64_t row_bytes = 0;
    std::vector<int64_t> chunk;     // growing only
    std::vector<std::byte> buffer;  // rows that do not fill a chunk yet
    int64_t handed = 0, stored = 0;
    Handle dataset;
  };
  struct Mark {
    int64_t tokens;
    std::vector<int64_t> rows;  // handed over per dataset when these tokens were done
  };
  struct Run {
    std::string path;
    std::vector<Column> columns;
    std::deque<Mark> marks;
    int64_t done = 0, announced = 0;  // in the file; told by the engine
  };

  void create_root(const ModelSpec& model);
  void create_run(hid_t runs_group, int index, const RunSpec& spec);
  void create_prompt(hid_t run, const RunSpec& spec);
  void create_column(hid_t run, const RunSpec& spec, Column& column);
  void start_swmr();
  hid_t open(Column& column);
  void store(Column& column, const std::byte* rows, int64_t count);
  void advance(Run& run);
  void put_tokens_done(Run& run, int64_t n);
  void flush(const char* what);
  void flush_rest(Run& run);
  void remember_superblock();
  void restore_superblock();

  std::filesystem::path part_;
  std::string name_;
  WriterOptions options_;
  bool swmr_;
  int current_ = 0;  // the run whose rows are coming
  hid_t file_ = -1;
  std::string superblock_;  // as SWMR write began
  std::deque<Run> runs_;    // grows without moving its columns
};

}  // namespace slotscope::trace
