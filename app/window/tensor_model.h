// The tensors of a checkpoint as a tree of name parts, or flat when filtered; parts that are numbers are in
// the order of numbers. Built from the listing: no weight is read.
#pragma once

#include <QAbstractItemModel>
#include <QAbstractTableModel>
#include <memory>
#include <string_view>
#include <vector>

#include "core/engine/session.h"
#include "core/formats/checkpoint.h"

namespace slotscope::app {

// "256 × 64", "scalar".
QString shapeText(const std::vector<int64_t>& shape);

class TensorModel : public QAbstractItemModel {
  Q_OBJECT
 public:
  enum Column { Name, Shape, DType, Size, ColumnCount };
  explicit TensorModel(QObject* parent = nullptr);
  void setCheckpoint(std::shared_ptr<const formats::Checkpoint> checkpoint);
  // Part of a name, or a pattern with * and ?; empty: the tree.
  void setFilter(const QString& pattern);
  int shownTensors() const { return shown_; }
  // The tensor's whole name; of a group "model.layers.0.*".
  QString fullName(const QModelIndex& index) const;
  // Position in Checkpoint::tensors(), -1 for a group.
  int tensorAt(const QModelIndex& index) const;
  // Where a tensor is shown; invalid when the filter hides it.
  QModelIndex indexOf(int tensor) const;

  QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
  QModelIndex parent(const QModelIndex& index) const override;
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& = {}) const override { return ColumnCount; }
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation, int role) const override;

 private:
  struct Node {
    std::string_view name;                  // part of the tensor's name, which lives in the checkpoint
    int parent = -1, row = 0, tensor = -1;  // tensor: position in tensors(), -1 for a group
    uint64_t bytes = 0;                     // tied tensors once
    int tensors = 0;
    std::vector<int> children;
  };
  void rebuild();
  void buildTree();
  void buildList();
  void joinSingles();
  void sortChildren();
  QString tip(const Node& node, const QModelIndex& index) const;
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
