// One background thread with tagged requests (spec: architecture "Threads"). The GUI thread never waits for it.
#pragma once

#include <QObject>
#include <QString>
#include <functional>
#include <memory>

namespace slotscope::views {

class Worker : public QObject {
  Q_OBJECT
 public:
  explicit Worker(QObject* parent = nullptr);
  ~Worker() override;  // finishes the running request, drops queued ones, joins

  // What runs on the GUI thread afterwards; may be empty.
  using Done = std::function<void()>;
  // Runs `work` on the worker thread; the function it returns then runs on the GUI thread, provided `receiver` still lives.
  // A newer request with the same tag replaces a queued one (never a running one). `work` must not throw; if it does, the
  // exception's text is reported through failed().
  void post(const QString& tag, QObject* receiver, std::function<Done()> work);
  // True while a request runs or waits, or its result has not been handed over yet.
  bool busy() const;

 Q_SIGNALS:
  void failed(const QString& tag, const QString& text);
  void idle();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slotscope::views
