// -log p(token) in nats from captured logits, read away from the GUI thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "views/view.h"

namespace slotscope::views {

// Values for tokens [first, first + count) of the run: from output/logits (row t-1 predicts token t), else,
// for generated tokens, from the captured candidates. NaN where neither is known. Reads the trace: not for
// the GUI thread.
std::vector<double> surprisals(const RunData& run, int64_t first, int64_t count);
// The part that needs no reading: generated tokens from top_logprob. NaN elsewhere.
double candidateSurprisal(const trace::RunInfo& info, int64_t token);
bool hasLogits(const RunData& run);

// Runs surprisals() on a thread of its own and hands the result to `done` on the GUI thread while `receiver`
// lives.
class SurprisalReader {
 public:
  void request(QObject* receiver, std::shared_ptr<const RunData> run, int64_t first, int64_t count,
               std::function<void(int64_t first, std::vector<double>)> done);

 private:
  std::unique_ptr<Worker> worker_;
};

}  // namespace slotscope::views
