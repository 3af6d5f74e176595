// The HDF5 sink: writes a trace file so that a crash at any moment leaves a readable one (spec: architecture
// "Trace file", "Crash-safe by construction"; resources/trace-format.md).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/trace/sink.h"

namespace slotscope::trace {

struct WriterOptions {
  enum class Compress { deflate, none };
  enum class Swmr { automatic, off };
  Compress compress = Compress::deflate;  // shuffle + deflate level 1
  bool force = false;           // replace an existing file, and what an interrupted run left in NAME.part
  Swmr swmr = Swmr::automatic;  // automatic: on, but not on network file systems
  int64_t queue_bytes = int64_t(64) << 20;   // rows waiting for the writer thread; append() blocks above it
  int64_t reserve_bytes = int64_t(1) << 20;  // must stay free on the disk for closing the file properly
  std::string created;                       // ISO 8601; empty: now
  Attributes attributes;                     // more attributes of the root group
};

// Runs come one after another: the first rows of a run close the ones before it (later rows for those are
// still stored, but a crash then may cost them). A writer thread of its own owns the file; calls copy into a
// bounded queue. What the thread meets (disk full ...) is thrown by the next call, and once more by finish()
// when the caller asks for a complete file.
class Hdf5Sink : public Sink {
 public:
  // Claims NAME.part. Throws Error, before anything is computed: `out` exists and force is off; `out` is a
  // folder; its folder is missing or may not be written; another writer holds NAME.part; an interrupted run
  // left NAME.part and force is off.
  explicit Hdf5Sink(std::filesystem::path out, WriterOptions options = {});
  // Without finish(): as finish(Status::failed), errors swallowed.
  ~Hdf5Sink() override;

  void begin(const ModelSpec& model, const std::vector<RunSpec>& runs) override;
  void append(int run, int dataset, int64_t rows, std::vector<std::byte> data) override;
  void write(int run, int dataset, std::vector<std::byte> data) override;
  void tokens_done(int run, int64_t n) override;
  void set_spans(int run, std::vector<Span> spans) override;
  void set_exact(int run, bool exact) override;
  // complete, cancelled, partial (a repaired file): the last chunks, status, close, fsync, rename to NAME,
  // fsync of the folder. failed: the same without the rename: NAME.part stays, readable, and message() says
  // so. After an error of the writer thread finish(complete) throws it again; finish(failed) never throws.
  void finish(Status status) override;

  // Where the data are now: NAME.part until finish() has renamed it.
  std::filesystem::path file() const;
  // One sentence on what finish() left behind.
  const std::string& message() const;
  // No locks here, network file system: plain mode ... Complete once begin() has returned.
  const std::vector<std::string>& warnings() const;
  bool swmr() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slotscope::trace
