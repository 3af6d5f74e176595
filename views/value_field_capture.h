// Which captured head of the open trace becomes the keys of the value-field lab, and how it is brought to a plane.
#pragma once

#include <QDialog>

#include "core/analysis/value_field_model.h"
#include "views/view.h"

class QCheckBox;
class QComboBox;
class QLabel;
class QPushButton;
class QSpinBox;

namespace slotscope::views {

struct FieldCapture {
  int layer = 0, head = 0;
  analysis::FieldProjection projection;
};

class FieldCaptureDialog : public QDialog {
  Q_OBJECT
 public:
  FieldCaptureDialog(const RunData& run, QWidget* parent);
  FieldCapture chosen() const;
  // The first layer with queries, keys and values in the trace; -1: none has them.
  static int firstLayer(const trace::RunInfo& run);

 private:
  void layerChanged();
  void projectionChanged();
  const trace::RunInfo& info_;
  QSpinBox *layer_, *head_, *a_, *b_, *first_, *last_;
  QComboBox* kind_;
  QCheckBox* rgb_;
  QLabel *note_, *a_name_, *b_name_;
  QPushButton* accept_ = nullptr;
};

}  // namespace slotscope::views
