// Long pieces of work as the user sees them: name, stage, how far, how long still, cancel (design: section
// 11).
#pragma once

#include <QAbstractListModel>
#include <QElapsedTimer>
#include <QString>
#include <QTimer>
#include <functional>
#include <memory>
#include <vector>

#include "core/progress.h"

namespace slotscope::app {

// Every job starts as running and ends exactly once, in one of the other three.
enum class JobState { running, finished, failed, cancelled };

struct Job {
  int id = 0;
  QString name;        // "Run password · 512"
  bool quiet = false;  // short reading: not listed unless it takes longer than a second
  std::shared_ptr<Progress> progress;
  JobState state = JobState::running;
  QString result;  // "520 tokens in 4 s", "cancelled: 128 of 520 tokens kept"
  QElapsedTimer since;
  double seconds = 0;          // once ended
  std::function<void()> open;  // what "Open" does on an ended job, or empty
};

class JobModel : public QAbstractListModel {
  Q_OBJECT
 public:
  enum Role { StateRole = Qt::UserRole, TextRole, FractionRole, CancellableRole, OpenableRole };
  explicit JobModel(QObject* parent = nullptr);

  // Returns the job's id; its Progress is polled every 30 ms while it runs.
  int start(const QString& name, std::shared_ptr<Progress> progress, bool quiet = false);
  // Ends a job; a second call for the same job does nothing and returns false.
  bool end(int id, JobState state, const QString& result, std::function<void()> open = {});
  // Asks it to stop; it ends as cancelled when its worker answers.
  void cancel(int id);
  void cancelAll();

  const Job* find(int id) const;
  const Job* visibleJob() const;  // the newest running job that is not quiet, for the status bar
  bool anyRunning() const;
  // "layer 2 of 4 · 37% · 0:41 left"
  static QString describe(const Job& job);
  static double fraction(const Job& job);  // 0..1; negative: not known yet

  int rowCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  void activate(const QModelIndex& index);  // "Open" of an ended job
  int idAt(const QModelIndex& index) const;

 Q_SIGNALS:
  void started(int id);
  void polled();  // every 30 ms while something runs
  void ended(int id);

 private:
  void poll();
  Job* mutableJob(int id);
  std::vector<std::unique_ptr<Job>> jobs_;  // newest first
  QTimer timer_;
  int next_ = 1;
};

}  // namespace slotscope::app
