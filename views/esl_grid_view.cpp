#include "views/esl_grid_view.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QMouseEvent>
#include <QPainter>
#include <QSignalBlocker>
#include <algorithm>
#include <cmath>

#include "views/caption.h"
#include "views/format.h"
#include "views/strip.h"

namespace slotscope::views {

namespace {

// Large cells: margins around the grid of inner plots.
constexpr double kLeft = 57, kRight = 16, kTop = 28, kBottom = 28, kGapX = 32, kGapY = 20;
// Small multiples.
constexpr double kSmallWidth = 90, kSmallHeight = 56, kSmallLeft = 40, kSmallTop = 24, kSmallGapX = 8,
                 kSmallGapY = 8;

}  // namespace

QRectF EslGridView::Geometry::cell(int layer, int head) const {
  return {left + head * step_x, top + layer * step_y, cell_width, cell_height};
}

EslGridView::EslGridView(SelectionModel* selection, QWidget* parent) : PaintedView(selection, parent) {
  auto* bar = viewBar();
  legend_ = new LegendWidget(this);
  bar->addWidget(legend_, 1);
  bar->addWidget(barLabel(QStringLiteral("Bars")));
  bars_ = new QComboBox(this);
  bars_->setAccessibleName(QStringLiteral("Bars coloured by"));
  bars_->addItems({QStringLiteral("regime"), QStringLiteral("slot class")});
  connect(bars_, &QComboBox::activated, this, [this](int index) { setByClass(index == 1); });
  bar->addWidget(bars_);
  bar->addWidget(barLabel(QStringLiteral("y")));
  scale_ = new QComboBox(this);
  scale_->setAccessibleName(QStringLiteral("Height of the bars"));
  scale_->addItems({QStringLiteral("shared 0 – 1"), QStringLiteral("own maximum")});
  connect(scale_, &QComboBox::activated, this, [this](int index) { setOwnMaximum(index == 1); });
  bar->addWidget(scale_);
  updateBar();
  refreshAccessibility();
}

void EslGridView::setByClass(bool by_class) {
  by_class_ = by_class;
  contentChanged();
}

void EslGridView::setOwnMaximum(bool own) {
  own_maximum_ = own;
  contentChanged();
}

QVector<LegendItem> EslGridView::legend(const Theme& theme) const {
  QVector<LegendItem> items;
  const auto tint = [&](const QColor& c) { return theme.dark ? c : mix(QColor(Qt::white), c, 0.12); };
  using C = analysis::SlotClass;
  using R = analysis::Regime;
  if (by_class_)
    for (const auto kind : {C::retrieval, C::shared, C::other})
      items.push_back({LegendItem::Square, tint(theme.roleColour(kind)), slotClassName(kind),
                       slotClassName(kind).section(QLatin1Char(' '), 0, 0)});
  else
    for (const auto regime : {R::long_range, R::intermediate, R::short_range})
      items.push_back({LegendItem::Square, tint(theme.regimeColour(regime)), regimeName(regime),
                       regime == R::intermediate ? QStringLiteral("middle") : QString()});
  items.push_back({LegendItem::Line, theme.fit, QStringLiteral("exponential fit"), QStringLiteral("fit")});
  return items;
}

void EslGridView::updateBar() {
  legend_->setItems(legend(Theme::current()));
  const QSignalBlocker blocked(bars_), blocked_too(scale_);
  bars_->setCurrentIndex(by_class_ ? 1 : 0);
  scale_->setCurrentIndex(own_maximum_ ? 1 : 0);
}

const analysis::HeadSummary* EslGridView::summaryAt(int layer, int head) const {
  return run_ ? findHead(run_->summary, layer, head) : nullptr;
}

EslGridView::Geometry EslGridView::geometryFor(const QSizeF& size, const Theme& theme) const {
  Geometry g;
  if (!run_) return g;
  const double scale = theme.base / 12;
  g.layers = run_->summary.layers;
  g.heads = std::max(1, run_->summary.heads);
  g.small = g.heads > 6 || g.layers > 4;
  if (g.small) {
    g.left = kSmallLeft * scale, g.top = kSmallTop * scale;
    g.cell_width = kSmallWidth, g.cell_height = kSmallHeight;
    // Room that is left over goes to the cells, up to half as wide again; they never get narrower than 24.
    const double room = (size.width() - g.left - 12) / g.heads - kSmallGapX;
    g.cell_width = std::floor(std::clamp(room, 24.0, kSmallWidth * 1.5));
    g.step_x = g.cell_width + (g.cell_width < 50 ? 4 : kSmallGapX), g.step_y = g.cell_height + kSmallGapY;
    g.height = g.top + g.layers * g.step_y + 16;
    return g;
  }
  g.left = kLeft * scale, g.top = kTop * scale;
  const double gap_x = kGapX * scale, gap_y = kGapY * scale;
  // Whole pixels, so that all inner sizes are equal.
  g.cell_width =
      std::max(60.0, std::floor((size.width() - g.left - kRight * scale - (g.heads - 1) * gap_x) / g.heads));
  g.cell_height = std::max(
      64.0,
      std::floor((size.height() - g.top - kBottom * scale - (g.layers - 1) * gap_y) / std::max(1, g.layers)));
  g.step_x = g.cell_width + gap_x, g.step_y = g.cell_height + gap_y;
  g.height = g.top + g.layers * g.step_y - gap_y + kBottom * scale;
  return g;
}

double EslGridView::contentHeight(double width) const { return geometryFor({width, 0}).height; }

QString EslGridView::emptyText() const {
  if (!run_) return QStringLiteral("Nothing is open. Run a prompt or open a trace.");
  const auto& list = run_->summary.head_list;
  if (std::none_of(list.begin(), list.end(),
                   [](const auto& s) { return s.has_routes || !s.esl.esl.empty(); }))
    return QStringLiteral("No layer of this run has routes: there is no effective sequence length to show.");
  return {};
}

QString EslGridView::accessibleText() const {
  if (!run_) return QStringLiteral("ESL grid, ") + emptyText();
  const auto& s = selection_->current();
  QString text = QStringLiteral("ESL grid, %1 layers, %2 heads, layer %3 head %4")
                     .arg(run_->summary.layers)
                     .arg(run_->summary.heads)
                     .arg(s.layer)
                     .arg(s.head);
  const auto* head = summaryAt(s.layer, s.head);
  if (head && !head->esl.esl.empty())
    text += QStringLiteral(", %1 of %2 slots used, λ %3")
                .arg(head->esl.used)
                .arg(head->esl.esl.size())
                .arg(signedNumber(head->esl.fit.lambda, 1));
  else if (head)
    text += QStringLiteral(", ") + QString::fromStdString(head->why);
  return text;
}

void EslGridView::contentChanged() {
  updateBar();
  if (run_ && hasInfo(*run_))
    Q_EMIT reductionText(QStringLiteral("T = %1 (%2 prompt + %3 answer)")
                             .arg(count(run_->info().tokens), count(run_->info().prompt_tokens),
                                  count(run_->info().tokens - run_->info().prompt_tokens)));
  PaintedView::contentChanged();
}

void EslGridView::paintCell(QPainter& painter, const QRectF& cell, const analysis::HeadSummary* head,
                            const Geometry& g, const Theme& theme, bool x_labels, bool y_labels,
                            double scale) const {
  const QFont label = theme.label();
  const QFontMetricsF metrics(label);
  if (!head || head->esl.esl.empty()) {
    if (!head) return;  // this layer has fewer heads
    const QString why = QString::fromStdString(head->why);
    if (why.startsWith(QLatin1String("not captured"))) paintHatch(painter, cell, theme);
    painter.setRenderHint(QPainter::Antialiasing, false);
    painter.setPen(QPen(theme.line, 1));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(cell.adjusted(0.5, 0.5, -0.5, -0.5));
    painter.setFont(theme.micro());
    painter.setPen(theme.text3);
    const QString text = why.section(QLatin1Char(':'), 0, 0);
    if (QFontMetricsF(theme.micro()).horizontalAdvance(text) <= cell.width() - 4 || !g.small)
      painter.drawText(cell.adjusted(4, 2, -4, -2), int(Qt::AlignCenter) | Qt::TextWordWrap, text);
    return;
  }
  EslPanel p;
  p.esl = &head->esl;
  p.allocation = &head->allocation;
  p.by_class = by_class_;
  double highest = 0;
  for (int slot = 0; slot < p.slots(); ++slot) highest = std::max(highest, p.normalised(slot));
  if (own_maximum_ && highest > 0) p.y_max = highest;
  painter.setRenderHint(QPainter::Antialiasing, false);
  if (g.small) {
    painter.fillRect(QRectF(cell.left(), cell.bottom() - 1, cell.width(), 1), theme.lineStrong);
    painter.fillRect(QRectF(cell.left(), cell.top(), cell.width(), 1), theme.line);
    paintEslBars(painter, p, cell.adjusted(0, 0, 0, -1), theme, 1 * scale);
    return;
  }
  for (const double tick : {0.0, 0.5, 1.0}) {
    const double y = std::round(cell.bottom() - tick * cell.height());
    painter.fillRect(QRectF(cell.left(), y, cell.width(), 1), theme.line);
    painter.fillRect(QRectF(cell.left() - 4, y, 4, 1), theme.lineStrong);
    if (!y_labels || own_maximum_) continue;
    painter.setFont(label);
    painter.setPen(theme.text2);
    painter.drawText(QRectF(cell.left() - 50, y - 10, 42, 20), int(Qt::AlignRight | Qt::AlignVCenter),
                     QString::number(tick, 'f', 1));
  }
  painter.fillRect(QRectF(cell.left(), cell.top() - 6, 1, cell.height() + 6), theme.lineStrong);
  for (const double tick : {0.0, std::floor(p.slots() / 2.0), double(p.slots())}) {
    const double x = std::round(cell.left() + tick / std::max(1, p.slots()) * cell.width());
    painter.fillRect(QRectF(std::min(x, cell.right() - 1), cell.bottom(), 1, 5), theme.lineStrong);
    if (!x_labels) continue;
    painter.setFont(label);
    painter.setPen(theme.text2);
    painter.drawText(QRectF(x - 30, cell.bottom() + 5, 60, metrics.height() + 4),
                     int(Qt::AlignHCenter | Qt::AlignVCenter), QString::number(tick));
  }
  paintEslBars(painter, p, cell, theme, 1.5 * scale);
  // λ, R² and used slots, top right.
  painter.setFont(theme.micro());
  painter.setPen(theme.text2);
  const auto& fit = head->esl.fit;
  QStringList lines;
  if (fit.valid) {
    lines << QStringLiteral("λ ") +
                 (std::isfinite(fit.lambda) ? signedNumber(fit.lambda, 1) : QStringLiteral("∞"));
    lines << QStringLiteral("R² ") + (std::isnan(fit.r2) ? QStringLiteral("–") : signedNumber(fit.r2, 2));
  }
  lines << QStringLiteral("used %1").arg(head->esl.used);
  if (own_maximum_) lines << QStringLiteral("max %1").arg(strength(highest));
  const double step = 12 * theme.base / 12;
  for (int i = 0; i < lines.size(); ++i)
    painter.drawText(QRectF(cell.left(), cell.top() - 3 + i * step, cell.width() - 3, 14),
                     int(Qt::AlignRight | Qt::AlignVCenter), lines[i]);
}

void EslGridView::paintGrid(QPainter& painter, const QSizeF& size, const Theme& theme, bool selection,
                            bool count_from_one, double scale) const {
  const Geometry g = geometryFor(size, theme);
  const auto& chosen = selection_->current();
  const int base = count_from_one ? 1 : 0;
  const QFont plain = g.small ? theme.label() : theme.ui,
              bold = g.small ? theme.labelSemibold() : theme.semibold();
  const bool short_names = g.cell_width < 46;
  // Rows that are scrolled away or clipped are not drawn.
  const QRectF clip =
      painter.hasClipping() ? painter.clipBoundingRect() : QRectF(QPointF(0, 0), QSizeF(size.width(), 1e9));
  for (int layer = 0; layer < g.layers; ++layer) {
    const QRectF first = g.cell(layer, 0);
    if (first.bottom() + 30 < clip.top() || first.top() - 30 > clip.bottom()) continue;
    const bool on = selection && layer == chosen.layer;
    painter.save();
    // Layers are text 2 in the picture; only the selection lifts one out.
    painter.setPen(on ? theme.selection : theme.text2);
    painter.setFont(on ? theme.labelSemibold() : theme.label());
    if (g.small) {
      painter.drawText(QRectF(0, first.top(), g.left - 8, first.height()),
                       int(Qt::AlignRight | Qt::AlignVCenter), QStringLiteral("L%1").arg(layer + base));
    } else {
      painter.translate(15 * theme.base / 12, first.center().y());
      painter.rotate(-90);
      painter.drawText(QRectF(-first.height() / 2, -10, first.height(), 20), Qt::AlignCenter,
                       QStringLiteral("Layer %1").arg(layer + base));
    }
    painter.restore();
    for (int head = 0; head < g.heads; ++head) {
      const auto* summary = summaryAt(layer, head);
      const QRectF cell = g.cell(layer, head);
      if (selection && layer == chosen.layer && head == chosen.head && summary) {
        QColor wash = theme.selection;
        wash.setAlphaF(0.06);
        painter.fillRect(g.small ? cell.adjusted(-2, -2, 2, 2) : cell.adjusted(0, -4, 0, 0), wash);
      }
      paintCell(painter, cell, summary, g, theme, layer == g.layers - 1, head == 0, scale);
      if (selection && layer == chosen.layer && head == chosen.head && summary) {
        painter.setRenderHint(QPainter::Antialiasing, false);
        painter.setBrush(Qt::NoBrush);
        painter.setPen(QPen(theme.selection, 2));
        painter.drawRect(g.small ? cell.adjusted(-2, -2, 2, 2) : cell.adjusted(0, -4, 1, 1));
      }
    }
  }
  // Column heads stay while rows scroll.
  const double stay = selection ? scrollOffset() : 0;
  if (stay > 0) painter.fillRect(QRectF(0, stay, size.width(), g.top - 4), theme.surface);
  for (int head = 0; head < g.heads; ++head) {
    const bool on = selection && head == chosen.head;
    painter.setFont(on ? bold : plain);
    painter.setPen(on ? theme.selection : theme.text);
    const QRectF cell = g.cell(0, head);
    painter.drawText(QRectF(cell.left() - 8, stay, cell.width() + 16, g.top - 6), Qt::AlignCenter,
                     (short_names ? QStringLiteral("H%1") : QStringLiteral("Head %1")).arg(head + base));
  }
}

void EslGridView::paintContent(QPainter& painter, const QSizeF& size, const Theme& theme) {
  paintGrid(painter, size, theme, true, false, 1);
}

QSizeF EslGridView::figureSize() const {
  if (!run_) return {640, 400};
  const int heads = std::max(1, run_->summary.heads), layers = std::max(1, run_->summary.layers);
  if (heads > 6 || layers > 4)
    return {kSmallLeft + 12 + heads * (kSmallWidth + kSmallGapX),
            kSmallTop + layers * (kSmallHeight + kSmallGapY) + 90};
  return {kLeft + kRight + heads * 200.0 + (heads - 1) * kGapX,
          kTop + kBottom + layers * 130.0 + (layers - 1) * kGapY + 70};
}

void EslGridView::paintFigure(QPainter& painter, const QRectF& area, const Theme& theme,
                              const FigureOptions& options) {
  if (paintGround(painter, area, theme)) return;
  painter.save();
  QRectF rest = area;
  if (options.caption) {
    const QString extra = by_class_
                              ? QStringLiteral("threshold %1").arg(strength(run_->allocation.threshold))
                              : QStringLiteral("regimes cut at %1 and %2 of the range")
                                    .arg(signedNumber(run_->esl.low, 2), signedNumber(run_->esl.high, 2));
    rest = paintCaption(painter, area, captionText(*run_, nullptr, extra, options), theme);
  }
  const double bar = 28 * theme.base / 12;
  paintLegend(painter, rest.left() + 12, rest.top() + bar / 2 + 4, legend(theme), theme);
  painter.translate(rest.left(), rest.top() + bar);
  paintGrid(painter, {rest.width(), rest.height() - bar}, theme, options.selection, options.countFromOne, 1);
  painter.restore();
}

QString EslGridView::csv() const {
  if (!run_) return {};
  Facts facts = runFacts(*run_, nullptr);
  facts.push_back({QStringLiteral("figure"), figureKind()});
  facts += thresholdFacts(*run_);
  QString text = factLines(facts) + QStringLiteral(
                                        "layer,head,rank,slot,esl,esl_normalised,selected,regime,slot_class,"
                                        "fit_c,fit_lambda,fit_r2,used\n");
  for (const auto& head : run_->summary.head_list) {
    const auto& esl = head.esl;
    if (esl.esl.empty()) {
      text += QStringLiteral("%1,%2,,,,,,%3,,,,,\n")
                  .arg(head.layer)
                  .arg(head.head)
                  .arg(csvField(QString::fromStdString(head.why)));
      continue;
    }
    EslPanel p;
    p.esl = &esl;
    for (size_t at = 0; at < esl.order.size(); ++at) {
      const auto slot = size_t(esl.order[at]);
      text +=
          QStringLiteral("%1,%2,%3,%4,%5,%6,%7,%8,%9,")
              .arg(head.layer)
              .arg(head.head)
              .arg(at)
              .arg(slot)
              .arg(esl.esl[slot])
              .arg(csvNumber(p.normalised(int(slot))),
                   slot < esl.selected.size() ? QString::number(esl.selected[slot]) : QString(),
                   regimeName(esl.regime[slot]),
                   slot < head.allocation.slot_class.size() ? slotClassName(head.allocation.slot_class[slot])
                                                            : QString());
      text += esl.fit.valid ? QStringLiteral("%1,%2,%3,")
                                  .arg(csvNumber(esl.fit.c), csvNumber(esl.fit.lambda), csvNumber(esl.fit.r2))
                            : QStringLiteral(",,,");
      text += QString::number(esl.used) + QLatin1Char('\n');
    }
  }
  return text;
}

std::pair<int, int> EslGridView::cellAt(const QPointF& position) const {
  if (!emptyText().isEmpty()) return {-1, -1};
  const auto area = contentRect();
  const Geometry g = geometryFor({area.width(), std::max(area.height(), contentHeight(area.width()))});
  for (int layer = 0; layer < g.layers; ++layer)
    for (int head = 0; head < g.heads; ++head)
      if (summaryAt(layer, head) && g.cell(layer, head).adjusted(-2, -6, 2, 6).contains(position))
        return {layer, head};
  return {-1, -1};
}

QString EslGridView::tipAt(const QPointF& position) const {
  const auto [layer, head] = cellAt(position);
  const auto* summary = layer < 0 ? nullptr : summaryAt(layer, head);
  if (!summary) return {};
  const QString title = QStringLiteral("Layer %1, head %2").arg(layer).arg(head);
  if (summary->esl.esl.empty())
    return tipText(title, {}, QString::fromStdString(summary->why), Theme::current());
  const auto& esl = summary->esl;
  const uint32_t longest = *std::max_element(esl.esl.begin(), esl.esl.end());
  return tipText(
      title,
      {{QStringLiteral("slots used"), QStringLiteral("%1 of %2").arg(esl.used).arg(esl.esl.size())},
       {QStringLiteral("longest ESL"),
        QStringLiteral("%1 of %2 tokens").arg(count(longest), count(esl.tokens))},
       {QStringLiteral("λ"), esl.fit.valid ? (std::isfinite(esl.fit.lambda)
                                                  ? signedNumber(esl.fit.lambda, 1) + QStringLiteral(" slots")
                                                  : QStringLiteral("∞"))
                                           : QStringLiteral("–")},
       {QStringLiteral("R²"), signedNumber(esl.fit.valid ? esl.fit.r2 : std::nan(""), 3)}},
      QStringLiteral("ESL = #{t : r[t,i] ≠ 0}, Raven Def. 4; fit c·e^(−i/λ)"), Theme::current());
}

void EslGridView::selectionMoved(int parts) {
  if (run_ && (parts & (SelectionModel::Layer | SelectionModel::Head))) {
    const auto area = contentRect();
    const Geometry g = geometryFor({area.width(), std::max(area.height(), contentHeight(area.width()))});
    const QRectF cell = g.cell(selection_->current().layer, selection_->current().head);
    ensureVisible(cell.top() - g.top, cell.bottom() + 10);
  }
  PaintedView::selectionMoved(parts);
}

bool EslGridView::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride) {
    const auto* key = static_cast<QKeyEvent*>(event);
    const auto modifiers = key->modifiers() & ~Qt::KeypadModifier;
    if (modifiers == Qt::NoModifier && ((key->key() >= Qt::Key_Left && key->key() <= Qt::Key_Down) ||
                                        key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter))
      event->accept();
  }
  return PaintedView::event(event);
}

void EslGridView::mousePressEvent(QMouseEvent* event) {
  const auto [layer, head] = cellAt(toContent(event->position()));
  if (event->button() == Qt::LeftButton && layer >= 0) selection_->request({.layer = layer, .head = head});
}

void EslGridView::mouseDoubleClickEvent(QMouseEvent* event) {
  if (event->button() == Qt::LeftButton && cellAt(toContent(event->position())).first >= 0)
    Q_EMIT openViewRequested(QStringLiteral("esl"));
}

void EslGridView::mouseMoveEvent(QMouseEvent* event) {
  const auto [layer, head] = cellAt(toContent(event->position()));
  const auto* summary = layer < 0 ? nullptr : summaryAt(layer, head);
  if (!summary || summary->esl.esl.empty())
    Q_EMIT statusText(summary ? QStringLiteral("layer %1 · head %2   %3")
                                    .arg(layer)
                                    .arg(head)
                                    .arg(QString::fromStdString(summary->why))
                              : QString());
  else
    Q_EMIT statusText(QStringLiteral("layer %1 · head %2   %3 of %4 slots used   longest ESL %5 tokens")
                          .arg(layer)
                          .arg(head)
                          .arg(summary->esl.used)
                          .arg(summary->esl.esl.size())
                          .arg(count(*std::max_element(summary->esl.esl.begin(), summary->esl.esl.end()))));
}

void EslGridView::keyPressEvent(QKeyEvent* event) {
  const auto& s = selection_->current();
  int layer = s.layer, head = s.head;
  switch (event->key()) {
    case Qt::Key_Left:
      --head;
      break;
    case Qt::Key_Right:
      ++head;
      break;
    case Qt::Key_Up:
      --layer;
      break;
    case Qt::Key_Down:
      ++layer;
      break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
      Q_EMIT openViewRequested(QStringLiteral("esl"));
      return event->accept();
    default:
      return PaintedView::keyPressEvent(event);
  }
  if (summaryAt(layer, head)) selection_->request({.layer = layer, .head = head}, event->isAutoRepeat());
  event->accept();
}

}  // namespace slotscope::views
