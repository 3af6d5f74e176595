// Everything about an opened checkpoint that is not a tensor or a configuration key: model, files, dtypes,
// shared memory, what was left out and why, metadata, notes. Sections with rows of a name and a value.
#pragma once

#include <QAbstractItemModel>
#include <QString>
#include <vector>

#include "app/window/open_checkpoint.h"

namespace slotscope::app {

struct DetailsRow {
  QString name, value;
  QString tip;  // empty: name and value
};
struct DetailsSection {
  QString title;  // "Files (3)"
  std::vector<DetailsRow> rows;
};
// Sections without rows are left out.
std::vector<DetailsSection> describeCheckpoint(const OpenCheckpoint& open);
// The configuration in effect; where no family reads it, config.json as it is written.
std::vector<engine::ModelInfo::ConfigRow> configRows(const OpenCheckpoint& open);
// "safetensors · 2 files · 63 tensors · 16 MB"
QString checkpointLine(const OpenCheckpoint& open);
// Why it cannot be run, then the warnings of the folder and of the model, each once.
QStringList checkpointMessages(const OpenCheckpoint& open);

class DetailsModel : public QAbstractItemModel {
  Q_OBJECT
 public:
  using QAbstractItemModel::QAbstractItemModel;
  void setSections(std::vector<DetailsSection> sections);
  const std::vector<DetailsSection>& sections() const { return sections_; }
  // "name: value"; of a section all of its rows.
  QString text(const QModelIndex& index) const;

  QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
  QModelIndex parent(const QModelIndex& index) const override;
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& = {}) const override { return 2; }
  QVariant data(const QModelIndex& index, int role) const override;

 private:
  std::vector<DetailsSection> sections_;
};

}  // namespace slotscope::app
