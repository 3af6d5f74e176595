#include "app/window/tensor_model.h"

#include <algorithm>

#include "core/fields.h"
#include "core/formats/checkpoint_summary.h"
#include "views/format.h"
#include "views/list_widgets.h"
#include "views/theme.h"

namespace slotscope::app {

namespace {

// Deeper names keep the rest in one row: a name of 10,000 dots is no tree of 10,000 levels.
constexpr size_t deepest = 24;

QString text(std::string_view bytes) { return QString::fromUtf8(bytes.data(), qsizetype(bytes.size())); }
char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; }

}  // namespace

QString shapeText(const std::vector<int64_t>& shape) {
  QStringList dims;
  for (const int64_t d : shape) dims << QString::number(d);
  return dims.isEmpty() ? QString("scalar") : dims.join(" × ");
}

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
  if (checkpoint_ && filter_.isEmpty())
    buildTree();
  else if (checkpoint_)
    buildList();
  endResetModel();
}

void TensorModel::buildList() {
  const auto& tensors = checkpoint_->tensors();
  const std::string pattern = filter_.toStdString();
  const bool is_glob = pattern.find_first_of("*?") != std::string::npos;
  // Most names and filters are ASCII: compared as bytes, without making a text of each.
  const bool is_ascii = std::all_of(pattern.begin(), pattern.end(), [](char c) { return (c & 0x80) == 0; });
  const auto same = [](char a, char b) { return lower(a) == lower(b); };
  const auto matches = [&](const std::string& name) {
    if (is_glob) return glob_match(pattern, name);
    if (is_ascii)
      return std::search(name.begin(), name.end(), pattern.begin(), pattern.end(), same) != name.end();
    return QString::fromStdString(name).contains(filter_, Qt::CaseInsensitive);
  };
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!matches(tensors[i].name)) continue;
    nodes_[0].children.push_back(int(nodes_.size()));
    nodes_.push_back({tensors[i].name, 0, shown_++, int(i), tensors[i].bytes, 1, {}});
  }
}

// Names are sorted, so tensors of one group follow each other: the path to the last one is all that is
// needed.
void TensorModel::buildTree() {
  const auto& tensors = checkpoint_->tensors();
  struct Level {
    std::string_view prefix;  // with its dot
    int node;
  };
  std::vector<Level> path;
  const auto add = [&](std::string_view name, int parent, int tensor) {
    const int id = int(nodes_.size());
    nodes_.push_back({name, parent, int(nodes_[size_t(parent)].children.size()), tensor, 0, 0, {}});
    nodes_[size_t(parent)].children.push_back(id);
    return id;
  };
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string_view name = tensors[i].name;
    while (!path.empty() && !name.starts_with(path.back().prefix)) path.pop_back();
    size_t from = path.empty() ? 0 : path.back().prefix.size();
    for (size_t dot; path.size() < deepest && (dot = name.find('.', from)) != name.npos; from = dot + 1) {
      const int parent = path.empty() ? 0 : path.back().node;
      path.push_back({name.substr(0, dot + 1), add(name.substr(from, dot - from), parent, -1)});
    }
    const int leaf = add(name.substr(from), path.empty() ? 0 : path.back().node, int(i));
    ++shown_;
    const auto* first = tensors[i].shares_with.empty() ? nullptr : checkpoint_->find(tensors[i].shares_with);
    const bool tied = first && first != &tensors[i] && formats::same_elements(*first, tensors[i]);
    nodes_[size_t(leaf)].bytes = tensors[i].bytes;
    nodes_[size_t(leaf)].tensors = 1;
    for (int up = nodes_[size_t(leaf)].parent; up >= 0; up = nodes_[size_t(up)].parent) {
      nodes_[size_t(up)].bytes += tied ? 0 : tensors[i].bytes;
      nodes_[size_t(up)].tensors++;
    }
  }
  joinSingles();
  sortChildren();
}

// A group of one is no level: "q_proj.weight" is one row. Both names are parts of the same tensor's.
void TensorModel::joinSingles() {
  const auto end = [](std::string_view part) { return part.data() + part.size(); };
  for (size_t id = 1; id < nodes_.size(); ++id) {
    // Children come after their group, so that a chain is joined from its top.
    while (nodes_[id].tensor < 0 && nodes_[id].children.size() == 1) {
      Node& group = nodes_[id];
      Node& child = nodes_[size_t(group.children[0])];
      group.name = {group.name.data(), size_t(end(child.name) - group.name.data())};
      group.tensor = child.tensor;
      if (child.tensor >= 0) group.bytes = child.bytes;
      group.children = std::move(child.children);
      for (const int grandchild : group.children) nodes_[size_t(grandchild)].parent = int(id);
      child = {};  // in nobody's list any more
    }
  }
}

// Layer 2 before layer 10. Only groups with numbers are touched: the rest is in order already.
void TensorModel::sortChildren() {
  // The number that a name is or begins with ("10", "10.weight"); -1: none.
  const auto number = [this](int id) -> int64_t {
    const std::string_view name = nodes_[size_t(id)].name;
    int64_t value = 0;
    size_t digits = 0;
    while (digits < name.size() && digits < 18 && name[digits] >= '0' && name[digits] <= '9')
      value = value * 10 + (name[digits++] - '0');
    return digits > 0 && (digits == name.size() || name[digits] == '.') ? value : -1;
  };
  for (Node& node : nodes_) {
    auto& children = node.children;
    const auto middle =
        std::stable_partition(children.begin(), children.end(), [&](int id) { return number(id) >= 0; });
    if (middle == children.begin()) continue;
    std::stable_sort(children.begin(), middle, [&](int a, int b) { return number(a) < number(b); });
    for (size_t row = 0; row < children.size(); ++row) nodes_[size_t(children[row])].row = int(row);
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

int TensorModel::tensorAt(const QModelIndex& index) const {
  return index.isValid() ? nodes_[size_t(index.internalId())].tensor : -1;
}

QModelIndex TensorModel::indexOf(int tensor) const {
  if (tensor < 0) return {};
  for (size_t id = 1; id < nodes_.size(); ++id)
    if (nodes_[id].tensor == tensor) return createIndex(nodes_[id].row, 0, quintptr(id));
  return {};
}

QString TensorModel::fullName(const QModelIndex& index) const {
  if (!index.isValid()) return {};
  const Node& node = nodes_[size_t(index.internalId())];
  if (node.tensor >= 0) return QString::fromStdString(checkpoint_->tensors()[size_t(node.tensor)].name);
  QString name = text(node.name);
  for (int up = node.parent; up > 0; up = nodes_[size_t(up)].parent)
    name = text(nodes_[size_t(up)].name) + '.' + name;
  return name + ".*";
}

QString TensorModel::tip(const Node& node, const QModelIndex& index) const {
  QString tip = views::wrappedTip(views::oneLine(fullName(index)));
  if (node.tensor < 0) return tip;
  const auto& tensor = checkpoint_->tensors()[size_t(node.tensor)];
  tip += "\n" + QString::fromStdString(tensor.dtype_text) + " " + shapeText(tensor.shape);
  if (!tensor.shares_with.empty())
    tip += "\n" + views::wrappedTip("shares memory with " +
                                    views::oneLine(QString::fromStdString(tensor.shares_with)));
  return tip;
}

QVariant TensorModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const Node& node = nodes_[size_t(index.internalId())];
  if (role == Qt::TextAlignmentRole && index.column() == Size) return int(Qt::AlignRight | Qt::AlignVCenter);
  if (role == Qt::ForegroundRole && index.column() != Name) return views::Theme::current().text2;
  if (role == Qt::ToolTipRole) return tip(node, index);
  const auto* tensor = node.tensor < 0 ? nullptr : &checkpoint_->tensors()[size_t(node.tensor)];
  if (role == Qt::AccessibleTextRole && index.column() == Name && tensor)
    return QString("%1, %2, %3%4")
        .arg(fullName(index), QString::fromStdString(tensor->dtype_text), shapeText(tensor->shape),
             tensor->shares_with.empty()
                 ? QString()
                 : ", shares memory with " + QString::fromStdString(tensor->shares_with));
  if (role != Qt::DisplayRole) return {};
  if (index.column() == Name) {
    // What a column can show of a name of 10,000 characters; all of it is in the tooltip's and Copy's hands.
    const QString name = views::oneLine(text(node.name.substr(0, 1600)).left(400));
    return node.name.size() > 400 ? name + QChar(0x2026) : name;
  }
  if (index.column() == Size) return views::bytes(qint64(node.bytes));
  if (!tensor)
    return index.column() == Shape
               ? QString("%1 tensor%2").arg(views::count(node.tensors), node.tensors == 1 ? "" : "s")
               : QVariant();
  if (index.column() == DType) return QString::fromStdString(tensor->dtype_text);
  return shapeText(tensor->shape);
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
  if (role == Qt::DisplayRole || role == Qt::ToolTipRole) {
    const QString text = QString::fromStdString(index.column() == 0   ? row.key
                                                : index.column() == 1 ? row.value
                                                                      : row.source);
    return role == Qt::DisplayRole ? views::oneLine(text) : views::wrappedTip(text);
  }
  return {};
}

QVariant ConfigModel::headerData(int section, Qt::Orientation orientation, int role) const {
  static const char* names[] = {"Key", "Value", "From"};
  return role == Qt::DisplayRole && orientation == Qt::Horizontal
             ? QVariant(QString::fromLatin1(names[section]))
             : QVariant();
}

}  // namespace slotscope::app
