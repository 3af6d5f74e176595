#include "core/progress.h"

namespace slotscope {

void Progress::begin_stage(std::string stage, int64_t total) {
  const std::lock_guard lock(mutex_);
  stage_ = std::move(stage);
  detail_.clear();
  started_ = std::chrono::steady_clock::now();
  done_ = 0;
  total_ = total;
}

void Progress::set_detail(std::string detail) {
  const std::lock_guard lock(mutex_);
  detail_ = std::move(detail);
}

Progress::Snapshot Progress::snapshot() const {
  const std::lock_guard lock(mutex_);
  return {stage_, detail_, done_, total_,
          std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count()};
}

}  // namespace slotscope
