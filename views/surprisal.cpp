#include "views/surprisal.h"

#include <algorithm>
#include <cmath>

#include "views/caption.h"

namespace slotscope::views {

namespace {
const std::string kLogits = "output/logits";
}

bool hasLogits(const RunData& run) {
  if (!run.trace || !hasInfo(run)) return false;
  const auto* found = run.info().find(kLogits);
  return found && found->shape.size() == 2 && found->shape[0] > 0 && found->shape[1] > 0;
}

double candidateSurprisal(const trace::RunInfo& info, int64_t token) {
  const int64_t step = token - info.prompt_tokens;
  if (step < 0 || info.candidates <= 0 || size_t(step) >= info.output_ids.size()) return std::nan("");
  for (int64_t c = 0; c < info.candidates; ++c) {
    const auto at = size_t(step * info.candidates + c);
    if (at < info.top_ids.size() && at < info.top_logprob.size() &&
        info.top_ids[at] == info.output_ids[size_t(step)])
      return -info.top_logprob[at];
  }
  return std::nan("");
}

std::vector<double> surprisals(const RunData& run, int64_t first, int64_t count) {
  std::vector<double> values(size_t(std::max<int64_t>(0, count)), std::nan(""));
  if (!hasInfo(run)) return values;
  const auto& info = run.info();
  for (int64_t t = first; t < first + count; ++t) values[size_t(t - first)] = candidateSurprisal(info, t);
  if (!hasLogits(run)) return values;
  const auto* data = info.find(kLogits);
  const int64_t vocabulary = data->shape[1];
  const int64_t rows_at_once = std::max<int64_t>(1, 4'000'000 / vocabulary);
  // Row t-1 predicts token t.
  const int64_t last = std::min({first + count, data->shape[0] + 1, info.tokens});
  for (int64_t t = std::max<int64_t>(1, first); t < last; t += rows_at_once) {
    const int64_t rows = std::min(rows_at_once, last - t);
    const auto logits = run.trace->read(run.run, kLogits, t - 1, rows);
    for (int64_t r = 0; r < rows && (r + 1) * vocabulary <= int64_t(logits.size()); ++r) {
      const double* row = logits.data() + r * vocabulary;
      const int64_t id = size_t(t + r) < info.ids.size() ? info.ids[size_t(t + r)] : -1;
      if (id < 0 || id >= vocabulary) continue;
      const double most = *std::max_element(row, row + vocabulary);
      double sum = 0;
      for (int64_t v = 0; v < vocabulary; ++v) sum += std::exp(row[v] - most);
      values[size_t(t + r - first)] = most + std::log(sum) - row[id];
    }
  }
  return values;
}

void SurprisalReader::request(QObject* receiver, std::shared_ptr<const RunData> run, int64_t first,
                              int64_t count, std::function<void(int64_t, std::vector<double>)> done) {
  if (!worker_) worker_ = std::make_unique<Worker>();
  worker_->post(QStringLiteral("surprisal"), receiver, [run, first, count, done]() -> Worker::Done {
    auto values = surprisals(*run, first, count);
    return [first, values = std::move(values), done] { done(first, values); };
  });
}

}  // namespace slotscope::views
