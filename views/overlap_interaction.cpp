// The overlap view's bar, mouse, keyboard and words.
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QEvent>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QMouseEvent>
#include <QPushButton>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QStandardItemModel>
#include <QToolButton>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "views/caption.h"
#include "views/format.h"
#include "views/overlap_view.h"
#include "views/token_cells.h"

namespace slotscope::views {

namespace {

constexpr int kCaptured = 1 << 30;  // of the shift box

QString tokenWords(const RunData* run, int64_t t) {
  return run && hasInfo(*run) ? count(t) + QLatin1Char(' ') + tokenTitle(run->info(), t) : count(t);
}

}  // namespace

void OverlapView::buildBar() {
  auto* bar = viewBar();
  bar->addWidget(barLabel(QStringLiteral("Show")));
  const auto combo = [&](const QString& name, const QString& tip) {
    auto* box = new QComboBox(this);
    box->setAccessibleName(name);
    box->setToolTip(tip);
    box->setSizeAdjustPolicy(QComboBox::AdjustToContents);
    return box;
  };
  show_box_ = combo(QStringLiteral("Show"), {});
  connect(show_box_, &QComboBox::activated, this, [this](int i) { setShow(MatrixKind(show_box_->itemData(i).toInt())); });
  show_box_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  show_box_->setMinimumContentsLength(11);
  bar->addWidget(show_box_);
  kind_box_ = combo(QStringLiteral("How routes are compared"), QStringLiteral("Routes are compared slot by slot: the smaller weight, the product, or the smaller write strength"));
  kind_box_->addItem(QStringLiteral("min"), int(analysis::OverlapKind::min));
  kind_box_->addItem(QStringLiteral("product"), int(analysis::OverlapKind::dot));
  kind_box_->addItem(QStringLiteral("write strength"), int(analysis::OverlapKind::write));
  connect(kind_box_, &QComboBox::activated, this, [this](int i) { setOverlapKind(analysis::OverlapKind(kind_box_->itemData(i).toInt())); });
  bar->addWidget(kind_box_);
  row_sum_ = new QToolButton(this);
  row_sum_->setText(QStringLiteral("÷ Σ"));
  row_sum_->setAccessibleName(QStringLiteral("Divide by row sum"));
  row_sum_->setCheckable(true);
  row_sum_->setProperty("ui", QStringLiteral("segment"));
  row_sum_->setToolTip(QStringLiteral("Divide each row by its sum, as attention rows are"));
  connect(row_sum_, &QToolButton::toggled, this, &OverlapView::setByRowSum);
  bar->addWidget(row_sum_);
  pool_box_ = combo(QStringLiteral("Pixels show"), QStringLiteral("What a pixel shows when it covers several pairs"));
  pool_box_->addItems({QStringLiteral("max"), QStringLiteral("mean")});
  connect(pool_box_, &QComboBox::activated, this, [this](int i) { setMean(i == 1); });
  bar->addWidget(pool_box_);

  top_k_ = new QSpinBox(this);
  top_k_->setAccessibleName(QStringLiteral("Top-K"));
  top_k_->setPrefix(QStringLiteral("Top-"));
  connect(top_k_, &QSpinBox::valueChanged, this, [this](int k) {
    auto dials = dials_;
    dials.top_k = picture_ && picture_->captured && k == picture_->captured->write->top_k ? 0 : k;
    setDials(dials);
  });
  bar->addWidget(top_k_);
  temperature_ = new QDoubleSpinBox(this);
  temperature_->setAccessibleName(QStringLiteral("Temperature"));
  temperature_->setPrefix(QStringLiteral("τ "));
  temperature_->setDecimals(2);
  temperature_->setRange(0.05, 20);
  temperature_->setSingleStep(0.1);
  temperature_->setValue(1);
  connect(temperature_, &QDoubleSpinBox::valueChanged, this, [this](double t) {
    auto dials = dials_;
    dials.temperature = t;
    setDials(dials);
  });
  bar->addWidget(temperature_);
  shift_box_ = combo(QStringLiteral("Shift"), QStringLiteral("CAPE: slots by which an address moves per token. Undone and made again exactly"));
  connect(shift_box_, &QComboBox::activated, this, [this](int i) {
    auto dials = dials_;
    const int shift = shift_box_->itemData(i).toInt();
    if (shift == kCaptured) dials.shift = std::nullopt;
    else dials.shift = shift;
    setDials(dials);
  });
  bar->addWidget(shift_box_);
  buildColours(bar);
}

void OverlapView::buildColours(QHBoxLayout* bar) {
  bar->addStretch(1);
  open_other_ = new QPushButton(QStringLiteral("Second trace…"), this);
  open_other_->setToolTip(QStringLiteral("Open another model's trace of the same prompt, to compare its attention with the overlap"));
  connect(open_other_, &QPushButton::clicked, this, &OverlapView::secondTraceRequested);
  bar->addWidget(open_other_);
  other_box_ = new QComboBox(this);
  other_box_->setAccessibleName(QStringLiteral("Layer and head of B"));
  other_box_->setToolTip(QStringLiteral("Layer and query head of the second trace, B"));
  connect(other_box_, &QComboBox::activated, this, [this](int i) {
    const QPoint at = other_box_->itemData(i).toPoint();
    chooseOther(at.x(), at.y());
  });
  bar->addWidget(other_box_);
  colour_bar_ = new ColourBar(this);
  bar->addWidget(colour_bar_);
  connect(colour_bar_, &ColourBar::clicked, this, [this] {
    if (show_ == MatrixKind::difference) return;  // its limits are symmetric about 0
    if (!range_editor_) {
      range_editor_ = new ColourRangeEditor(this);
      connect(range_editor_, &ColourRangeEditor::changed, this, &OverlapView::setColours);
      range_editor_->setState(colour_bar_->state());
    }
    range_editor_->openAt(colour_bar_->mapToGlobal(QPoint(colour_bar_->width(), colour_bar_->height() + 2)));
  });
  connect(colour_bar_, &ColourBar::rangeDragged, this, [this](double low, double high) {
    if (show_ == MatrixKind::difference) return;
    ColourSettings s = colours_;
    s.mode = RangeMode::typed, s.low = low, s.high = high;
    setColours(s);
  });
  updateBar();
}

// Choices that cannot be made stay in the list, disabled, with the reason as tooltip.
void OverlapView::updateBar() {
  const QSignalBlocker a(show_box_), b(pool_box_), c(top_k_), d(temperature_), e(shift_box_), f(row_sum_), g(kind_box_), h(other_box_);
  show_box_->clear();
  auto* model = qobject_cast<QStandardItemModel*>(show_box_->model());
  for (int kind = 0; kind < kMatrixKinds; ++kind) {
    show_box_->addItem(matrixName(MatrixKind(kind), picture_.get(), false), kind);
    const QString why = picture_ ? picture_->why[size_t(kind)] : QString();
    if (!why.isEmpty() && kind != int(show_)) {
      model->item(kind)->setEnabled(false);
      model->item(kind)->setToolTip(why);
    }
  }
  show_box_->setCurrentIndex(int(show_));
  pool_box_->setCurrentIndex(mean_ ? 1 : 0);
  row_sum_->setChecked(by_row_sum_);
  row_sum_->setEnabled(show_ != MatrixKind::difference);
  const analysis::Addresses* captured = picture_ ? picture_->captured.get() : nullptr;
  const bool own = captured && captured->own_reads;
  for (QWidget* w : {static_cast<QWidget*>(top_k_), static_cast<QWidget*>(temperature_), static_cast<QWidget*>(shift_box_)}) w->setVisible(own);
  kind_box_->setVisible(captured && !captured->own_reads && !captured->rule.known && show_ == MatrixKind::overlap);
  kind_box_->setCurrentIndex(kind_box_->findData(int(kind_)));
  if (own) {
    top_k_->setRange(1, std::max(1, std::min(captured->write->top_k, captured->read_k)));
    top_k_->setValue(dials_.top_k ? dials_.top_k : captured->write->top_k);
    top_k_->setToolTip(QStringLiteral("Only the first ranks of each address, at most the %1 that were captured").arg(captured->write->top_k));
    temperature_->setValue(dials_.temperature);
    const QString why = QString::fromStdString(analysis::why_not(*captured, {.temperature = 0.5}));
    temperature_->setEnabled(why.isEmpty() || dials_.temperature != 1);
    temperature_->setToolTip(why.isEmpty() ? QStringLiteral("Temperature of the read and write softmaxes") : why);
    shift_box_->clear();
    const auto shifted = [](int64_t shift) {
      return shift == 0 ? QStringLiteral("no shift") : QStringLiteral("shift ") + (shift > 0 ? QStringLiteral("+") : QString()) + signedNumber(double(shift), 0);
    };
    shift_box_->addItem(shifted(captured->code.shift), kCaptured);
    for (const int shift : {0, 1, -1})
      if (shift != captured->code.shift) shift_box_->addItem(shifted(shift), shift);
    shift_box_->setCurrentIndex(std::max(0, dials_.shift ? shift_box_->findData(int(*dials_.shift)) : 0));
    shift_box_->setEnabled(captured->code.known());
  }
  other_box_->setVisible(other_ != nullptr);
  other_box_->setCurrentIndex(other_box_->findData(QPoint(other_layer_, other_head_)));
  const bool reduced = picture_ && (picture_->grid.max.slots_per_row > 1 || picture_->grid.max.tokens_per_column > 1);
  pool_box_->setVisible(reduced);
  fitBar();
}

// The colour bar goes before the button, which is in the menus too.
void OverlapView::fitBar() {
  open_other_->setVisible(!other_ && width() >= 900 * Theme::current().base / 12);
}

OverlapView::Hit OverlapView::hitAt(const QPointF& at) const {
  Hit hit;
  if (!head_ || !emptyText().isEmpty()) return hit;
  const MatrixGeometry g = geometryFor(QRectF(QPointF(0, 0), contentRect().size()), Theme::current().base / 12);
  for (qsizetype i = 0; i < g.side.size(); ++i)
    if (g.side[i].contains(at) && picture_ && size_t(i) < picture_->side.size()) hit.side = int(i);
  if (hit.side >= 0) {
    const QRectF& plot = g.side[hit.side];
    hit.s = g.columns.first + int64_t((at.x() - plot.left()) / plot.width() * double(g.columns.second - g.columns.first));
    hit.t = g.rows.first + int64_t((at.y() - plot.top()) / plot.height() * double(g.rows.second - g.rows.first));
    hit.inside = true;
    return hit;
  }
  const bool in_rows = at.y() >= g.plot.top() && at.y() < g.plot.bottom(), in_columns = at.x() >= g.plot.left() && at.x() < g.plot.right();
  hit.inside = in_rows && in_columns;
  if (in_rows && at.x() < g.plot.right() + 78 * g.scale) hit.t = std::clamp<int64_t>(int64_t(std::floor(g.row(at.y()))), 0, std::max<int64_t>(tokens() - 1, 0));
  if (in_columns && at.y() >= g.plot.top()) hit.s = std::clamp<int64_t>(int64_t(std::floor(g.column(at.x()))), 0, std::max<int64_t>(tokens() - 1, 0));
  return hit;
}

// Rows of a second trace lie in its file: what the picture shows of them, when it shows every pair.
std::optional<double> OverlapView::exact(MatrixKind kind, int64_t t, int64_t s) const {
  if (!picture_ || !picture_->matrix[size_t(kind)] || s > t || s < 0 || t >= tokens()) return std::nullopt;
  const bool here = kind == MatrixKind::overlap || kind == MatrixKind::induced;
  const auto& m = *picture_->matrix[size_t(kind)];
  if (here && !by_row_sum_) {
    const double v = analysis::tile(m, t, t + 1, s, s + 1)[0];
    return std::isnan(v) ? std::nullopt : std::optional(v);
  }
  const analysis::MatrixGrid* g = kind == show_ ? &picture_->grid : nullptr;
  for (const auto& side : picture_->side)
    if (side.kind == kind) g = &side.grid;
  if (!g || g->max.slots_per_row != 1 || g->max.tokens_per_column != 1 || t < g->t0 || t >= g->t1 || s < g->s0 || s >= g->s1) return std::nullopt;
  const size_t at = size_t(t - g->t0) * size_t(g->max.columns) + size_t(s - g->s0);
  return g->max.state[at] == analysis::Cell::finite ? std::optional(double(g->max.value[at])) : std::nullopt;
}

QString OverlapView::cellText(int64_t t, int64_t s) const {
  QString text = QStringLiteral("t %1   s %2").arg(tokenWords(run_.get(), t), tokenWords(run_.get(), s));
  if (s > t) return text + QStringLiteral("   s is after t");
  if (!picture_) return text;
  for (int kind = 0; kind < kMatrixKinds; ++kind)
    if (const auto v = exact(MatrixKind(kind), t, s))
      text += QStringLiteral("   %1 %2").arg(matrixName(MatrixKind(kind), picture_.get(), by_row_sum_), strength(*v, 4));
  return text;
}

QString OverlapView::tipAt(const QPointF& at) const {
  const Hit hit = hitAt(at);
  if (!picture_ || !picture_->addresses || hit.t < 0) return {};
  const analysis::Addresses& a = *picture_->addresses;
  if (!hit.inside) {
    const int64_t step = std::max<int64_t>(1, int64_t(picture_->grid.max.slots_per_row)), row = (hit.t - picture_->grid.t0) / step;
    if (hit.s >= 0 || row < 0 || size_t(row) >= picture_->js.size()) return {};
    return tipText(QStringLiteral("token ") + tokenWords(run_.get(), picture_->js_token[size_t(row)]),
                   {{picture_->js_name, std::isnan(picture_->js[size_t(row)]) ? QStringLiteral("not known") : strength(picture_->js[size_t(row)], 4) + QStringLiteral(" nats")}},
                   QStringLiteral("(KL(p‖m) + KL(q‖m)) / 2, m = (p + q) / 2, of rows divided by their sums; at most ln 2 = 0.693"), Theme::current());
  }
  const MatrixKind kind = hit.side >= 0 ? picture_->side[size_t(hit.side)].kind : show_;
  QVector<std::pair<QString, QString>> rows;
  for (int k = 0; k < kMatrixKinds; ++k)
    if (const auto v = exact(MatrixKind(k), hit.t, hit.s)) rows.push_back({matrixName(MatrixKind(k), picture_.get(), by_row_sum_), strength(*v, 4)});
  const int64_t read = analysis::row_of(*a.write, hit.t), wrote = analysis::row_of(*a.write, hit.s);
  if (read < 0 || wrote < 0) rows.push_back({QStringLiteral("addresses"), QStringLiteral("not captured")});
  if (read >= 0 && wrote >= 0 && !a.write->every_slot) {
    for (int i = 0; i < a.reads(); ++i)
      for (int j = 0; j < a.write->top_k && rows.size() < 8; ++j)
        if (a.read_slot_at(read, i) == a.write->slot_at(wrote, j))
          rows.push_back({QStringLiteral("meet in ") + QString::fromStdString(analysis::slot_name(a.code, a.read_slot_at(read, i))),
                          strength(a.read_weight_at(read, i), 3) + QStringLiteral(" × ") + strength(a.write->weight_at(wrote, j), 3)});
    rows.push_back({QStringLiteral("t reads"), {}});
    rows += addressRows(a, read, false, 6);
    rows.push_back({QStringLiteral("s wrote"), {}});
    rows += addressRows(a, wrote, true, 6);
  }
  return tipText(QStringLiteral("t %1, s %2").arg(tokenWords(run_.get(), hit.t), tokenWords(run_.get(), hit.s)), rows, matrixFormula(kind, *picture_), Theme::current());
}

QString OverlapView::accessibleText() const {
  if (!head_ || !run_ || !emptyText().isEmpty()) return QStringLiteral("Address overlap, ") + emptyText();
  QString text = QStringLiteral("%1, layer %2 head %3, tokens t %4 to %5, s %6 to %7").arg(matrixName(show_, picture_.get(), by_row_sum_)).arg(head_->layer)
                     .arg(head_->head).arg(rows_.first).arg(rows_.second - 1).arg(columns_.first).arg(columns_.second - 1);
  const int64_t t = selection_ ? selection_->current().token : -1;
  const auto& m = picture_ ? picture_->matrix[size_t(MatrixKind::overlap)] : nullptr;
  if (!m || t < 0 || t >= m->tokens() || !m->has_row(t)) return text;
  analysis::RowBuffer row;
  row.reset(0, t + 1);
  m->add_row(t, row);
  int64_t best = -1;
  for (const int64_t s : row.touched())
    if (best < 0 || row.at(s) > row.at(best) || (row.at(s) == row.at(best) && s < best)) best = s;
  if (best < 0) return text + QStringLiteral(", token %1 meets no earlier write").arg(tokenWords(run_.get(), t));
  return text + QStringLiteral(", token %1 overlaps most with %2: %3").arg(tokenWords(run_.get(), t), tokenWords(run_.get(), best), strength(row.at(best), 4));
}

void OverlapView::selectionMoved(int parts) {
  if (parts & SelectionModel::Token) refreshAccessibility();
  update();
}

void OverlapView::hoverMoved() { update(); }

void OverlapView::changeEvent(QEvent* event) {
  PaintedView::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && colour_bar_) recolour();
}

void OverlapView::resizeEvent(QResizeEvent* event) {
  PaintedView::resizeEvent(event);
  fitBar();
  if (head_ && worker_) again_.start();
}

void OverlapView::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return PaintedView::mousePressEvent(event);
  press_ = event->position();
  press_rows_ = rows_, press_columns_ = columns_;
  pressed_ = true, panning_ = false;
}

void OverlapView::mouseReleaseEvent(QMouseEvent* event) {
  if (!pressed_ || event->button() != Qt::LeftButton) return;
  pressed_ = false;
  if (std::exchange(panning_, false)) return;
  const Hit hit = hitAt(toContent(event->position()));
  if (hit.side >= 0) return setShow(picture_->side[size_t(hit.side)].kind);
  if (!selection_) return;
  if (hit.t >= 0) selection_->request({.token = hit.t});
  else if (hit.s >= 0) selection_->request({.token = hit.s});
}

void OverlapView::mouseDoubleClickEvent(QMouseEvent* event) {
  const Hit hit = hitAt(toContent(event->position()));
  if (hit.inside && hit.side < 0) setWindow(centreRange(hit.t, 64, tokens()), centreRange(hit.s, 64, tokens()));
}

void OverlapView::mouseMoveEvent(QMouseEvent* event) {
  if (pressed_ && ((event->position() - press_).manhattanLength() > 6 || panning_)) {
    panning_ = true;
    const MatrixGeometry g = geometryFor(QRectF(QPointF(0, 0), contentRect().size()), Theme::current().base / 12);
    const QPointF moved = event->position() - press_;
    return setWindow(panRange(press_rows_, -std::llround(moved.y() / g.rowHeight()), tokens()),
                     panRange(press_columns_, -std::llround(moved.x() / g.cellWidth()), tokens()));
  }
  hover_ = hitAt(toContent(event->position()));
  if (selection_) selection_->setHover(-1, hover_.inside ? hover_.s : hover_.t >= 0 ? hover_.t : hover_.s);
  Q_EMIT statusText(hover_.inside ? cellText(hover_.t, hover_.s) : QString());
  update();
}

void OverlapView::leaveEvent(QEvent*) {
  hover_ = {};
  if (selection_) selection_->setHover(-1, -1);
  Q_EMIT statusText({});
  update();
}

void OverlapView::zoom(double factor, std::optional<double> row, std::optional<double> column) {
  setWindow(row ? zoomRange(rows_, *row, factor, tokens()) : rows_, column ? zoomRange(columns_, *column, factor, tokens()) : columns_);
}

void OverlapView::wheelEvent(QWheelEvent* event) {
  const MatrixGeometry g = geometryFor(QRectF(QPointF(0, 0), contentRect().size()), Theme::current().base / 12);
  const QPointF at = toContent(event->position());
  const double units = event->angleDelta().y() != 0 ? event->angleDelta().y() : event->angleDelta().x();
  if (units == 0 || !head_) return event->ignore();
  event->accept();
  if (event->modifiers() & Qt::ShiftModifier) {
    const auto by = [&](CellRange r) { return std::llround(-units / 120 * double(r.second - r.first) / 10); };
    return setWindow(panRange(rows_, by(rows_), tokens()), panRange(columns_, by(columns_), tokens()));
  }
  const bool rows_only = at.x() < g.plot.left() || (event->modifiers() & Qt::ControlModifier), columns_only = at.y() >= g.plot.bottom();
  zoom(wheelFactor(units), columns_only ? std::nullopt : std::optional(g.row(std::clamp(at.y(), g.plot.top(), g.plot.bottom()))),
       rows_only ? std::nullopt : std::optional(g.column(std::clamp(at.x(), g.plot.left(), g.plot.right()))));
}

void OverlapView::keyPressEvent(QKeyEvent* event) {
  const double at = selection_ ? double(selection_->current().token) + 0.5 : 0;
  switch (event->key()) {
    case Qt::Key_Plus:
    case Qt::Key_Equal:
      return zoom(1.5, at, at);
    case Qt::Key_Minus:
      return zoom(1 / 1.5, at, at);
    case Qt::Key_0:
      return setWindow({0, tokens()}, {0, tokens()});
    case Qt::Key_C: {
      for (int step = 1; step < kMatrixKinds; ++step) {
        const auto kind = MatrixKind((int(show_) + step) % kMatrixKinds);
        if (picture_ && picture_->matrix[size_t(kind)]) return setShow(kind);
      }
      return;
    }
    default:
      PaintedView::keyPressEvent(event);
  }
}

}  // namespace slotscope::views
