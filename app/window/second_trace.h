// The second trace of a comparison: opened, analysed and read head by head on a worker of its own, beside the one
// that the window shows.
#pragma once

#include <QObject>
#include <functional>
#include <memory>

#include "app/window/jobs.h"
#include "app/window/problem.h"
#include "core/analysis/head_data.h"
#include "views/view.h"
#include "views/worker.h"

namespace slotscope::app {

class SecondTrace : public QObject {
  Q_OBJECT
 public:
  SecondTrace(JobModel* jobs, QObject* parent);
  ~SecondTrace() override;

  // Opens the file and shows its run `run` (clamped). Returns at once; a newer call replaces an older one.
  void open(const QString& path, int run = 0);
  // A run of a trace that is open already.
  void show(std::shared_ptr<const trace::Trace> trace, int run);
  void close();
  // Answered by headChanged(); a newer request replaces an older one.
  void loadHead(int layer, int head);
  // How roles and regimes are counted: as in the window. Analyses again when they change.
  void setOptions(const analysis::AllocationOptions& allocation, const analysis::EslOptions& esl);
  const std::shared_ptr<const views::RunData>& runData() const { return run_; }

 Q_SIGNALS:
  void runChanged(std::shared_ptr<const slotscope::views::RunData> run, const QString& why);  // null: none, and why
  void headChanged(std::shared_ptr<const slotscope::analysis::HeadData> head, const QString& why);
  void loadingChanged(bool loading, const QString& stage);
  void problem(const slotscope::app::Problem& problem);
  void opened(const QString& path);

 private:
  void start(const QString& name, std::function<std::shared_ptr<const trace::Trace>(Progress*)> open, int run,
             const QString& path);
  JobModel* jobs_;
  std::shared_ptr<const views::RunData> run_;
  std::shared_ptr<Progress> progress_;
  analysis::AllocationOptions allocation_;
  analysis::EslOptions esl_;
  int run_job_ = 0, head_job_ = 0;
  int ticket_ = 0, head_ticket_ = 0;
  views::Worker worker_;  // last: its thread ends before anything it uses goes
};

// The model's name as the window writes it: the checkpoint folder's, else the family.
QString traceModelName(const trace::Trace& trace);
// A run with its summary, as views take it. Throws what the analysis throws; null when progress asks to stop.
std::shared_ptr<const views::RunData> readRunData(std::shared_ptr<const trace::Trace> trace, int run,
                                                  const analysis::AllocationOptions& allocation = {},
                                                  const analysis::EslOptions& esl = {}, Progress* progress = nullptr);
// One head for a view, or why there is none: what core says, in one sentence.
std::shared_ptr<const analysis::HeadData> readHead(const views::RunData& run, int layer, int head, QString* why);

}  // namespace slotscope::app
