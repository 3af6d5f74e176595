#include "app/window/second_trace.h"

#include <QFileInfo>
#include <algorithm>
#include <optional>

#include "core/error.h"

namespace slotscope::app {

QString traceModelName(const trace::Trace& trace) {
  const QString folder = QString::fromStdString(trace.model().checkpoint);
  const QString name = QFileInfo(QFileInfo(folder).absoluteFilePath()).fileName();
  return folder.isEmpty() || name.isEmpty() ? QString::fromStdString(trace.model().family) : name;
}

std::shared_ptr<const views::RunData> readRunData(std::shared_ptr<const trace::Trace> trace, int run,
                                                  const analysis::AllocationOptions& allocation,
                                                  const analysis::EslOptions& esl, Progress* progress) {
  auto data = std::make_shared<views::RunData>();
  data->run = run;
  data->allocation = allocation;
  data->esl = esl;
  data->summary = analysis::summarise(*trace, run, allocation, esl, progress);
  if (progress && progress->cancel_requested()) return nullptr;
  data->model_name = traceModelName(*trace);
  const QString device = QString::fromStdString(trace->model().device).toUpper();
  const QString dtype = QString::fromStdString(trace->model().dtype);
  data->device_text = device.isEmpty() ? dtype : dtype.isEmpty() ? device : device + QStringLiteral(" · ") + dtype;
  data->trace = std::move(trace);
  return data;
}

std::shared_ptr<const analysis::HeadData> readHead(const views::RunData& run, int layer, int head, QString* why) {
  const auto& layers = run.info().layers;
  if (layer < 0 || size_t(layer) >= layers.size()) {
    *why = QStringLiteral("This trace has no layer %1").arg(layer);
    return nullptr;
  }
  try {
    return analysis::load_head(*run.trace, run.run, layers[size_t(layer)].index, head, run.allocation, run.esl);
  } catch (const Error& e) {
    // The file is named elsewhere; here what is missing in it counts.
    const auto& parts = e.parts();
    QString text = QString::fromStdString(parts.item + (parts.item.empty() || parts.found.empty() ? "" : ": ") + parts.found);
    if (!parts.advice.empty()) text += QStringLiteral(". ") + QString::fromStdString(parts.advice);
    *why = text.isEmpty() ? QString::fromUtf8(e.what()) : text;
  } catch (const std::exception& e) {
    *why = QString::fromUtf8(e.what());
  }
  return nullptr;
}

SecondTrace::SecondTrace(JobModel* jobs, QObject* parent) : QObject(parent), jobs_(jobs) {}

SecondTrace::~SecondTrace() {
  if (progress_) progress_->request_cancel();
}

void SecondTrace::open(const QString& path, int run) {
  start(QStringLiteral("Open ") + QFileInfo(path).fileName(),
        [path](Progress* progress) -> std::shared_ptr<const trace::Trace> {
          return trace::Trace::open(path.toStdString(), progress);
        },
        run, path);
}

void SecondTrace::show(std::shared_ptr<const trace::Trace> trace, int run) {
  start(QStringLiteral("Analyse the second trace"), [trace](Progress*) { return trace; }, run, {});
}

void SecondTrace::close() {
  ++ticket_;
  ++head_ticket_;
  if (progress_) progress_->request_cancel();
  run_ = nullptr;
  Q_EMIT loadingChanged(false, {});
  Q_EMIT runChanged(nullptr, {});
}

void SecondTrace::start(const QString& name, std::function<std::shared_ptr<const trace::Trace>(Progress*)> open,
                        int run, const QString& path) {
  const int ticket = ++ticket_;
  ++head_ticket_;
  if (progress_) progress_->request_cancel();
  if (run_job_) jobs_->end(run_job_, JobState::cancelled, QStringLiteral("replaced by a newer request"));
  auto progress = progress_ = std::make_shared<Progress>();
  progress->begin_stage("opening", 0);
  run_ = nullptr;
  Q_EMIT runChanged(nullptr, QStringLiteral("Reading the second trace."));
  Q_EMIT loadingChanged(true, QStringLiteral("reading the second trace"));
  const int job = run_job_ = jobs_->start(name, progress, true);
  worker_.post(QStringLiteral("second"), this,
               [this, open, run, ticket, job, progress, name, path, allocation = allocation_, esl = esl_]() -> views::Worker::Done {
                 std::shared_ptr<const views::RunData> data;
                 std::optional<Problem> failure;
                 try {
                   auto trace = open(progress.get());
                   if (trace->run_count() == 0)
                     throw Error({.file = trace->path().string(), .item = "runs", .found = "none"});
                   data = readRunData(trace, std::clamp(run, 0, trace->run_count() - 1), allocation, esl, progress.get());
                 } catch (const std::exception& e) {
                   failure = problemFrom(e, name);
                 }
                 return [this, data, failure, ticket, job, progress, path] {
                   const bool stopped = progress->cancel_requested();
                   jobs_->end(job, stopped ? JobState::cancelled : failure ? JobState::failed : JobState::finished,
                              failure && !stopped ? failure->summary : QString());
                   if (ticket != ticket_) return;
                   Q_EMIT loadingChanged(false, {});
                   run_ = stopped ? nullptr : data;
                   if (failure && !stopped) Q_EMIT problem(*failure);
                   if (run_ && !path.isEmpty()) Q_EMIT opened(path);
                   Q_EMIT runChanged(run_, run_ ? QString() : stopped ? QStringLiteral("Opening was cancelled.") : QStringLiteral("The second trace could not be opened."));
                 };
               });
}

void SecondTrace::loadHead(int layer, int head) {
  if (!run_) return;
  const int ticket = ++head_ticket_;
  if (head_job_) jobs_->end(head_job_, JobState::cancelled, {});
  auto progress = std::make_shared<Progress>();
  progress->begin_stage("reading routes", 0);
  const int job = head_job_ = jobs_->start(QStringLiteral("Read layer %1 head %2 of B").arg(layer).arg(head), progress, true);
  Q_EMIT loadingChanged(true, QStringLiteral("reading layer %1 head %2 of B").arg(layer).arg(head));
  worker_.post(QStringLiteral("second head"), this, [this, run = run_, layer, head, ticket, job]() -> views::Worker::Done {
    QString why;
    auto data = readHead(*run, layer, head, &why);
    return [this, data, why, ticket, job] {
      jobs_->end(job, JobState::finished, {});
      if (ticket != head_ticket_) return;
      Q_EMIT loadingChanged(false, {});
      Q_EMIT headChanged(data, why);
    };
  });
}

void SecondTrace::setOptions(const analysis::AllocationOptions& a, const analysis::EslOptions& e) {
  const bool same = a.threshold == allocation_.threshold && a.tau == allocation_.tau &&
                    a.retrieval_head == allocation_.retrieval_head && e.low == esl_.low && e.high == esl_.high;
  allocation_ = a, esl_ = e;
  if (!same && run_) show(run_->trace, run_->run);
}

}  // namespace slotscope::app
