// The tensors of a checkpoint as a tree of name parts, or flat when filtered. Built from the listing: no
// weight is read.
#pragma once

#include <QAbstractItemModel>
#include <QAbstractTableModel>
#include <memory>
#include <vector>

#include "core/engine/session.h"
#include "core/formats/checkpoint.h"

namespace slotscope::app {

class TensorModel : public QAbstractItemModel {
  Q_OBJECT
 public:
  enum Column { Name, Shape, DType, Size, ColumnCount };
  explicit TensorModel(QObject* parent = nullptr);
  void setCheckpoint(std::shared_ptr<const formats::Checkpoint> checkpoint);
  // Part of a name, or a pattern with * and ?; empty: the tree.
  void setFilter(const QString& pattern);
  int shownTensors() const { return shown_; }
  QString fullName(const QModelIndex& index) const;

  QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
  QModelIndex parent(const QModelIndex& index) const override;
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& = {}) const override { return ColumnCount; }
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation, int role) const override;

 private:
  struct Node {
    QString name;
    int parent = -1, row = 0, tensor = -1;  // tensor: position in tensors(), -1 for a group
    uint64_t bytes = 0;
    int tensors = 0;
    std::vector<int> children;
  };
  void rebuild();
  void buildTree();
  std::shared_ptr<const formats::Checkpoint> checkpoint_;
  QString filter_;
  std::vector<Node> nodes_;  // 0 is the root
  int shown_ = 0;
};

// Effective configuration: key, value, where it comes from; defaults are quieter.
class ConfigModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  explicit ConfigModel(QObject* parent = nullptr) : QAbstractTableModel(parent) {}
  void setRows(std::vector<engine::ModelInfo::ConfigRow> rows);
  int rowCount(const QModelIndex& parent = {}) const override {
    return parent.isValid() ? 0 : int(rows_.size());
  }
  int columnCount(const QModelIndex& = {}) const override { return 3; }
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation, int role) const override;

 private:
  std::vector<engine::ModelInfo::ConfigRow> rows_;
};

}  // namespace slotscope::app
