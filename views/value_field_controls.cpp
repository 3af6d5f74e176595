#include "views/value_field_controls.h"

#include <QCheckBox>
#include <QColorDialog>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QEvent>
#include <QGridLayout>
#include <QLabel>
#include <QPainter>
#include <QPushButton>
#include <QSlider>
#include <QSpinBox>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "core/analysis/product_code.h"
#include "views/format.h"
#include "views/value_field_paint.h"
#include "views/value_field_view.h"

namespace slotscope::views {

using analysis::FieldKind;
using analysis::FieldPanel;
using analysis::FieldSpace;

namespace {

constexpr const char* kLayoutNames[] = {"spread", "random", "ring", "grid"};
// The slider of tau: 400 steps from 0.01 to 10, equal ratios.
constexpr double kLeastTau = 0.01, kMostTau = 10;
constexpr int kTauSteps = 400;
int sliderOf(double tau) { return int(std::lround(kTauSteps * std::log(std::clamp(tau, kLeastTau, kMostTau) / kLeastTau) / std::log(kMostTau / kLeastTau))); }
double tauOf(int at) {
  const double tau = kLeastTau * std::pow(kMostTau / kLeastTau, double(at) / kTauSteps);
  return QString::number(tau, 'g', 3).toDouble();
}

// The common value of a member of all RAM-Net columns, or nothing.
template <class Get>
auto common(const analysis::FieldSettings& s, const Get& get) {
  std::optional<decltype(get(s.columns[0]))> found;
  for (const FieldPanel& p : s.columns) {
    if (p.kind != FieldKind::ramnet) continue;
    if (found && *found != get(p)) return decltype(found)();
    found = get(p);
  }
  return found;
}
bool anyMemory(const analysis::FieldSettings& s) {
  return std::any_of(s.columns.begin(), s.columns.end(), [](const auto& p) { return p.kind == FieldKind::ramnet; });
}

}  // namespace

void FieldRule::paintEvent(QPaintEvent*) { QPainter(this).fillRect(rect(), Theme::current().line); }

// Names, colours and values of the panels of one row at the cross.
class ValueFieldControls::CrossList : public QWidget {
 public:
  explicit CrossList(ValueFieldControls* controls) : QWidget(controls), view_(controls->view_) { setFocusPolicy(Qt::NoFocus); }
  struct Line {
    QString name, value;
    QColor colour;
  };
  QVector<Line> lines() const {
    QVector<Line> lines;
    const auto& s = view_->state().settings;
    const auto& v = view_->crossValues();
    const size_t C = size_t(s.channels), columns = s.columns.size(), row = size_t(std::clamp(view_->shownRow(), 0, int(s.rows.size()) - 1));
    if (v.size() != (1 + s.rows.size() * columns) * C) return lines;
    for (size_t column = 0; column < columns; ++column) {
      const double* at = &v[(1 + row * columns + column) * C];
      lines.push_back({fieldTitle(s, column), C == 3 ? fieldColour(s, at).name() : QString::number(*at, 'f', 3), fieldColour(s, at)});
    }
    return lines;
  }
  QString heading() const {
    const auto& state = view_->state();
    if (!state.cross) return QStringLiteral("move over a panel");
    const bool torus = state.settings.space == FieldSpace::torus;
    return QStringLiteral("%1 = %2   %3 = %4")
        .arg(torus ? QStringLiteral("φ₀") : QStringLiteral("q₀"), signedNumber(state.cross->x(), 3), torus ? QStringLiteral("φ₁") : QStringLiteral("q₁"), signedNumber(state.cross->y(), 3));
  }
  void renew() {
    setFixedHeight(int(std::ceil(lineHeight() * double(1 + view_->state().settings.columns.size()) + 2)));
    QStringList words{heading()};
    for (const Line& line : lines()) words << line.name + QLatin1Char(' ') + line.value;
    setAccessibleName(QStringLiteral("At the cross: ") + words.join(QStringLiteral(", ")));
    update();
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    const Theme& theme = Theme::current();
    QPainter painter(this);
    painter.setFont(theme.label());
    const QFontMetricsF metrics(theme.label());
    double y = 0;
    painter.setPen(theme.text2);
    painter.drawText(QRectF(0, y, width(), lineHeight()), int(Qt::AlignLeft | Qt::AlignVCenter), heading());
    const double value_width = metrics.horizontalAdvance(QStringLiteral("#000000")), square = 10 * theme.base / 12;
    for (const Line& line : lines()) {
      y += lineHeight();
      const double value_left = width() - std::min(value_width, metrics.horizontalAdvance(line.value) + 14), square_left = width() - value_width - square + 2;
      painter.setPen(theme.text2);
      painter.drawText(QRectF(0, y, square_left - 6, lineHeight()), int(Qt::AlignLeft | Qt::AlignVCenter), metrics.elidedText(line.name, Qt::ElideMiddle, square_left - 6));
      painter.fillRect(QRectF(std::round(square_left), std::round(y + (lineHeight() - square) / 2), square, square), line.colour);
      painter.setPen(theme.text);
      painter.drawText(QRectF(value_left, y, width() - value_left, lineHeight()), int(Qt::AlignRight | Qt::AlignVCenter), line.value);
    }
  }

 private:
  static double lineHeight() { return 19 * Theme::current().base / 12; }
  ValueFieldView* view_;
};

ValueFieldControls::ValueFieldControls(ValueFieldView* view) : view_(view) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(11, 10, 11, 10);
  column->setSpacing(5);
  buildKeys(column);
  column->addSpacing(4);
  buildTemperature(column);
  column->addSpacing(4);
  buildMemory(column);
  auto* line = new FieldRule(this);
  line->setFixedHeight(1);
  column->addSpacing(6);
  column->addWidget(line);
  column->addSpacing(2);
  auto* title = new QLabel(QStringLiteral("At the cross"), this);
  title->setProperty("ui", "semibold");
  column->addWidget(title);
  cross_ = new CrossList(this);
  column->addWidget(cross_);
  column->addStretch(1);
  restyle();
}

void ValueFieldControls::restyle() {
  const Theme& theme = Theme::current();
  const QString style = QStringLiteral("QSlider::groove:horizontal { height: 2px; background: %1; border-radius: 1px; }"
                                       "QSlider::handle:horizontal { width: 12px; height: 12px; margin: -5px 0; border-radius: 6px; background: %2; }"
                                       "QSlider::handle:horizontal:focus { background: %3; }")
                            .arg(theme.line.name(), theme.text2.name(), theme.selection.name());
  if (slider_->styleSheet() != style) slider_->setStyleSheet(style);
}

QGridLayout* ValueFieldControls::section(QVBoxLayout* column, const QString& title) {
  auto* label = new QLabel(title, this);
  label->setProperty("ui", "semibold");
  column->addWidget(label);
  auto* grid = new QGridLayout;
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setHorizontalSpacing(6);
  grid->setVerticalSpacing(5);
  grid->setColumnStretch(0, 1);
  column->addLayout(grid);
  return grid;
}

void ValueFieldControls::row(QGridLayout* grid, const QString& name, QWidget* field, const QString& tip) {
  auto* label = new QLabel(name, this);
  label->setProperty("ui", "text2");
  label->setFont(Theme::current().label());
  label->setBuddy(field);
  field->setAccessibleName(name);
  field->setToolTip(tip);
  const int at = grid->rowCount();
  grid->addWidget(label, at, 0);
  grid->addWidget(field, at, 1);
  field->setProperty("label", QVariant::fromValue(static_cast<QObject*>(label)));
}

void ValueFieldControls::layKeys(const std::function<void(FieldState&)>& change) {
  if (showing_) return;
  view_->change([&](FieldState& state) {
    change(state);
    state.layout.rgb = state.settings.channels == 3;
    state.settings.keys = analysis::field_keys(state.settings.space, state.layout);
    state.settings.origin.clear(), state.settings.queries.clear(), state.edited = false, state.selected = -1;
  });
}

void ValueFieldControls::buildKeys(QVBoxLayout* column) {
  auto* grid = section(column, QStringLiteral("Keys"));
  count_ = new QSpinBox(this);
  count_->setRange(1, 256);
  count_->setFixedWidth(122);
  count_->setKeyboardTracking(false);
  row(grid, QStringLiteral("count"), count_, QStringLiteral("How many keys; a new count lays them out again"));
  connect(count_, &QSpinBox::valueChanged, this, [this](int n) { layKeys([n](FieldState& state) { state.layout.count = n; }); });
  layout_ = new QComboBox(this);
  layout_->setFixedWidth(122);
  row(grid, QStringLiteral("layout"), layout_, QStringLiteral("Where keys lie and how values are dealt out: the same seed gives the same keys"));
  connect(layout_, &QComboBox::activated, this, [this](int index) {
    const int kind = layout_->itemData(index).toInt();
    layKeys([kind](FieldState& state) {
      if (kind < 4) state.layout.kind = analysis::FieldLayoutKind(kind);
      if (kind == 4) ++state.layout.seed;
      if (kind == 5 && state.layout.seed > 0) --state.layout.seed;
    });
  });
  values_ = new QComboBox(this);
  values_->addItems({QStringLiteral("scalar 0 – 1"), QStringLiteral("RGB colours")});
  values_->setFixedWidth(122);
  row(grid, QStringLiteral("values"), values_, QStringLiteral("One number or one colour per key"));
  connect(values_, &QComboBox::activated, this, [this](int index) {
    if (showing_ || (index == 1) == (view_->state().settings.channels == 3)) return;
    view_->change([index](FieldState& state) {
      // Keys stay where they are, only what they hold changes.
      state.settings.channels = index == 1 ? 3 : 1;
      state.layout.rgb = index == 1;
      analysis::FieldLayout layout = state.layout;
      layout.count = int(state.settings.keys.size());
      const auto dealt = analysis::field_keys(state.settings.space, layout);
      for (size_t i = 0; i < dealt.size(); ++i) state.settings.keys[i].value = dealt[i].value;
      state.settings.origin.clear(), state.settings.queries.clear();
    });
  });
  key_name_ = new QLabel(this);
  key_name_->setProperty("ui", "text2");
  key_name_->setFont(Theme::current().label());
  key_value_ = new QDoubleSpinBox(this);
  key_value_->setRange(-1000, 1000);
  key_value_->setDecimals(3);
  key_value_->setSingleStep(0.05);
  key_value_->setFixedWidth(122);
  key_value_->setAccessibleName(QStringLiteral("Value of the selected key"));
  connect(key_value_, &QDoubleSpinBox::valueChanged, this, [this](double v) {
    const int key = view_->state().selected;
    if (!showing_ && key >= 0)
      view_->change([key, v](FieldState& state) { state.settings.keys[size_t(key)].value[0] = v, state.edited = true; });
  });
  key_colour_ = new QPushButton(this);
  key_colour_->setFixedWidth(122);
  key_colour_->setAccessibleName(QStringLiteral("Colour of the selected key"));
  connect(key_colour_, &QPushButton::clicked, this, &ValueFieldControls::chooseColour);
  const int at = grid->rowCount();
  grid->addWidget(key_name_, at, 0);
  grid->addWidget(key_value_, at, 1);
  grid->addWidget(key_colour_, at, 1);
  origin_ = new QLabel(this);
  origin_->setProperty("ui", "text3");
  origin_->setFont(Theme::current().micro());
  origin_->setWordWrap(true);
  column->addWidget(origin_);
}

void ValueFieldControls::chooseColour() {
  const int key = view_->state().selected;
  if (key < 0) return;
  const auto& s = view_->state().settings;
  const QColor chosen = QColorDialog::getColor(fieldColour(s, s.keys[size_t(key)].value.data()), this, QStringLiteral("Value of key %1").arg(key));
  if (chosen.isValid())
    view_->change([&](FieldState& state) { state.settings.keys[size_t(key)].value = {chosen.redF(), chosen.greenF(), chosen.blueF()}, state.edited = true; });
}

void ValueFieldControls::buildTemperature(QVBoxLayout* column) {
  auto* grid = section(column, QStringLiteral("Temperature"));
  tau_ = new QDoubleSpinBox(this);
  tau_->setDecimals(4);
  tau_->setRange(0.001, 1000);
  tau_->setStepType(QAbstractSpinBox::AdaptiveDecimalStepType);
  tau_->setFixedWidth(101);
  tau_->setKeyboardTracking(false);
  row(grid, QStringLiteral("τ"), tau_, QStringLiteral("Full attention: softmax(q·k/τ)"));
  tau_->setAccessibleName(QStringLiteral("Temperature tau"));
  star_ = new QLabel(this);
  row(grid, QStringLiteral("β*"), star_, QStringLiteral("The beta at which β² q·k / 2 = q·k / τ"));
  star_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  slider_ = new QSlider(Qt::Horizontal, this);
  slider_->setRange(0, kTauSteps);
  slider_->setPageStep(20);
  slider_->setAccessibleName(QStringLiteral("Temperature tau, logarithmic"));
  column->addWidget(slider_);
  connect(tau_, &QDoubleSpinBox::valueChanged, this, [this](double tau) {
    if (!showing_) view_->change([tau](FieldState& state) { state.settings.tau = tau; });
  });
  connect(slider_, &QSlider::valueChanged, this, [this](int at) {
    if (!showing_) view_->change([at](FieldState& state) { state.settings.tau = tauOf(at); }, slider_->isSliderDown());
  });
  connect(slider_, &QSlider::sliderReleased, this, [this] { view_->finishQuick(); });
}

void ValueFieldControls::changeMemories(const std::function<void(FieldPanel&)>& change) {
  if (showing_) return;
  view_->change([&](FieldState& state) {
    for (FieldPanel& p : state.settings.columns)
      if (p.kind == FieldKind::ramnet) change(p);
    state.columns.clear();
  });
}

void ValueFieldControls::buildMemory(QVBoxLayout* column) {
  auto* grid = section(column, QStringLiteral("Memory"));
  factors_ = new QSpinBox(this);
  factors_->setRange(1, 2);
  factors_->setFixedWidth(138);
  row(grid, QStringLiteral("factors U"), factors_, QStringLiteral("2: keys and queries are two angles (a torus). 1: two coordinates of one planar block (Figure 1)"));
  connect(factors_, &QSpinBox::valueChanged, this, [this](int n) {
    if (showing_) return;
    view_->change([n](FieldState& state) {
      const auto space = n == 2 ? FieldSpace::torus : FieldSpace::plane;
      // K beyond the slots stays "all of them".
      for (FieldPanel& p : state.settings.columns)
        if (p.kind == FieldKind::ramnet && p.top_k >= analysis::field_slots(state.settings.space, p.codes)) p.top_k = analysis::field_slots(space, p.codes);
      state.settings.space = space;
      state.settings.query_radius = {1, 1};
      state.layout.count = int(state.settings.keys.size());
      state.layout.rgb = state.settings.channels == 3;
      state.settings.keys = analysis::field_keys(space, state.layout);
      if (const auto* set = analysis::find_field_columns(state.columns.toStdString())) state.settings.columns = set->make(space);
      state.settings.origin.clear(), state.settings.queries.clear(), state.edited = false, state.selected = -1, state.cross.reset();
    });
  });
  update_ = new QComboBox(this);
  update_->setFixedWidth(138);
  row(grid, QStringLiteral("update"), update_, QStringLiteral("Cumulative: slots keep all mass. GSU: what is left of a slot's mass when it is written again is σ(logit(1 − w) − γ)"));
  connect(update_, &QComboBox::activated, this, [this](int index) {
    const int kind = update_->itemData(index).toInt();
    if (kind == 2) return;
    changeMemories([this, kind](FieldPanel& p) { p.cumulative = kind == 0, p.gamma = kind == 0 ? 0 : gamma_->value(); });
  });
  gamma_ = new QDoubleSpinBox(this);
  gamma_->setRange(-40, 40);
  gamma_->setDecimals(2);
  gamma_->setSingleStep(0.25);
  gamma_->setFixedWidth(138);
  row(grid, QStringLiteral("γ"), gamma_, QStringLiteral("Large: a write replaces what its slots hold; very negative: the cumulative mean"));
  connect(gamma_, &QDoubleSpinBox::valueChanged, this, [this](double gamma) {
    changeMemories([gamma](FieldPanel& p) {
      if (!p.cumulative) p.gamma = gamma;
    });
  });
  order_ = new QComboBox(this);
  order_->addItems({QStringLiteral("key 0 first"), QStringLiteral("key 0 last"), QStringLiteral("shuffled")});
  order_->setFixedWidth(138);
  row(grid, QStringLiteral("writes"), order_, QStringLiteral("In which order the keys are written: nothing to the cumulative mean"));
  connect(order_, &QComboBox::activated, this, [this](int index) { changeMemories([index](FieldPanel& p) { p.order = analysis::FieldOrder(index); }); });
  readout_ = new QComboBox(this);
  readout_->setFixedWidth(138);
  row(grid, QStringLiteral("readout"), readout_, QStringLiteral("Standard: Σ r s. Mass-aware: Σ r m s / Σ r m over the slots that are read"));
  connect(readout_, &QComboBox::activated, this, [this](int index) {
    const int kind = readout_->itemData(index).toInt();
    if (kind < 2) changeMemories([kind](FieldPanel& p) { p.mass_aware = kind == 1; });
  });
  divide_ = new QCheckBox(QStringLiteral("divide by retained read mass"), this);
  divide_->setToolTip(QStringLiteral("Standard readouts over the read weight on written slots, which Top-K makes less than 1"));
  auto* column_of = qobject_cast<QVBoxLayout*>(layout());
  column_of->addWidget(divide_);
  connect(divide_, &QCheckBox::clicked, this, [this](bool on) {
    changeMemories([on](FieldPanel& p) { p.divide = on && !p.mass_aware; });
  });
}

void ValueFieldControls::showState() {
  showing_ = true;
  const FieldState& state = view_->state();
  const auto& s = state.settings;
  count_->setMaximum(std::max(256, int(s.keys.size())));
  count_->setValue(int(s.keys.size()));
  layout_->clear();
  if (state.edited || !s.origin.empty()) layout_->addItem(s.origin.empty() ? QStringLiteral("by hand") : QStringLiteral("captured"), 6);
  for (int i = 0; i < 4; ++i) layout_->addItem(QStringLiteral("%1, seed %2").arg(QLatin1String(kLayoutNames[i])).arg(state.layout.seed), i);
  layout_->insertSeparator(layout_->count());
  layout_->addItem(QStringLiteral("next seed"), 4);
  layout_->addItem(QStringLiteral("previous seed"), 5);
  layout_->setCurrentIndex(state.edited || !s.origin.empty() ? 0 : int(state.layout.kind));
  values_->setCurrentIndex(s.channels == 3 ? 1 : 0);
  const bool selected = state.selected >= 0;
  key_name_->setVisible(selected);
  key_value_->setVisible(selected && s.channels == 1);
  key_colour_->setVisible(selected && s.channels == 3);
  if (selected) {
    key_name_->setText(QStringLiteral("key %1").arg(state.selected));
    const auto& key = s.keys[size_t(state.selected)];
    key_value_->setValue(key.value[0]);
    key_colour_->setText(fieldColour(s, key.value.data()).name());
  }
  origin_->setText(QString::fromStdString(s.origin));
  origin_->setVisible(!s.origin.empty());
  tau_->setValue(s.tau);
  star_->setText(QStringLiteral("√(2/τ) = %1").arg(analysis::beta_star_of_tau(s.tau), 0, 'f', 3));
  if (!slider_->isSliderDown()) slider_->setValue(sliderOf(s.tau));
  factors_->setValue(analysis::field_factors(s.space));

  const auto cumulative = common(s, [](const FieldPanel& p) { return p.cumulative; });
  update_->clear();
  if (anyMemory(s) && !cumulative) update_->addItem(QStringLiteral("per column"), 2);
  update_->addItem(QStringLiteral("cumulative mean"), 0);
  update_->addItem(QStringLiteral("GSU, fixed γ"), 1);
  update_->setCurrentIndex(cumulative ? (*cumulative ? 0 : 1) : 0);
  const bool forgets = anyMemory(s) && cumulative != std::optional(true);
  for (QWidget* field : {static_cast<QWidget*>(gamma_), static_cast<QWidget*>(order_)}) {
    field->setVisible(forgets);
    if (auto* label = qobject_cast<QWidget*>(field->property("label").value<QObject*>())) label->setVisible(forgets);
  }
  double gamma = gamma_->value();
  for (const FieldPanel& p : s.columns)
    if (p.kind == FieldKind::ramnet && !p.cumulative) gamma = std::clamp(p.gamma, -40.0, 40.0);
  gamma_->setValue(gamma);
  if (const auto order = common(s, [](const FieldPanel& p) { return p.order; })) order_->setCurrentIndex(int(*order));
  const auto mass = common(s, [](const FieldPanel& p) { return p.mass_aware; });
  readout_->clear();
  if (!mass) readout_->addItem(QStringLiteral("per column"), 2);
  readout_->addItem(QStringLiteral("standard"), 0);
  readout_->addItem(QStringLiteral("mass-aware"), 1);
  readout_->setCurrentIndex(mass ? int(*mass) : 0);
  bool any_divided = false, any_standard = false;
  for (const FieldPanel& p : s.columns)
    if (p.kind == FieldKind::ramnet && !p.mass_aware) any_standard = true, any_divided = any_divided || p.divide;
  divide_->setChecked(any_divided);
  divide_->setEnabled(any_standard);
  for (QWidget* field : {static_cast<QWidget*>(update_), static_cast<QWidget*>(readout_)}) field->setEnabled(anyMemory(s));
  showing_ = false;
  showCross();
}

void ValueFieldControls::showCross() { cross_->renew(); }

QString ValueFieldControls::crossText() const {
  QStringList lines{cross_->heading()};
  for (const auto& line : cross_->lines()) lines << line.name + QLatin1Char('\t') + line.value;
  return lines.join(QLatin1Char('\n'));
}

void ValueFieldControls::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange)
    if (cross_) restyle(), showCross();
}

}  // namespace slotscope::views
