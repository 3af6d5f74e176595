// The Checkpoint panel: folder, memory table row, configuration, tensors (design: section 11). Nothing here
// loads weights.
#pragma once

#include <QWidget>
#include <memory>

#include "core/engine/session.h"
#include "core/formats/checkpoint.h"

class QLabel;
class QLineEdit;
class QSortFilterProxyModel;
class QTableView;
class QTreeView;

namespace slotscope::app {

class ConfigModel;
class TensorModel;

class CheckpointPanel : public QWidget {
  Q_OBJECT
 public:
  explicit CheckpointPanel(QWidget* parent = nullptr);
  // info may be null: the file is shown all the same, with `why` it cannot be run.
  void setCheckpoint(std::shared_ptr<const formats::Checkpoint> checkpoint,
                     std::shared_ptr<const engine::ModelInfo> info, const QString& why);
  TensorModel* tensors() { return tensors_; }
  ConfigModel* config() { return config_; }
  void restyle();

 private:
  QLabel *folder_, *card_, *notes_, *count_;
  QLineEdit* filter_;
  QTableView* config_view_;
  QTreeView* tree_;
  TensorModel* tensors_;
  ConfigModel* config_;
  QSortFilterProxyModel* config_filter_;
};

}  // namespace slotscope::app
