#include "views/value_field_capture.h"

#include <QCheckBox>
#include <QComboBox>
#include <QDialogButtonBox>
#include <QFormLayout>
#include <QLabel>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>
#include <algorithm>

namespace slotscope::views {

namespace {

const trace::DatasetInfo* fieldOf(const trace::RunInfo& run, int layer, const char* name) {
  return run.find("layers/" + std::to_string(layer) + "/" + name);
}
bool hasHead(const trace::RunInfo& run, int layer) { return fieldOf(run, layer, "query") && fieldOf(run, layer, "key") && fieldOf(run, layer, "value"); }

}  // namespace

int FieldCaptureDialog::firstLayer(const trace::RunInfo& run) {
  for (const auto& spec : run.layers)
    if (hasHead(run, spec.index)) return spec.index;
  return -1;
}

FieldCaptureDialog::FieldCaptureDialog(const RunData& run, QWidget* parent) : QDialog(parent), info_(run.info()) {
  setWindowTitle(QStringLiteral("Keys from the open trace"));
  const auto number = [this](const QString& name, int low, int high) {
    auto* box = new QSpinBox(this);
    box->setRange(low, high);
    box->setAccessibleName(name);
    return box;
  };
  int last_layer = 0;
  for (const auto& spec : info_.layers) last_layer = std::max(last_layer, spec.index);
  layer_ = number(QStringLiteral("Layer"), 0, last_layer);
  head_ = number(QStringLiteral("Query head"), 0, 0);
  kind_ = new QComboBox(this);
  kind_->setAccessibleName(QStringLiteral("Projection"));
  kind_->addItems({QStringLiteral("two principal axes of the keys"), QStringLiteral("two coordinates"), QStringLiteral("two planar blocks, RoPE's (u, u + d/2)"), QStringLiteral("two planar blocks (2u, 2u + 1)")});
  a_ = number(QStringLiteral("First coordinate or block"), 0, 511);
  b_ = number(QStringLiteral("Second coordinate or block"), 0, 511);
  b_->setValue(1);
  const int tokens = int(std::clamp<int64_t>(info_.tokens, 1, INT32_MAX));
  first_ = number(QStringLiteral("First token"), 0, tokens - 1);
  last_ = number(QStringLiteral("Token after the last"), 1, tokens);
  last_->setValue(std::min(tokens, 64));
  rgb_ = new QCheckBox(QStringLiteral("values as colours: three principal components"), this);
  note_ = new QLabel(this);
  note_->setWordWrap(true);
  note_->setProperty("ui", "text2");
  a_name_ = new QLabel(this);
  b_name_ = new QLabel(this);
  auto* form = new QFormLayout;
  form->addRow(QStringLiteral("Layer"), layer_);
  form->addRow(QStringLiteral("Query head"), head_);
  form->addRow(QStringLiteral("Bring it to"), kind_);
  form->addRow(a_name_, a_);
  form->addRow(b_name_, b_);
  form->addRow(QStringLiteral("Keys from captured token"), first_);
  form->addRow(QStringLiteral("to before"), last_);
  form->addRow(rgb_);
  auto* column = new QVBoxLayout(this);
  column->addLayout(form);
  column->addWidget(note_);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Cancel, this);
  accept_ = buttons->addButton(QStringLiteral("Take these keys"), QDialogButtonBox::AcceptRole);
  connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  column->addWidget(buttons);
  connect(layer_, &QSpinBox::valueChanged, this, &FieldCaptureDialog::layerChanged);
  connect(kind_, &QComboBox::currentIndexChanged, this, &FieldCaptureDialog::projectionChanged);
  layer_->setValue(std::max(0, firstLayer(info_)));
  layerChanged();
}

void FieldCaptureDialog::layerChanged() {
  const int layer = layer_->value();
  const auto spec = std::find_if(info_.layers.begin(), info_.layers.end(), [layer](const auto& s) { return s.index == layer; });
  head_->setMaximum(spec == info_.layers.end() ? 0 : int(std::clamp<int64_t>(spec->heads - 1, 0, 65535)));
  const bool there = hasHead(info_, layer);
  accept_->setEnabled(there);
  note_->setText(there ? QStringLiteral("β* follows the head's own temperature √d. What the plane leaves out is said beside the keys and in every figure.")
                       : QStringLiteral("Layer %1 has no queries, keys and values in this trace. Run again with --capture query,key,value,query_rot,key_rot.").arg(layer));
  projectionChanged();
}

void FieldCaptureDialog::projectionChanged() {
  const int kind = kind_->currentIndex();
  const auto* query = fieldOf(info_, layer_->value(), "query");
  const int64_t width = query && query->shape.size() == 3 ? query->shape[2] : 2;
  const bool choose = kind > 0;
  for (QWidget* w : {static_cast<QWidget*>(a_), static_cast<QWidget*>(b_), static_cast<QWidget*>(a_name_), static_cast<QWidget*>(b_name_)}) w->setVisible(choose);
  a_name_->setText(kind == 1 ? QStringLiteral("First coordinate") : QStringLiteral("First block u"));
  b_name_->setText(kind == 1 ? QStringLiteral("Second coordinate") : QStringLiteral("Second block u"));
  for (QSpinBox* box : {a_, b_}) box->setMaximum(int(std::clamp<int64_t>(kind == 1 ? width - 1 : width / 2 - 1, 0, 511)));
}

FieldCapture FieldCaptureDialog::chosen() const {
  using Kind = analysis::FieldProjection::Kind;
  FieldCapture c;
  c.layer = layer_->value(), c.head = head_->value();
  c.projection.kind = kind_->currentIndex() == 0 ? Kind::pca : kind_->currentIndex() == 1 ? Kind::pair : Kind::blocks;
  c.projection.halves = kind_->currentIndex() != 3;
  c.projection.a = a_->value(), c.projection.b = b_->value();
  c.projection.first = first_->value(), c.projection.last = last_->value();
  c.projection.rgb = rgb_->isChecked();
  return c;
}

}  // namespace slotscope::views
