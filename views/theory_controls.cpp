#include "views/theory_controls.h"

#include <QCheckBox>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QEvent>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QRegularExpressionValidator>
#include <QSlider>
#include <QSpinBox>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "core/formats/random.h"
#include "views/format.h"
#include "views/theme.h"

namespace slotscope::views {

namespace {

constexpr int kSliderSteps = 200;  // a tenth to ten times beta*, as the plot

int sliderOf(double multiple) {
  return multiple <= 0 ? -kSliderSteps : int(std::lround(std::clamp(std::log10(multiple), -1.0, 1.0) * kSliderSteps));
}

double degrees(double x, double y) {
  const double a = std::atan2(y, x) * 180 / M_PI;
  return a < 0 ? a + 360 : a;
}

// Exact at quarter turns, where ties are.
void setPolar(std::vector<double>& x, int factor, double length, double angle) {
  const double quarter = angle / 90;
  double c = std::cos(angle * M_PI / 180), s = std::sin(angle * M_PI / 180);
  if (quarter == std::floor(quarter)) c = std::round(c), s = std::round(s);
  x[size_t(2 * factor)] = length * c + 0.0;
  x[size_t(2 * factor) + 1] = length * s + 0.0;
}

// Writes no zeros that say nothing: "1 β*", not "1.000000 β*".
class NumberBox : public QDoubleSpinBox {
 public:
  using QDoubleSpinBox::QDoubleSpinBox;
  QString textFromValue(double value) const override {
    QString text = QDoubleSpinBox::textFromValue(value);
    const QString point = locale().decimalPoint();
    if (!text.contains(point)) return text;
    while (text.endsWith(QLatin1Char('0'))) text.chop(1);
    if (text.endsWith(point)) text.chop(point.size());
    return text;
  }
};

}  // namespace

TheoryControls::TheoryControls(QWidget* parent) : QWidget(parent) {
  setAutoFillBackground(true);
  setBackgroundRole(QPalette::Base);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(12, 10, 12, 10);
  column->setSpacing(4);
  presets_ = new QComboBox(this);
  presets_->setAccessibleName(QStringLiteral("Preset"));
  presets_->addItem(QStringLiteral("Presets…"));
  for (const auto& [name, state] : theoryPresets()) presets_->addItem(name);
  presets_->setToolTip(QStringLiteral("States to begin with: cases of the theory and where it ends"));
  presets_->setMinimumContentsLength(8);
  presets_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  connect(presets_, &QComboBox::activated, this, [this](int index) {
    if (index < 1) return;
    apply([&] { state_ = theoryPresets()[index - 1].second; });
    presets_->setCurrentIndex(index);
  });
  column->addWidget(presets_);
  buildCode(column);
  buildBetas(column);
  buildVectors(column);
  buildPairs(column);
  auto* buttons = new QHBoxLayout;
  auto* open = new QPushButton(QStringLiteral("Open…"), this);
  open->setToolTip(QStringLiteral("A saved state, or a file of slotscope-cli ramnet theory --out"));
  auto* save = new QPushButton(QStringLiteral("Save…"), this);
  save->setToolTip(QStringLiteral("The whole state as a JSON file"));
  connect(open, &QPushButton::clicked, this, &TheoryControls::openRequested);
  connect(save, &QPushButton::clicked, this, &TheoryControls::saveRequested);
  buttons->addWidget(open);
  buttons->addWidget(save);
  column->addSpacing(8);
  column->addLayout(buttons);
  note_ = new QLabel(this);
  note_->setWordWrap(true);
  note_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  note_->hide();
  column->addWidget(note_);
  column->addStretch(1);
  for (QLabel* label : findChildren<QLabel*>())  // names of fields
    if (label->property("ui").isNull()) label->setProperty("ui", "text2");
  star_->setProperty("ui", {});
  restyle();
  setState(state_);
}

void TheoryControls::restyle() {
  const Theme& theme = Theme::current();
  const QString style = QStringLiteral("QSlider::groove:horizontal { height: 2px; background: %1; border-radius: 1px; }"
                                       "QSlider::handle:horizontal { width: 12px; height: 12px; margin: -5px 0; border-radius: 6px; background: %2; }"
                                       "QSlider::handle:horizontal:focus { background: %3; }")
                            .arg(theme.line.name(), theme.text2.name(), theme.selection.name());
  for (QSlider* slider : slider_)
    if (slider && slider->styleSheet() != style) slider->setStyleSheet(style);
}

void TheoryControls::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) restyle();
}

template <class Change>
void TheoryControls::apply(Change change) {
  if (showing_) return;
  change();
  note_->hide();
  setState(state_);
  Q_EMIT changed(state_);
}

void TheoryControls::say(const QString& text, bool error) {
  note_->setText(text);
  note_->setProperty("ui", error ? "error" : "text2");
  note_->setStyleSheet(note_->styleSheet());  // reads the property again
  note_->setVisible(!text.isEmpty());
}

QFormLayout* TheoryControls::section(QVBoxLayout* column, const QString& title) {
  auto* label = new QLabel(title, this);
  label->setProperty("ui", "semibold");
  column->addSpacing(8);
  column->addWidget(label);
  auto* form = new QFormLayout;
  form->setContentsMargins(0, 0, 0, 0);
  form->setHorizontalSpacing(8);
  form->setVerticalSpacing(4);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  column->addLayout(form);
  return form;
}

QDoubleSpinBox* TheoryControls::number(double low, double high, double step, int decimals, const QString& name) {
  auto* box = new NumberBox(this);
  box->setRange(low, high);
  box->setSingleStep(step);
  box->setDecimals(decimals);
  box->setAccessibleName(name);
  box->setKeyboardTracking(false);
  box->setMinimumWidth(64);
  box->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  return box;
}

QSpinBox* TheoryControls::whole(int low, int high, const QString& name) {
  auto* box = new QSpinBox(this);
  box->setRange(low, high);
  box->setAccessibleName(name);
  box->setKeyboardTracking(false);
  return box;
}

void TheoryControls::buildCode(QVBoxLayout* column) {
  QFormLayout* form = section(column, QStringLiteral("Product code"));
  codes_ = whole(2, TheoryState::kMostCodes, QStringLiteral("Codes per factor d"));
  codes_->setToolTip(QStringLiteral("Codes per factor. Theorem 1 wants 4 or more: 2 codes see one coordinate, 3 have a cubic error"));
  factors_ = whole(1, TheoryState::kMostFactors, QStringLiteral("Factors U"));
  slots_label_ = new QLabel(this);
  slots_label_->setProperty("ui", "text2");
  form->addRow(QStringLiteral("codes d"), codes_);
  form->addRow(QStringLiteral("factors U"), factors_);
  form->addRow(QStringLiteral("slots"), slots_label_);
  connect(codes_, &QSpinBox::valueChanged, this, [this](int v) { apply([&] { state_.codes = v; }); });
  connect(factors_, &QSpinBox::valueChanged, this, [this](int v) { apply([&] { state_.setFactors(v); }); });
}

void TheoryControls::setBeta(bool read, double multiple) {
  if (multiple != 0) multiple = std::clamp(multiple, TheoryState::kLeastMultiple, TheoryState::kMostMultiple);
  (read ? state_.read : state_.write) = multiple;
  if (state_.linked) state_.read = state_.write = multiple;
}

QWidget* TheoryControls::beta(QFormLayout* form, const QString& label, bool read) {
  const int at = read ? 0 : 1;
  beta_[at] = number(0, TheoryState::kMostMultiple, 0.1, 6, read ? QStringLiteral("β of reads, in β*") : QStringLiteral("β of writes, in β*"));
  beta_[at]->setSuffix(QStringLiteral(" β*"));
  slider_[at] = new QSlider(Qt::Horizontal, this);
  slider_[at]->setRange(-kSliderSteps, kSliderSteps);
  slider_[at]->setPageStep(20);
  slider_[at]->setAccessibleName(beta_[at]->accessibleName() + QStringLiteral(", slider"));
  slider_[at]->setToolTip(QStringLiteral("From a tenth of β* to ten times β*"));
  connect(beta_[at], &QDoubleSpinBox::valueChanged, this, [this, read](double v) { apply([&] { setBeta(read, v); }); });
  connect(slider_[at], &QSlider::valueChanged, this,
          [this, read](int v) { apply([&] { setBeta(read, v == 0 ? 1 : std::pow(10.0, double(v) / kSliderSteps)); }); });
  form->addRow(label, beta_[at]);
  form->addRow(slider_[at]);
  return beta_[at];
}

void TheoryControls::buildBetas(QVBoxLayout* column) {
  QFormLayout* form = section(column, QStringLiteral("Temperature"));
  star_ = new QLabel(this);
  star_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  star_->setToolTip(QStringLiteral("β* = √(2/τ) with τ = √(2U): β²/2 q·k is then attention's q·k/τ"));
  form->addRow(QStringLiteral("β*"), star_);
  beta(form, QStringLiteral("read"), true);
  beta(form, QStringLiteral("write"), false);
  linked_ = new QCheckBox(QStringLiteral("read and write alike"), this);
  connect(linked_, &QCheckBox::toggled, this, [this](bool on) {
    apply([&] {
      state_.linked = on;
      if (on) state_.write = state_.read;
    });
  });
  form->addRow(linked_);
}

void TheoryControls::buildVectors(QVBoxLayout* column) {
  QFormLayout* form = section(column, QStringLiteral("Query and key"));
  factor_ = new QComboBox(this);
  factor_->setAccessibleName(QStringLiteral("Factor"));
  connect(factor_, &QComboBox::activated, this, [this](int v) { apply([&] { state_.factor = v; }); });
  form->addRow(QStringLiteral("factor"), factor_);
  for (const int at : {0, 1}) {
    const QString name = at == 0 ? QStringLiteral("q") : QStringLiteral("k");
    angle_[at] = number(0, 360, 1, 2, QStringLiteral("angle of ") + name);
    angle_[at]->setWrapping(true);
    angle_[at]->setSuffix(QStringLiteral("°"));
    length_[at] = number(0, TheoryState::kLongest, 0.05, 4, QStringLiteral("length of ") + name);
    // What is not changed keeps all its digits; the fields show fewer.
    connect(angle_[at], &QDoubleSpinBox::valueChanged, this, [this, at](double v) {
      apply([&] {
        auto& x = at == 0 ? state_.q : state_.k;
        setPolar(x, state_.factor, std::hypot(x[size_t(2 * state_.factor)], x[size_t(2 * state_.factor) + 1]), v);
      });
    });
    connect(length_[at], &QDoubleSpinBox::valueChanged, this, [this, at](double v) {
      apply([&] {
        auto& x = at == 0 ? state_.q : state_.k;
        double &a = x[size_t(2 * state_.factor)], &b = x[size_t(2 * state_.factor) + 1];
        const double length = std::hypot(a, b);
        if (length > 0)
          a *= v / length, b *= v / length;
        else
          setPolar(x, state_.factor, v, angle_[at]->value());
      });
    });
    auto* row = new QHBoxLayout;
    row->setSpacing(4);
    row->addWidget(angle_[at]);
    row->addWidget(length_[at]);
    form->addRow(name, row);
  }
  auto* row = new QHBoxLayout;
  row->setSpacing(4);
  auto* same = new QPushButton(QStringLiteral("k = q"), this);
  same->setToolTip(QStringLiteral("An aligned pair in every factor"));
  connect(same, &QPushButton::clicked, this, [this] { apply([&] { state_.k = state_.q; }); });
  auto* random = new QPushButton(QStringLiteral("Random"), this);
  random->setToolTip(QStringLiteral("New angles of q and k in every factor; lengths stay"));
  connect(random, &QPushButton::clicked, this, [this] {
    apply([&] {
      formats::SplitMix64 draw(++state_.seed);
      for (auto* x : {&state_.q, &state_.k})
        for (int u = 0; u < state_.factors(); ++u)
          setPolar(*x, u, std::hypot((*x)[size_t(2 * u)], (*x)[size_t(2 * u) + 1]), double(draw.next() >> 11) * 0x1p-53 * 360);
    });
  });
  row->addWidget(same);
  row->addWidget(random);
  form->addRow(row);
}

void TheoryControls::buildPairs(QVBoxLayout* column) {
  QFormLayout* form = section(column, QStringLiteral("Pairs and keys"));
  pair_kind_ = new QComboBox(this);
  pair_kind_->setAccessibleName(QStringLiteral("Kind of pairs"));
  pair_kind_->addItems({QStringLiteral("random angles"), QStringLiteral("random blocks"), QStringLiteral("turned key")});
  pair_kind_->setToolTip(QStringLiteral("random angles: every block keeps its length, so M is the same for all pairs\n"
                                        "random blocks: lengths are drawn too\nturned key: q stays, k turns once around"));
  connect(pair_kind_, &QComboBox::activated, this, [this](int v) { apply([&] { state_.pair_kind = analysis::PairKind(v); }); });
  pairs_ = whole(1, TheoryState::kMostPairs, QStringLiteral("Number of pairs"));
  pairs_->setSingleStep(100);
  connect(pairs_, &QSpinBox::valueChanged, this, [this](int v) { apply([&] { state_.pairs = v; }); });
  seed_ = new QLineEdit(this);
  seed_->setAccessibleName(QStringLiteral("Seed"));
  seed_->setValidator(new QRegularExpressionValidator(QRegularExpression(QStringLiteral("[0-9]{1,20}")), seed_));
  connect(seed_, &QLineEdit::editingFinished, this, [this] {
    bool ok = false;
    const quint64 seed = seed_->text().toULongLong(&ok);
    if (!ok) return setState(state_);
    if (seed != state_.seed) apply([&] { state_.seed = seed; });
  });
  keys_ = whole(2, TheoryState::kMostKeys, QStringLiteral("Number of keys"));
  keys_->setToolTip(QStringLiteral("k and others of its lengths with drawn angles, for the weights"));
  connect(keys_, &QSpinBox::valueChanged, this, [this](int v) { apply([&] { state_.keys = v; }); });
  form->addRow(QStringLiteral("pairs"), pair_kind_);
  form->addRow(QStringLiteral("number"), pairs_);
  form->addRow(QStringLiteral("seed"), seed_);
  form->addRow(QStringLiteral("keys"), keys_);
}

void TheoryControls::setState(const TheoryState& state) {
  showing_ = true;
  const bool other = !(state == state_);
  state_ = state;
  if (other) presets_->setCurrentIndex(0);
  codes_->setValue(state.codes);
  factors_->setValue(state.factors());
  const auto slot_count = analysis::slot_count(state.codes, state.factors());
  slots_label_->setText(slot_count ? QStringLiteral("%1").arg(count(*slot_count)) : QStringLiteral("%1^%2").arg(state.codes).arg(state.factors()));
  star_->setText(QString::number(state.betaStar(), 'g', 10));
  const double multiples[] = {state.read, state.write};
  for (const int at : {0, 1}) {
    beta_[at]->setValue(multiples[at]);
    slider_[at]->setValue(sliderOf(multiples[at]));
    const auto& x = at == 0 ? state.q : state.k;
    const double a = x[size_t(2 * state.factor)], b = x[size_t(2 * state.factor) + 1];
    angle_[at]->setValue(degrees(a, b));
    length_[at]->setValue(std::hypot(a, b));
  }
  linked_->setChecked(state.linked);
  if (factor_->count() != state.factors()) {
    factor_->clear();
    for (int u = 0; u < state.factors(); ++u) factor_->addItem(QStringLiteral("%1 of %2").arg(u).arg(state.factors()));
  }
  factor_->setCurrentIndex(state.factor);
  pair_kind_->setCurrentIndex(int(state.pair_kind));
  pairs_->setValue(state.pairs);
  if (!seed_->hasFocus() || seed_->text().toULongLong() != state.seed) seed_->setText(QString::number(state.seed));
  keys_->setValue(state.keys);
  showing_ = false;
}

}  // namespace slotscope::views
