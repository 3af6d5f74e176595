// Reads one tensor of the open checkpoint for the Tensor view: facts at once, then the first and last values,
// then statistics and a histogram, on a worker of its own. Choosing another tensor cancels what is still
// being read.
#pragma once

#include <QObject>
#include <memory>
#include <optional>

#include "app/window/jobs.h"
#include "app/window/open_checkpoint.h"
#include "views/tensor_view.h"
#include "views/worker.h"

namespace slotscope::app {

class TensorReader : public QObject {
  Q_OBJECT
 public:
  explicit TensorReader(JobModel* jobs, QObject* parent = nullptr);
  ~TensorReader() override;

  // Null: nothing is open. Forgets the tensor.
  void setCheckpoint(std::shared_ptr<const OpenCheckpoint> open);
  void read(int tensor);  // of Checkpoint::tensors(); the one that is shown already is not read again
  void readAgain();       // after a cancel or a failure
  void cancel();
  void setSymmetricLog(bool on);
  bool symmetricLog() const { return symmetric_log_; }
  int tensor() const { return tensor_; }
  bool busy() const { return worker_.busy(); }
  // What is known now, for a view that was just made.
  void tell(views::TensorView* view) const;

  // For tests and the views: no state.
  static views::TensorFacts facts(const OpenCheckpoint& open, int tensor);
  static views::TensorPreview preview(const formats::Checkpoint& checkpoint,
                                      const formats::TensorInfo& tensor);

 Q_SIGNALS:
  void changed();  // a new tensor, or its values, numbers or failure arrived: tell() says
  void progressed(double fraction, const QString& stage);
  void idle();

 private:
  void start();
  void stop();
  JobModel* jobs_;
  std::shared_ptr<const OpenCheckpoint> open_;
  int tensor_ = -1, job_ = 0;
  bool symmetric_log_ = false;
  std::shared_ptr<Progress> progress_;
  std::optional<views::TensorPreview> preview_;
  QString preview_why_;
  std::optional<views::TensorHistogram> histogram_;
  QString why_, button_;
  views::Worker worker_;  // last: its thread ends before what it uses goes
};

}  // namespace slotscope::app
