// The Checkpoint panel: where the weights are, what is wrong with them, and three pages: tensors,
// configuration, and everything else (files, dtypes, shared memory, what was left out, metadata). Nothing
// here loads weights (design: section 11).
#pragma once

#include <QWidget>
#include <memory>

#include "app/window/open_checkpoint.h"

class QButtonGroup;
class QComboBox;
class QLabel;
class QLineEdit;
class QListView;
class QSortFilterProxyModel;
class QStackedWidget;
class QTableView;
class QTreeView;

namespace slotscope::views {
class ElidedLabel;
}

namespace slotscope::app {

class ConfigModel;
class DetailsModel;
class MessageModel;
class TensorModel;

class CheckpointPanel : public QWidget {
  Q_OBJECT
 public:
  enum Page { Tensors, Config, Details };
  explicit CheckpointPanel(QWidget* parent = nullptr);
  // Null: nothing is open. What cannot be run is shown all the same, with the reason.
  void setCheckpoint(std::shared_ptr<const OpenCheckpoint> open);
  void showPage(Page page);
  // Selects a tensor in the tree and scrolls to it; clears a filter that hides it. Emits nothing.
  void selectTensor(int tensor);
  int currentTensor() const;
  TensorModel* tensors() { return tensors_; }
  ConfigModel* config() { return config_; }
  DetailsModel* details() { return details_; }
  QStringList messages() const;
  QLineEdit* filter() { return filter_; }
  QTreeView* tree() { return tree_; }
  QComboBox* candidates() { return candidates_; }
  void restyle();

 Q_SIGNALS:
  // A tensor became the current one; `open`: by a click or Enter, so that it wants to be seen.
  void tensorChosen(int tensor, bool open);
  // Another set of weights of the same file.
  void weightsChosen(const QString& candidate);

 protected:
  void resizeEvent(QResizeEvent*) override;
  bool eventFilter(QObject*, QEvent*) override;

 private:
  QWidget* buildTensors();
  QWidget* buildConfig();
  QWidget* buildDetails();
  void applyFilter();
  void updateCount();
  void fillCandidates();
  void fitMessages();
  void fitColumns();
  std::shared_ptr<const OpenCheckpoint> open_;
  views::ElidedLabel* folder_;
  QLabel *line_, *count_;
  QWidget* candidate_row_;
  QComboBox* candidates_;
  QListView* messages_;
  MessageModel* message_model_;
  QButtonGroup* pages_;
  QStackedWidget* stack_;
  QLineEdit* filter_;
  QTreeView *tree_, *details_view_;
  QTableView* config_view_;
  TensorModel* tensors_;
  ConfigModel* config_;
  DetailsModel* details_;
  QSortFilterProxyModel* config_filter_;
  int message_width_ = 0;
  bool selecting_ = false, own_columns_ = false;
};

}  // namespace slotscope::app
