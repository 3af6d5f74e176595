// Runs, what they will cost, saving their traces.
#include <QDir>
#include <QFile>
#include <QFileInfo>

#include "app/window/controller.h"
#include "app/window/engine_loader.h"
#include "app/window/run_task.h"
#include "views/format.h"

namespace slotscope::app {

QString Controller::newTraceFile() {
  return folder_.filePath(QString("run-%1.h5").arg(++files_, 4, 10, QChar('0')));
}

void Controller::run(const RunSettings& settings) {
  if (running()) {
    Q_EMIT note("A run is in progress: cancel it first (Ctrl+.)");
    return;
  }
  if (!checkpoint_ || !checkpoint_->info) {
    Problem p = warning(checkpoint_ ? QString("%1 cannot be run. %2").arg(checkpoint_->name, checkpoint_->why)
                                    : QString("Open a checkpoint folder before running a prompt."),
                        "cannot-run");
    const QString folder = trace_ ? QString::fromStdString(trace_->trace->model().checkpoint) : QString();
    if (!checkpoint_ && !folder.isEmpty() && QFileInfo(folder).exists()) {
      p.summary = QString("This trace was made from %1, which is not open.").arg(folder);
      p.action = "Open it";
      p.on_action = [this, folder] { openCheckpoint(folder); };
    }
    Q_EMIT problem(p);
    return;
  }
  if (!folder_.isValid()) {
    Problem p;
    p.summary = QString(
                    "No private folder for traces could be made in %1: %2. Set TMPDIR to a folder that can "
                    "be written.")
                    .arg(QDir::tempPath(), folder_.errorString());
    Q_EMIT problem(p);
    return;
  }
  auto progress = std::make_shared<Progress>();
  progress->begin_stage("waiting", 0);
  run_job_ = jobs_.start(settings.jobName(), progress);
  Q_EMIT runningChanged(true);
  Q_EMIT logged(QString("%1 on %2, %3").arg(settings.jobName(), settings.device, settings.dtype));
  RunTask task{checkpoint_, settings, newTraceFile().toStdString(), progress, engine_state_};
  engine_.post("run", this, [this, task, job = run_job_]() -> views::Worker::Done {
    auto result = std::make_shared<RunResult>(task());
    return [this, result, job, settings = task.settings] { runEnded(job, settings, result); };
  });
}

void Controller::cancelRun() {
  if (run_job_) jobs_.cancel(run_job_);
}

void Controller::runEnded(int job, const RunSettings& settings, std::shared_ptr<RunResult> result) {
  const Job* known = jobs_.find(job);
  const double seconds = known ? double(known->since.elapsed()) / 1000 : 0;
  run_job_ = 0;
  for (const auto& n : result->notes) Q_EMIT logged(QString::fromStdString(n));
  for (const auto& w : result->warnings) Q_EMIT logged("Warning: " + QString::fromStdString(w));
  Q_EMIT problemSolved("odd-prompts");
  if (!result->warnings.empty() && result->trace)
    Q_EMIT problem(warning(
        result->warnings.size() == 1
            ? QString("An imported prompt is odd: %1.").arg(QString::fromStdString(result->warnings[0]))
            : QString("%1 imported prompts are odd, see the log. The first: %2.")
                  .arg(result->warnings.size())
                  .arg(QString::fromStdString(result->warnings[0])),
        "odd-prompts"));
  const bool cancelled = (result->outcome && result->outcome->status == trace::Status::cancelled) ||
                         (!result->outcome && known && known->progress->cancel_requested());
  qint64 tokens = 0;
  if (result->outcome)
    for (const auto& r : result->outcome->runs) tokens += r.tokens;
  std::function<void()> open;
  if (result->trace) {
    result->trace->seconds = seconds;
    open = [this, trace = result->trace] { showTrace(trace); };
  }
  QString text;
  if (cancelled) {
    qint64 planned = 0;
    if (result->trace)
      for (int i = 0; i < result->trace->trace->run_count(); ++i)
        planned += result->trace->trace->run(i).planned_tokens;
    text = result->trace && planned > 0
               ? QString("cancelled, %1 of %2 tokens kept").arg(views::count(tokens), views::count(planned))
               : QString("cancelled before the first token");
    jobs_.end(job, JobState::cancelled, text, open);
    Q_EMIT note(settings.jobName() + ": " + text);
  } else if (result->failure) {
    text = result->failure->summary;
    jobs_.end(job, JobState::failed, text, open);
    Q_EMIT problem(*result->failure);
  } else {
    text = QString("%1 tokens in %2").arg(views::count(tokens), views::seconds(seconds));
    jobs_.end(job, JobState::finished, text, open);
    if (tokens > 0) seconds_per_token_ = result->outcome->seconds / double(tokens);
    for (const auto& n : result->outcome->notes) Q_EMIT logged(QString::fromStdString(n));
    if (result->outcome->ties > 0)
      Q_EMIT logged(
          QString("%1 tied cuts, decided for the lower slot").arg(views::count(result->outcome->ties)));
    if (seconds > 10) Q_EMIT note(settings.jobName() + " finished: " + text);
  }
  Q_EMIT logged(settings.jobName() + ": " + text);
  Q_EMIT runningChanged(false);
  if (result->trace && !cancelled && !result->failure)
    showTrace(result->trace);
  else if (result->trace)
    session_.push_back(result->trace), Q_EMIT tracesChanged();
}

void Controller::saveTrace(const QString& path) {
  if (!trace_) return;
  auto progress = std::make_shared<Progress>();
  progress->begin_stage("copying", QFileInfo(trace_->path).size());
  const int job = jobs_.start("Save " + QFileInfo(path).fileName(), progress);
  io_.post("save " + path, this, [this, path, job, progress, trace = trace_]() -> views::Worker::Done {
    QString error;
    QFile from(trace->path), to(path + ".part");
    if (!from.open(QIODevice::ReadOnly))
      error = from.fileName() + ": " + from.errorString();
    else if (!to.open(QIODevice::WriteOnly | QIODevice::Truncate))
      error = to.fileName() + ": " + to.errorString();
    while (error.isEmpty() && !progress->cancel_requested()) {
      const QByteArray block = from.read(4 << 20);
      if (block.isEmpty()) break;
      if (to.write(block) != block.size()) error = to.fileName() + ": " + to.errorString();
      progress->add(block.size());
    }
    if (error.isEmpty() && !progress->cancel_requested() && !to.flush())
      error = to.fileName() + ": " + to.errorString();
    to.close();
    const bool cancelled = progress->cancel_requested();
    if (error.isEmpty() && !cancelled) {
      // The old file goes only when the new one is whole: rename replaces it in one step.
      if (std::rename(to.fileName().toUtf8().constData(), path.toUtf8().constData()) != 0)
        error = QString("%1: %2").arg(path, QString::fromLocal8Bit(strerror(errno)));
    }
    if (!error.isEmpty() || cancelled) QFile::remove(to.fileName());
    return [this, path, job, error, cancelled, trace] {
      if (!error.isEmpty()) {
        jobs_.end(job, JobState::failed, error);
        Q_EMIT problem(
            {.summary =
                 QString("The trace could not be saved. %1. Choose another place: File > Save trace as…")
                     .arg(error),
             .details = error});
        return;
      }
      jobs_.end(job, cancelled ? JobState::cancelled : JobState::finished, cancelled ? "cancelled" : path);
      if (cancelled) return;
      trace->saved_as = path;
      Q_EMIT opened(path, "trace");
      Q_EMIT note("Saved " + QFileInfo(path).fileName());
      Q_EMIT tracesChanged();
    };
  });
}

void Controller::estimate(const RunSettings& settings) {
  if (!checkpoint_ || !checkpoint_->info) {
    Q_EMIT estimateChanged({}, true);
    return;
  }
  if (settings.mode == RunSettings::Mode::file) {
    Q_EMIT estimateChanged(settings.rows.isEmpty() ? QString("all rows of the file") : QString(), true);
    return;
  }
  qint64 tokens = settings.length + 10;
  if (settings.mode == RunSettings::Mode::text)
    tokens = settings.text.toUtf8().size() + std::max<qint64>(0, settings.generate);
  if (settings.mode == RunSettings::Mode::ids)
    tokens = settings.ids.count(',') + 1 + std::max<qint64>(0, settings.generate);
  // At once from the shapes; the loaded model's own answer follows, unless it is busy running.
  const CostEstimate rough = estimateRough(settings, *checkpoint_->info, tokens, seconds_per_token_);
  Q_EMIT estimateChanged(rough.text, rough.fits);
  if (running()) return;
  engine_.post("estimate", this,
               [this, settings, checkpoint = checkpoint_, state = engine_state_,
                spt = seconds_per_token_]() -> views::Worker::Done {
                 const auto exact = estimateLoaded(settings, *checkpoint, *state);
                 return [this, exact, checkpoint] {
                   if (exact && checkpoint == checkpoint_) Q_EMIT estimateChanged(exact->text, exact->fits);
                 };
               });
}

void Controller::countTokens(const QString& text) {
  if (!checkpoint_ || !checkpoint_->tokenizer) {
    Q_EMIT tokenCountChanged(-1);
    return;
  }
  io_.post("count", this, [this, text, checkpoint = checkpoint_]() -> views::Worker::Done {
    qint64 count = -1;
    try {
      count = qint64(checkpoint->tokenizer->encode(text.toStdString()).ids.size());
    } catch (const std::exception&) {
      // Shown when it is run; while typing there is just no count.
    }
    return [this, count] { Q_EMIT tokenCountChanged(count); };
  });
}

void Controller::openPrompts(const QString& path) {
  auto progress = std::make_shared<Progress>();
  progress->begin_stage("listing prompts", 0);
  const QString name = QFileInfo(path).fileName();
  const int job = startReading("prompts", "Open " + name, progress);
  io_.post("prompts", this, [this, path, name, job, progress]() -> views::Worker::Done {
    std::shared_ptr<const formats::PromptFile> file;
    std::optional<Problem> failure;
    try {
      file = formats::PromptFile::open(path.toStdString(), formats::PromptFormat::automatic, progress.get());
    } catch (const std::exception& e) {
      failure = problemFrom(e, "Opening " + path);
    }
    return [this, path, name, job, progress, file, failure] {
      const bool cancelled = progress->cancel_requested();
      jobs_.end(job,
                cancelled ? JobState::cancelled
                : failure ? JobState::failed
                          : JobState::finished,
                failure && !cancelled ? failure->summary : QString());
      if (cancelled) return;
      if (failure) {
        Q_EMIT problem(*failure);
        Q_EMIT logged("Could not open " + path);
        return;
      }
      Q_EMIT logged(QString("Opened %1: %2 prompts, read as %3")
                        .arg(path, views::count(file->rows()),
                             QString::fromStdString(std::string(formats::prompt_format_name(file->format())))));
      Q_EMIT opened(path, "prompts");
      Q_EMIT promptsOpened(file);
    };
  });
}

void Controller::findDevices() {
  io_.post("devices", this, [this]() -> views::Worker::Done {
    std::string why;
    std::vector<engine::DeviceInfo> found{{"cpu", "", 0, 0}};
    try {
      found = engineApi().devices(&why);
    } catch (const std::exception& e) {
      why = e.what();
    }
    return [this, found, why = QString::fromStdString(why)] { Q_EMIT devicesFound(found, why); };
  });
}

}  // namespace slotscope::app
