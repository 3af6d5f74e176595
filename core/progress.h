// Progress and cancel of one long piece of work. Written by the worker, polled by anyone; never calls back.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace slotscope {

class Progress {
 public:
  struct Snapshot {
    std::string stage;   // "loading weights", "running", "reading routes" ...
    std::string detail;  // "layer 2 of 4"
    int64_t done = 0;
    int64_t total = 0;  // 0: not known yet
    double stage_seconds = 0;
  };

  void begin_stage(std::string stage, int64_t total);
  void set_detail(std::string detail);
  void set(int64_t done) { done_ = done; }
  void add(int64_t n) { done_ += n; }
  Snapshot snapshot() const;

  void request_cancel() { cancel_ = true; }
  bool cancel_requested() const { return cancel_; }

 private:
  mutable std::mutex mutex_;
  std::string stage_, detail_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::atomic<int64_t> done_{0}, total_{0};
  std::atomic<bool> cancel_{false};
};

}  // namespace slotscope
