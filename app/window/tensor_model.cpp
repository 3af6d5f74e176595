#include "app/window/tensor_model.h"

#include <QHash>

#include "core/fields.h"
#include "views/format.h"
#include "views/theme.h"

namespace slotscope::app {

TensorModel::TensorModel(QObject* parent) : QAbstractItemModel(parent) { nodes_.resize(1); }

void TensorModel::setCheckpoint(std::shared_ptr<const formats::Checkpoint> checkpoint) {
  checkpoint_ = std::move(checkpoint);
  rebuild();
}

void TensorModel::setFilter(const QString& pattern) {
  if (pattern == filter_) return;
  filter_ = pattern;
  rebuild();
}

void TensorModel::rebuild() {
  beginResetModel();
  nodes_.assign(1, {});
  shown_ = 0;
  if (checkpoint_) {
    const auto& tensors = checkpoint_->tensors();
    if (filter_.isEmpty()) {
      buildTree();
    } else {
      const std::string pattern = filter_.toStdString();
      const bool is_glob = pattern.find_first_of("*?") != std::string::npos;
      for (size_t i = 0; i < tensors.size(); ++i) {
        const QString name = QString::fromStdString(tensors[i].name);
        if (is_glob ? !glob_match(pattern, tensors[i].name) : !name.contains(filter_, Qt::CaseInsensitive))
          continue;
        nodes_[0].children.push_back(int(nodes_.size()));
        nodes_.push_back({name, 0, shown_++, int(i), tensors[i].bytes, 1, {}});
      }
    }
  }
  endResetModel();
}

void TensorModel::buildTree() {
  QHash<QString, int> groups;
  const auto& tensors = checkpoint_->tensors();
  const auto add = [&](const QString& name, int parent, int tensor) {
    const int id = int(nodes_.size());
    nodes_.push_back({name, parent, int(nodes_[size_t(parent)].children.size()), tensor, 0, 0, {}});
    nodes_[size_t(parent)].children.push_back(id);
    return id;
  };
  for (size_t i = 0; i < tensors.size(); ++i) {
    const QStringList parts = QString::fromStdString(tensors[i].name).split('.');
    int at = 0;
    QString path;
    for (int k = 0; k + 1 < parts.size(); ++k) {
      path += parts[k] + '.';
      auto known = groups.find(path);
      if (known == groups.end()) known = groups.insert(path, add(parts[k], at, -1));
      at = *known;
    }
    at = add(parts.last(), at, int(i));
    ++shown_;
    for (int up = at; up >= 0; up = nodes_[size_t(up)].parent) {
      nodes_[size_t(up)].bytes += tensors[i].bytes;
      nodes_[size_t(up)].tensors++;
    }
  }
}

QModelIndex TensorModel::index(int row, int column, const QModelIndex& parent) const {
  const Node& node = nodes_[parent.isValid() ? size_t(parent.internalId()) : 0];
  if (row < 0 || row >= int(node.children.size()) || column < 0 || column >= ColumnCount) return {};
  return createIndex(row, column, quintptr(node.children[size_t(row)]));
}

QModelIndex TensorModel::parent(const QModelIndex& index) const {
  if (!index.isValid()) return {};
  const int up = nodes_[size_t(index.internalId())].parent;
  return up <= 0 ? QModelIndex() : createIndex(nodes_[size_t(up)].row, 0, quintptr(up));
}

int TensorModel::rowCount(const QModelIndex& parent) const {
  if (parent.isValid() && parent.column() > 0) return 0;
  return int(nodes_[parent.isValid() ? size_t(parent.internalId()) : 0].children.size());
}

QString TensorModel::fullName(const QModelIndex& index) const {
  if (!index.isValid()) return {};
  const Node& node = nodes_[size_t(index.internalId())];
  if (node.tensor >= 0) return QString::fromStdString(checkpoint_->tensors()[size_t(node.tensor)].name);
  QString name = node.name;
  for (int up = node.parent; up > 0; up = nodes_[size_t(up)].parent)
    name = nodes_[size_t(up)].name + '.' + name;
  return name + ".*";
}

QVariant TensorModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const Node& node = nodes_[size_t(index.internalId())];
  if (role == Qt::TextAlignmentRole && index.column() == Size) return int(Qt::AlignRight | Qt::AlignVCenter);
  if (role == Qt::ForegroundRole && index.column() != Name) return views::Theme::current().text2;
  if (role == Qt::ToolTipRole) return fullName(index);
  if (role != Qt::DisplayRole) return {};
  if (index.column() == Name) return node.name;
  if (index.column() == Size) return views::bytes(qint64(node.bytes));
  if (node.tensor < 0)
    return index.column() == Shape
               ? QString("%1 tensor%2").arg(node.tensors).arg(node.tensors == 1 ? "" : "s")
               : QVariant();
  const auto& tensor = checkpoint_->tensors()[size_t(node.tensor)];
  if (index.column() == DType) return QString::fromStdString(tensor.dtype_text);
  QStringList dims;
  for (const int64_t d : tensor.shape) dims << QString::number(d);
  return dims.isEmpty() ? QString("scalar") : dims.join(" × ");
}

QVariant TensorModel::headerData(int section, Qt::Orientation, int role) const {
  static const char* names[] = {"Tensor", "Shape", "Type", "Size"};
  return role == Qt::DisplayRole && section < ColumnCount ? QVariant(QString::fromLatin1(names[section]))
                                                          : QVariant();
}

void ConfigModel::setRows(std::vector<engine::ModelInfo::ConfigRow> rows) {
  beginResetModel();
  rows_ = std::move(rows);
  endResetModel();
}

QVariant ConfigModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const auto& row = rows_[size_t(index.row())];
  const bool is_default = row.source == "default";
  if (role == Qt::ForegroundRole && (is_default || index.column() == 2)) return views::Theme::current().text3;
  if (role == Qt::DisplayRole || role == Qt::ToolTipRole)
    return QString::fromStdString(index.column() == 0   ? row.key
                                  : index.column() == 1 ? row.value
                                                        : row.source);
  return {};
}

QVariant ConfigModel::headerData(int section, Qt::Orientation orientation, int role) const {
  static const char* names[] = {"Key", "Value", "From"};
  return role == Qt::DisplayRole && orientation == Qt::Horizontal
             ? QVariant(QString::fromLatin1(names[section]))
             : QVariant();
}

}  // namespace slotscope::app
