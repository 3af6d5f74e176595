// Jobs and Log: small panels over item models.
#pragma once

#include <QListView>
#include <QPlainTextEdit>
#include <QWidget>

#include "app/window/jobs.h"

namespace slotscope::app {

// One row per job: name, stage, bar, time left, cancel; ended ones offer Open.
class JobsPanel : public QWidget {
  Q_OBJECT
 public:
  JobsPanel(JobModel* jobs, QWidget* parent = nullptr);
  QListView* list() { return list_; }

 private:
  JobModel* jobs_;
  QListView* list_;
};

// What happened, one line each with its time; bounded.
class LogPanel : public QWidget {
  Q_OBJECT
 public:
  explicit LogPanel(QWidget* parent = nullptr);
  void add(const QString& text);
  QString text() const { return text_->toPlainText(); }

 private:
  QPlainTextEdit* text_;
};

}  // namespace slotscope::app
