#include "app/window/jobs.h"

#include <algorithm>

#include "views/format.h"

namespace slotscope::app {

namespace {
constexpr int kept_jobs = 100;
}

JobModel::JobModel(QObject* parent) : QAbstractListModel(parent) {
  timer_.setInterval(30);
  connect(&timer_, &QTimer::timeout, this, &JobModel::poll);
}

int JobModel::start(const QString& name, std::shared_ptr<Progress> progress, bool quiet) {
  auto job = std::make_unique<Job>();
  job->id = next_++;
  job->name = name;
  job->quiet = quiet;
  job->progress = std::move(progress);
  job->since.start();
  const int id = job->id;
  beginInsertRows({}, 0, 0);
  jobs_.insert(jobs_.begin(), std::move(job));
  endInsertRows();
  timer_.start();
  Q_EMIT started(id);
  return id;
}

bool JobModel::end(int id, JobState state, const QString& result, std::function<void()> open) {
  Job* job = mutableJob(id);
  if (!job || job->state != JobState::running || state == JobState::running) return false;
  job->state = state;
  job->result = result;
  job->open = std::move(open);
  job->seconds = double(job->since.elapsed()) / 1000;
  const auto at = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& j) { return j->id == id; });
  const int row = int(at - jobs_.begin());
  if (job->quiet && state != JobState::failed) {
    // Reading a file is not worth a line once it worked or something newer took its place.
    beginRemoveRows({}, row, row);
    const auto held = std::move(*at);
    jobs_.erase(at);
    endRemoveRows();
  } else {
    Q_EMIT dataChanged(index(row), index(row));
  }
  if (int(jobs_.size()) > kept_jobs && jobs_.back()->state != JobState::running) {
    beginRemoveRows({}, int(jobs_.size()) - 1, int(jobs_.size()) - 1);
    jobs_.pop_back();
    endRemoveRows();
  }
  if (!anyRunning()) timer_.stop();
  Q_EMIT ended(id);
  return true;
}

void JobModel::cancel(int id) {
  if (Job* job = mutableJob(id); job && job->state == JobState::running) {
    job->progress->request_cancel();
    poll();
  }
}

void JobModel::cancelAll() {
  for (const auto& job : jobs_)
    if (job->state == JobState::running) job->progress->request_cancel();
}

Job* JobModel::mutableJob(int id) {
  for (const auto& job : jobs_)
    if (job->id == id) return job.get();
  return nullptr;
}

const Job* JobModel::find(int id) const { return const_cast<JobModel*>(this)->mutableJob(id); }

const Job* JobModel::visibleJob() const {
  for (const auto& job : jobs_)
    if (job->state == JobState::running && (!job->quiet || job->since.elapsed() > 1000)) return job.get();
  return nullptr;
}

bool JobModel::anyRunning() const {
  return std::any_of(jobs_.begin(), jobs_.end(), [](const auto& j) { return j->state == JobState::running; });
}

double JobModel::fraction(const Job& job) {
  const auto s = job.progress->snapshot();
  return s.total > 0 ? std::clamp(double(s.done) / double(s.total), 0.0, 1.0) : -1;
}

QString JobModel::describe(const Job& job) {
  if (job.state != JobState::running) return job.result;
  if (job.progress->cancel_requested()) return QStringLiteral("stopping after this segment");
  const auto s = job.progress->snapshot();
  QStringList parts;
  if (!s.stage.empty()) parts << QString::fromStdString(s.stage);
  if (!s.detail.empty()) parts << QString::fromStdString(s.detail);
  const double f = fraction(job);
  if (f >= 0) {
    parts << QStringLiteral("%1%").arg(int(f * 100));
    // A guess from the first half second would jump about.
    if (f > 0.02 && f < 1 && s.stage_seconds > 0.5)
      parts << views::seconds(s.stage_seconds * (1 - f) / f) + QStringLiteral(" left");
  }
  return parts.join(QStringLiteral(" · "));
}

int JobModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : int(jobs_.size()); }

QVariant JobModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= int(jobs_.size())) return {};
  const Job& job = *jobs_[size_t(index.row())];
  switch (role) {
    case Qt::DisplayRole:
      return job.name;
    case StateRole:
      return int(job.state);
    case TextRole:
      return describe(job);
    case FractionRole:
      return job.state == JobState::running ? fraction(job) : 1.0;
    case CancellableRole:
      return job.state == JobState::running && !job.progress->cancel_requested();
    case OpenableRole:
      return job.state != JobState::running && bool(job.open);
    case Qt::ToolTipRole:
      return job.name + "\n" + describe(job);
    case Qt::AccessibleTextRole:
      return job.name + ", " + describe(job);
    default:
      return {};
  }
}

void JobModel::activate(const QModelIndex& index) {
  if (index.isValid() && index.row() < int(jobs_.size()) && jobs_[size_t(index.row())]->open)
    jobs_[size_t(index.row())]->open();
}

int JobModel::idAt(const QModelIndex& index) const {
  return index.isValid() && index.row() < int(jobs_.size()) ? jobs_[size_t(index.row())]->id : 0;
}

void JobModel::poll() {
  if (!jobs_.empty()) Q_EMIT dataChanged(index(0), index(int(jobs_.size()) - 1));
  Q_EMIT polled();
}

}  // namespace slotscope::app
