#include "views/worker.h"

#include <QMetaObject>
#include <QPointer>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace slotscope::views {

struct Worker::Impl {
  struct Request {
    QString tag;
    QPointer<QObject> receiver;
    std::function<Done()> work;
  };
  mutable std::mutex mutex;
  std::condition_variable wake;
  std::deque<Request> queue;
  bool running = false, stop = false;
  int undelivered = 0;  // results on their way to the GUI thread
  std::thread thread;
};

Worker::Worker(QObject* parent) : QObject(parent), impl_(std::make_unique<Impl>()) {
  impl_->thread = std::thread([this] {
    while (true) {
      Impl::Request request;
      {
        std::unique_lock lock(impl_->mutex);
        impl_->wake.wait(lock, [this] { return impl_->stop || !impl_->queue.empty(); });
        if (impl_->stop) return;
        request = std::move(impl_->queue.front());
        impl_->queue.pop_front();
        impl_->running = true;
      }
      Done done;
      QString error;
      try {
        done = request.work();
      } catch (const std::exception& e) {
        error = QString::fromUtf8(e.what());
      }
      {
        const std::lock_guard lock(impl_->mutex);
        impl_->running = false;
        ++impl_->undelivered;
      }
      // Back to the GUI thread through this object, which outlives its thread; QPointer is looked at there and nowhere else.
      QMetaObject::invokeMethod(this, [this, receiver = request.receiver, done = std::move(done), tag = request.tag, error] {
        if (!error.isEmpty()) Q_EMIT failed(tag, error);
        if (done && receiver) done();
        bool is_idle;
        {
          const std::lock_guard lock(impl_->mutex);
          --impl_->undelivered;
          is_idle = !impl_->running && impl_->queue.empty() && !impl_->undelivered;
        }
        if (is_idle) Q_EMIT idle();
      });
    }
  });
}

Worker::~Worker() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
    impl_->queue.clear();
  }
  impl_->wake.notify_all();
  impl_->thread.join();
}

void Worker::post(const QString& tag, QObject* receiver, std::function<Done()> work) {
  {
    const std::lock_guard lock(impl_->mutex);
    std::erase_if(impl_->queue, [&](const Impl::Request& r) { return r.tag == tag; });
    impl_->queue.push_back({tag, receiver, std::move(work)});
  }
  impl_->wake.notify_one();
}

bool Worker::busy() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->running || !impl_->queue.empty() || impl_->undelivered;
}

}  // namespace slotscope::views
