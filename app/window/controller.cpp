#include "app/window/controller.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <algorithm>
#include <cmath>

#include "app/window/engine_loader.h"
#include "app/window/locations.h"
#include "app/window/run_task.h"
#include "core/analysis/theory_result.h"
#include "core/analysis/value_field_file.h"
#include "core/error.h"
#include "core/trace/result_file.h"
#include "views/format.h"

namespace slotscope::app {

namespace {

QString baseName(const QString& path) {
  const QFileInfo info(path);
  // A folder given as "." or with a closing slash has no name of its own in the text.
  return QFileInfo(info.absoluteFilePath()).canonicalFilePath().isEmpty()
             ? info.fileName()
             : QFileInfo(info.canonicalFilePath()).fileName();
}

}  // namespace

Controller::Controller(views::SelectionModel* selection, QObject* parent)
    : QObject(parent),
      selection_(selection),
      folder_(QDir::tempPath() + "/slotscope-XXXXXX"),
      engine_state_(std::make_shared<EngineState>()) {
  connect(selection_, &views::SelectionModel::changed, this,
          [this](const views::Selection&, int parts) { selectionChanged(parts); });
  connect(&tensor_reader_, &TensorReader::idle, this, &Controller::settledChanged);
  for (views::Worker* worker : {&io_, &analysis_, &draw_, &engine_}) {
    connect(worker, &views::Worker::failed, this, [this](const QString& tag, const QString& text) {
      Q_EMIT problem({.summary = QString("Unexpected error in %1: %2").arg(tag, text), .details = text});
    });
    connect(worker, &views::Worker::idle, this, &Controller::settledChanged, Qt::QueuedConnection);
  }
}

Controller::~Controller() {
  // Everything that runs is asked to stop; the workers then join within one layer of one segment.
  jobs_.cancelAll();
  if (head_progress_) head_progress_->request_cancel();
  if (summary_progress_) summary_progress_->request_cancel();
}

bool Controller::settled() const {
  return !jobs_.anyRunning() && !io_.busy() && !analysis_.busy() && !draw_.busy() && !engine_.busy() &&
         !tensor_reader_.busy();
}

bool Controller::hasUnsavedWork() const {
  return std::any_of(session_.begin(), session_.end(),
                     [](const auto& t) { return t->saved_as.isEmpty() && t->seconds > 60; });
}

QString Controller::modelName() const {
  if (trace_) {
    const QString name = baseName(QString::fromStdString(trace_->trace->model().checkpoint));
    if (!name.isEmpty()) return name;
    return QString::fromStdString(trace_->trace->model().family);
  }
  return checkpoint_ ? checkpoint_->name : QString();
}

// A newer request with the same tag replaces a queued one, which then never answers: its job ends here.
int Controller::startReading(const QString& tag, const QString& name, std::shared_ptr<Progress> progress) {
  if (const int before = reading_jobs_.value(tag))
    jobs_.end(before, JobState::cancelled, "replaced by a newer request");
  return reading_jobs_[tag] = jobs_.start(name, std::move(progress), true);
}

bool isPromptFile(const QString& path) {
  const QString suffix = QFileInfo(path).suffix().toLower();
  return QStringList{"jsonl", "ndjson", "json", "txt"}.contains(suffix) && kindOfPath(path) != PathKind::checkpoint;
}

void Controller::openPath(const QString& path) {
  if (kindOfPath(path) == PathKind::checkpoint)
    openCheckpoint(path);
  else if (isPromptFile(path))
    openPrompts(path);
  else
    openTrace(path);  // whatever it is: the reader says what is wrong with it
}

// What can be done about a failure here and now, beside what its text says.
static void offerWayOut(Problem& problem, const std::exception& error, std::function<void()> ignore_index) {
  const auto* known = dynamic_cast<const Error*>(&error);
  if (!known || known->parts().advice.find("--ignore-index") == std::string::npos) return;
  problem.action = "Ignore the index and scan files";
  problem.on_action = std::move(ignore_index);
}

void Controller::openCheckpoint(const QString& path, const QString& flavour, bool then_run,
                                const formats::OpenOptions& options) {
  const int ticket = ++opening_;
  auto progress = std::make_shared<Progress>();
  progress->begin_stage("reading headers", 0);
  const int job = startReading("checkpoint", "Open " + baseName(path), progress);
  io_.post("checkpoint", this, [this, path, flavour, then_run, options, ticket, job]() -> views::Worker::Done {
    auto result = std::make_shared<OpenCheckpoint>();
    result->path = path;
    result->name = baseName(path);
    result->flavour = flavour.toStdString();
    result->options = options;
    std::optional<Problem> failure;
    try {
      result->checkpoint = formats::Checkpoint::open(path.toStdString(), options);
      result->summary = formats::summarise_listing(*result->checkpoint);
      result->name = baseName(QString::fromStdString(result->checkpoint->folder().string()));
    } catch (const std::exception& e) {
      failure = problemFrom(e, "Opening " + path);
      auto scanning = options;
      scanning.ignore_index = true;
      if (!options.ignore_index)
        offerWayOut(*failure, e, [this, path, flavour, then_run, scanning] {
          openCheckpoint(path, flavour, then_run, scanning);
        });
    }
    if (!failure) {
      // A file that cannot be run can still be looked at.
      try {
        result->info =
            std::make_shared<engine::ModelInfo>(engineApi().inspect(*result->checkpoint, result->flavour));
      } catch (const std::exception& e) {
        result->why = QString::fromUtf8(e.what());
      }
      try {
        result->tokenizer = formats::Tokenizer::load(result->checkpoint->folder());
        if (!result->tokenizer)
          result->tokenizer_why = "This folder has no tokenizer: only token ids can be run.";
      } catch (const std::exception& e) {
        result->tokenizer_why = QString::fromUtf8(e.what());
      }
    }
    return [this, result, failure, then_run, ticket, job] {
      jobs_.end(job, failure ? JobState::failed : JobState::finished, failure ? failure->summary : QString());
      if (ticket != opening_ && !failure) return;  // a newer one was asked for meanwhile
      if (failure) {
        keep_selection_ = false;
        Q_EMIT problem(*failure);
        Q_EMIT logged("Could not open " + result->path);
        return;
      }
      adoptCheckpoint(result, then_run);
    };
  });
}

void Controller::chooseWeights(const QString& candidate) {
  if (!checkpoint_) return;
  auto options = checkpoint_->options;
  options.weights = candidate.toStdString();
  openCheckpoint(checkpoint_->path, QString::fromStdString(checkpoint_->flavour), false, options);
}

void Controller::adoptCheckpoint(std::shared_ptr<const OpenCheckpoint> checkpoint, bool then_run) {
  checkpoint_ = std::move(checkpoint);
  seconds_per_token_ = 0;
  tensor_reader_.setCheckpoint(checkpoint_);
  Q_EMIT checkpointChanged();
  Q_EMIT opened(checkpoint_->path, "checkpoint");
  Q_EMIT logged(QString("Opened %1: %2 tensors, %3")
                    .arg(checkpoint_->path, views::count(qint64(checkpoint_->checkpoint->tensors().size())),
                         views::bytes(qint64(checkpoint_->checkpoint->total_bytes()))));
  for (const auto& w : checkpoint_->checkpoint->warnings())
    Q_EMIT logged("Warning: " + QString::fromStdString(w));
  if (!checkpoint_->why.isEmpty()) {
    Problem p = warning(checkpoint_->why, "cannot-run");
    p.summary = QString("%1 can be looked at but not run. %2").arg(checkpoint_->name, checkpoint_->why);
    Q_EMIT problem(p);
  } else {
    Q_EMIT problemSolved("cannot-run");
  }
  if (then_run && checkpoint_->info) run(RunSettings{});
}

// The lab that shows a computed result; "" for results without one and for files that are none.
static QString labOfResult(const QString& path) {
  try {
    const std::string kind = trace::ResultFile::open(path.toStdString())->description().kind;
    return kind == analysis::kTheoryKind ? "theory" : kind == analysis::kValueFieldKind ? "value-field" : "";
  } catch (const std::exception&) {  // what Trace::open said stands
    return {};
  }
}

void Controller::openTrace(const QString& path) {
  const int ticket = ++opening_;
  auto progress = std::make_shared<Progress>();
  progress->begin_stage("opening", 0);
  const int job = startReading("trace " + path, "Open " + baseName(path), progress);
  io_.post("trace " + path, this, [this, path, ticket, job, progress]() -> views::Worker::Done {
    auto result = std::make_shared<OpenTrace>();
    result->path = path;
    result->saved_as = path;
    std::optional<Problem> failure;
    try {
      result->trace = trace::Trace::open(path.toStdString(), progress.get());
    } catch (const std::exception& e) {
      failure = problemFrom(e, "Opening " + path);
    }
    const QString lab = failure ? labOfResult(path) : QString();
    if (!lab.isEmpty()) failure.reset();
    return [this, result, failure, lab, ticket, job, progress] {
      const bool cancelled = progress->cancel_requested();
      jobs_.end(job,
                cancelled ? JobState::cancelled
                : failure ? JobState::failed
                          : JobState::finished,
                failure ? failure->summary : QString());
      if (cancelled) return;
      if (failure) {
        keep_selection_ = false;
        Q_EMIT problem(*failure);
        Q_EMIT logged("Could not open " + result->path);
        return;
      }
      Q_EMIT opened(result->path, "trace");
      if (!lab.isEmpty()) {
        keep_selection_ = false;
        Q_EMIT resultOpened(result->path, lab);
        return;
      }
      if (ticket == opening_)
        showTrace(result);
      else
        keepTrace(result);  // a newer one was asked for meanwhile: this one is in the list of prompts
    };
  });
}

void Controller::reload() {
  keep_selection_ = true;
  if (trace_)
    openTrace(trace_->path);
  else if (checkpoint_)
    openCheckpoint(checkpoint_->path, QString::fromStdString(checkpoint_->flavour), false, checkpoint_->options);
}
}  // namespace slotscope::app
