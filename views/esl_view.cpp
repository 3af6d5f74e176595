#include "views/esl_view.h"

#include <QComboBox>
#include <QContextMenuEvent>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QMenu>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>
#include <QSignalBlocker>
#include <QToolButton>
#include <algorithm>
#include <cmath>

#include "views/caption.h"
#include "views/format.h"
#include "views/strip.h"

namespace slotscope::views {

namespace {

constexpr double kLeft = 57, kRight = 16, kTop = 15, kBottom = 46, kPanelGap = 24, kTitle = 20;

// Least and largest normalised ESL over slots that were written.
std::pair<double, double> writtenRange(const analysis::EslResult& esl) {
  double low = 1, high = 0;
  for (const auto n : esl.esl)
    if (n > 0 && esl.tokens > 0) {
      low = std::min(low, double(n) / double(esl.tokens));
      high = std::max(high, double(n) / double(esl.tokens));
    }
  return high > 0 ? std::pair{low, high} : std::pair{0.0, 0.0};
}

bool isDefault(const analysis::EslOptions& o) {
  const analysis::EslOptions standard;
  return o.low == standard.low && o.high == standard.high;
}

}  // namespace

EslView::EslView(SelectionModel* selection, QWidget* parent) : PaintedView(selection, parent) {
  auto* bar = viewBar();
  legend_ = new LegendWidget(this);
  bar->addWidget(legend_, 1);
  references_button_ = new QToolButton(this);
  references_button_->setText(QStringLiteral("References"));
  references_button_->setCheckable(true);
  references_button_->setProperty("ui", "segment");
  references_button_->setToolTip(QStringLiteral(
      "Beside it: a dense recurrence (every token writes every slot) and a sliding window (ring); measured where "
      "a trace of such a model is open, else in theory"));
  connect(references_button_, &QToolButton::toggled, this, &EslView::setReferences);
  bar->addWidget(references_button_);
  bars_ = new QComboBox(this);
  bars_->setAccessibleName(QStringLiteral("Bars coloured by"));
  bars_->addItems({QStringLiteral("regimes: terciles"), QStringLiteral("slot class")});
  connect(bars_, &QComboBox::activated, this, [this](int index) {
    setByClass(index == 1);
    if (index == 0 && !isDefault(cuts_)) {
      setCuts({});
      Q_EMIT eslOptionsRequested(cuts_);
    }
  });
  bar->addWidget(bars_);
  updateBar();
  refreshAccessibility();
}

void EslView::setHead(std::shared_ptr<const analysis::HeadData> head) {
  if (run_) cuts_ = run_->esl;
  if (head)
    result_ = head->esl;
  else
    result_ = {};
  PaintedView::setHead(std::move(head));
}

void EslView::contentChanged() {
  updateBar();
  if (head_ && run_ && hasInfo(*run_))
    Q_EMIT reductionText(QStringLiteral("T = %1 (%2 prompt + %3 answer)")
                             .arg(count(run_->info().tokens), count(run_->info().prompt_tokens),
                                  count(run_->info().tokens - run_->info().prompt_tokens)));
  PaintedView::contentChanged();
}

void EslView::setByClass(bool by_class) {
  by_class_ = by_class;
  contentChanged();
}

void EslView::setYAxis(YAxis axis) {
  y_axis_ = axis;
  contentChanged();
}

void EslView::setReferences(bool on) {
  references_ = on;
  contentChanged();
}

void EslView::setCuts(const analysis::EslOptions& options) {
  cuts_ = options;
  if (head_) result_ = analysis::analyse_esl(head_->esl.esl, head_->esl.selected, head_->esl.tokens, cuts_);
  contentChanged();
}

QVector<LegendItem> EslView::legend(const Theme& theme) const {
  QVector<LegendItem> items;
  const auto tint = [&](const QColor& c) { return theme.dark ? c : mix(QColor(Qt::white), c, 0.12); };
  using enum analysis::SlotClass;
  if (by_class_) {
    for (const auto kind : {retrieval, shared, other})
      items.push_back({LegendItem::Square, tint(theme.roleColour(kind)), slotClassName(kind),
                       slotClassName(kind).section(QLatin1Char(' '), 0, 0)});
  } else {
    const bool uniform = std::any_of(result_.regime.begin(), result_.regime.end(),
                                     [](auto r) { return r == analysis::Regime::uniform; });
    using R = analysis::Regime;
    if (uniform)
      items.push_back({LegendItem::Square, tint(theme.regimeColour(R::uniform)), regimeName(R::uniform)});
    else
      for (const auto r : {R::long_range, R::intermediate, R::short_range})
        items.push_back({LegendItem::Square, tint(theme.regimeColour(r)), regimeName(r),
                         r == R::intermediate ? QStringLiteral("middle") : QString()});
  }
  items.push_back({LegendItem::Line, theme.fit, QStringLiteral("exponential fit"), QStringLiteral("fit")});
  return items;
}

void EslView::updateBar() {
  legend_->setItems(legend(Theme::current()));
  const QSignalBlocker blocked(bars_), blocked_too(references_button_);
  bars_->setItemText(
      0, isDefault(cuts_) ? QStringLiteral("regimes: terciles") : QStringLiteral("regimes: own cuts"));
  bars_->setCurrentIndex(by_class_ ? 1 : 0);
  references_button_->setChecked(references_);
}

QString EslView::emptyText() const {
  if (!run_) return QStringLiteral("Nothing is open. Run a prompt or open a trace.");
  if (!head_)
    return QStringLiteral("This head has no routes, so there is no effective sequence length to show.");
  if (result_.esl.empty()) return QStringLiteral("This head has no slots.");
  return {};
}

QString EslView::accessibleText() const {
  if (!head_) return QStringLiteral("ESL, ") + emptyText();
  const auto& s = selection_->current();
  QString text = QStringLiteral("ESL, layer %1 head %2, %3 of %4 slots used")
                     .arg(head_->layer)
                     .arg(head_->head)
                     .arg(result_.used)
                     .arg(result_.esl.size());
  if (size_t(s.slot) < result_.esl.size())
    text += QStringLiteral(", slot %1, %2 of %3 tokens, %4")
                .arg(s.slot)
                .arg(result_.esl[size_t(s.slot)])
                .arg(result_.tokens)
                .arg(regimeName(result_.regime[size_t(s.slot)]));
  return text;
}

EslPanel EslView::panel(bool marks) const {
  EslPanel p;
  p.esl = &result_;
  p.allocation = head_ ? &head_->allocation : nullptr;
  p.by_class = by_class_;
  p.in_tokens = y_axis_ == YAxis::Tokens;
  if (y_axis_ != YAxis::Shared) {
    const double highest = writtenRange(result_).second;
    if (highest > 0) p.y_max = highest * 1.04;
  }
  if (marks && selection_) {
    p.selected_slot = selection_->current().slot;
    p.hover_slot = selection_->hoverSlot();
  }
  p.cuts = !by_class_;
  return p;
}

EslView::Layout EslView::layoutFor(const QRectF& area, const Theme& theme) const {
  const double scale = theme.base / 12;
  Layout layout;
  layout.title = references_ ? kTitle * scale : 0;
  const QRectF inner(area.left() + kLeft * scale, area.top() + kTop * scale + layout.title,
                     std::max(1.0, area.width() - (kLeft + kRight) * scale),
                     std::max(1.0, area.height() - (kTop + kBottom) * scale - layout.title));
  if (!references_) {
    layout.plots = {QRectF(std::floor(inner.left()), std::floor(inner.top()), std::floor(inner.width()),
                           std::floor(inner.height()))};
    return layout;
  }
  const double width = std::floor((inner.width() - 2 * kPanelGap * scale) / 3);
  for (int i = 0; i < 3; ++i)
    layout.plots.push_back(QRectF(std::floor(inner.left() + i * (width + kPanelGap * scale)),
                                  std::floor(inner.top()), std::max(1.0, width), std::floor(inner.height())));
  return layout;
}

// Axes, horizontal grid and labels around one plot.
void EslView::paintFrame(QPainter& painter, const QRectF& plot, const EslPanel& p, const Theme& theme,
                         bool y_labels, bool y_title, bool count_from_one) const {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing, false);
  const QFont label = theme.label();
  painter.setFont(label);
  const QFontMetricsF metrics(label);
  const double tokens = double(std::max<int64_t>(1, result_.tokens));
  const double top = p.in_tokens ? p.y_max * tokens : p.y_max;
  for (const double tick : roundTicks(top, std::max(1, std::min(5, int(plot.height() / 26))), p.in_tokens)) {
    const double y = std::round(eslY(p, plot, p.in_tokens ? tick / tokens : tick));
    painter.fillRect(QRectF(plot.left(), y, plot.width(), 1), theme.line);
    painter.fillRect(QRectF(plot.left() - 4, y, 4, 1), theme.lineStrong);
    if (!y_labels) continue;
    painter.setPen(theme.text2);
    const QString text = p.in_tokens ? count(qint64(tick))
                                     : QString::number(tick, 'f',
                                                       p.y_max < 0.1   ? 3
                                                       : p.y_max < 0.5 ? 2
                                                                       : 1);
    painter.drawText(QRectF(plot.left() - 60, y - 10, 52, 20), int(Qt::AlignRight | Qt::AlignVCenter), text);
  }
  painter.fillRect(QRectF(plot.left() - 1, plot.top(), 1, plot.height() + 1), theme.lineStrong);
  painter.fillRect(QRectF(plot.left() - 1, plot.bottom(), plot.width() + 1, 1), theme.lineStrong);
  for (const double tick : slotTicks(p.slots(), plot.width(), 42)) {
    const double x = std::round(plot.left() + tick / p.slots() * plot.width());
    painter.fillRect(QRectF(x, plot.bottom(), 1, 5), theme.lineStrong);
    painter.setPen(theme.text2);
    painter.drawText(QRectF(x - 40, plot.bottom() + 5, 80, metrics.height() + 4),
                     int(Qt::AlignHCenter | Qt::AlignVCenter), QString::number(tick));
  }
  painter.setPen(theme.text2);
  painter.drawText(
      QRectF(plot.left() - 40, plot.bottom() + 7 + metrics.height(), plot.width() + 80, metrics.height() + 4),
      int(Qt::AlignHCenter | Qt::AlignVCenter),
      count_from_one ? QStringLiteral("slots, sorted by ESL (rank)")
                     : QStringLiteral("slots, sorted by ESL"));
  if (y_title) {
    painter.translate(plot.left() - 57 * theme.base / 12 + 17, plot.center().y());
    painter.rotate(-90);
    painter.drawText(QRectF(-plot.height() / 2 - 20, -10, plot.height() + 40, 20), Qt::AlignCenter,
                     p.in_tokens ? QStringLiteral("ESL, tokens") : QStringLiteral("normalised ESL"));
  }
  painter.restore();
}

namespace {

void paintCuts(QPainter& painter, const EslPanel& p, const QRectF& plot, const Theme& theme, int dragged) {
  painter.setRenderHint(QPainter::Antialiasing, false);
  for (const int which : {1, 2}) {
    const double cut = which == 1 ? p.esl->cut_low : p.esl->cut_high;
    const double y = std::round(eslY(p, plot, cut)) + 0.5;
    if (!(cut > 0) || y < plot.top() || y > plot.bottom()) continue;
    painter.setPen(QPen(dragged == which ? theme.text : theme.text3, 1, Qt::CustomDashLine));
    QPen pen = painter.pen();
    pen.setDashPattern({4, 2});
    painter.setPen(pen);
    painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y));
  }
}

// Text with a casing of the surface colour, so that it reads over bars and lines.
void casedText(QPainter& painter, const QRectF& box, int flags, const QString& text, const QColor& colour,
               const Theme& theme) {
  QRectF used = painter.boundingRect(box, flags, text).adjusted(-3, 0, 3, 0);
  QColor back = theme.surface;
  back.setAlphaF(0.8);
  painter.fillRect(used, back);
  painter.setPen(colour);
  painter.drawText(box, flags, text);
}

void paintSlotLabel(QPainter& painter, const EslPanel& p, const QRectF& plot, const Theme& theme, int slot) {
  const auto found = std::find(p.esl->order.begin(), p.esl->order.end(), slot);
  if (found == p.esl->order.end()) return;
  const QRectF bar = eslBar(p, plot, int(found - p.esl->order.begin()));
  const double middle = plot.left() + (double(found - p.esl->order.begin()) + 0.5) / p.slots() * plot.width();
  const QFont font = theme.labelSemibold();
  const QFontMetricsF metrics(font);
  const QString text = QStringLiteral("slot %1").arg(slot);
  const double width = metrics.horizontalAdvance(text);
  double tip = bar.top() - 4;
  tip = std::max(tip, plot.top() + metrics.height() + 8);
  const double left =
      std::clamp(middle - width / 2, plot.left(), std::max(plot.left(), plot.right() - width));
  painter.setFont(font);
  casedText(painter, QRectF(left, tip - 8 - metrics.height(), width + 1, metrics.height()),
            int(Qt::AlignLeft | Qt::AlignVCenter), text, theme.selection, theme);
  painter.setRenderHint(QPainter::Antialiasing);
  QPainterPath triangle({middle - 3, tip - 5});
  triangle.lineTo(middle + 3, tip - 5);
  triangle.lineTo(middle, tip);
  triangle.closeSubpath();
  painter.fillPath(triangle, theme.selection);
  // The bar itself: a cased outline, never a fill of data.
  painter.setRenderHint(QPainter::Antialiasing, false);
  if (bar.height() >= 3 && bar.width() >= 4) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(theme.selection, 1));
    painter.drawRect(bar.adjusted(0.5, 0.5, -0.5, -0.5));
  }
}

}  // namespace

// Reference panels of Raven Fig. 5: every token writes every slot, and the ring of a sliding window of M
// slots.
void EslView::paintReference(QPainter& painter, const QRectF& plot, const Theme& theme, bool ring,
                             double scale) const {
  EslPanel p = panel(false);
  analysis::EslResult reference;
  const int slots = int(result_.esl.size());
  reference.tokens = result_.tokens;
  reference.used = slots;
  for (int i = 0; i < slots; ++i) {
    reference.esl.push_back(ring ? analysis::ring_esl(result_.tokens, slots, i) : uint32_t(result_.tokens));
    reference.order.push_back(i);
    reference.regime.push_back(analysis::Regime::uniform);
  }
  if (const auto* measured = measuredReference(ring)) reference = measured->esl;
  for (analysis::Regime& regime : reference.regime)
    if (regime != analysis::Regime::empty) regime = analysis::Regime::uniform;  // one grey, as in the paper
  p.esl = &reference;
  p.allocation = nullptr;
  p.by_class = false;
  paintFrame(painter, plot, p, theme, false, false, false);
  paintEslBars(painter, p, plot, theme, 2 * scale);
  painter.setFont(theme.label());
  const QString text = ring ? QStringLiteral("ring of %1 slots: about T/W = %2 tokens")
                                  .arg(reference.esl.size())
                                  .arg(signedNumber(double(reference.tokens) / std::max<double>(1, double(reference.esl.size())), 1))
                            : QStringLiteral("every token writes every slot");
  casedText(painter, QRectF(plot.left(), plot.top() + 3, plot.width() - 6, 18),
            int(Qt::AlignRight | Qt::AlignVCenter), text, theme.text2, theme);
}

void EslView::setMeasured(std::vector<analysis::EslReference> measured) {
  measured_ = std::move(measured);
  update();
}

const analysis::EslReference* EslView::measuredReference(bool ring) const {
  const analysis::EslReference* first = nullptr;
  for (const analysis::EslReference& m : measured_) {
    if (m.ring != ring) continue;
    if (m.esl.tokens == result_.tokens) return &m;
    if (!first) first = &m;
  }
  // An axis in tokens has the length of one run only.
  return y_axis_ == YAxis::Tokens ? nullptr : first;
}

QString EslView::referenceTitle(bool ring) const {
  if (const auto* m = measuredReference(ring))
    return QStringLiteral("%1, layer %2 (measured)").arg(QString::fromStdString(m->model)).arg(m->layer);
  return ring ? QStringLiteral("SWA, window %1 (theory)").arg(result_.esl.size()) : QStringLiteral("SSM (theory)");
}

void EslView::paintPlots(QPainter& painter, const QRectF& area, const Theme& theme, bool marks,
                         const FigureOptions& options) const {
  const Layout layout = layoutFor(area, theme);
  const EslPanel p = panel(marks);
  const QRectF plot = layout.plots[0];
  paintFrame(painter, plot, p, theme, true, true, options.countFromOne);
  paintEslBars(painter, p, plot, theme, 2);
  painter.save();
  if (p.cuts) paintCuts(painter, p, plot, theme, marks ? dragged_cut_ : 0);
  painter.setFont(theme.label());
  QString fit = fitText(result_.fit);
  if (references_ || QFontMetricsF(theme.label()).horizontalAdvance(fit) > plot.width() - 12) {
    fit = QStringLiteral("λ = %1    R² = %2")
              .arg(std::isfinite(result_.fit.lambda) ? signedNumber(result_.fit.lambda, 1)
                                                     : QStringLiteral("∞"),
                   std::isnan(result_.fit.r2) ? QStringLiteral("–") : signedNumber(result_.fit.r2, 3));
    if (!result_.fit.valid) fit.clear();
  }
  if (!fit.isEmpty())
    casedText(painter, QRectF(plot.left(), plot.top() + 3, plot.width() - 6, 18),
              int(Qt::AlignRight | Qt::AlignVCenter), fit, theme.fit, theme);
  if (marks && p.selected_slot >= 0) paintSlotLabel(painter, p, plot, theme, p.selected_slot);
  if (marks && p.hover_slot >= 0 && p.hover_slot < p.slots()) {
    const auto found = std::find(result_.order.begin(), result_.order.end(), p.hover_slot);
    if (found != result_.order.end()) {
      const double width = plot.width() / p.slots(),
                   left = plot.left() + double(found - result_.order.begin()) * width;
      painter.setRenderHint(QPainter::Antialiasing);
      painter.setBrush(Qt::NoBrush);
      painter.setPen(QPen(theme.hover, 1.5));
      painter.drawRect(QRectF(left - 0.5, plot.top(), std::max(3.0, width), plot.height()));
    }
  }
  painter.restore();
  if (!references_) return;
  paintReference(painter, layout.plots[1], theme, false, 1);
  paintReference(painter, layout.plots[2], theme, true, 1);
  painter.setFont(theme.semibold());
  painter.setPen(theme.text);
  const int base = options.countFromOne ? 1 : 0;
  const QStringList titles{
      QStringLiteral("Layer %1, head %2").arg(head_->layer + base).arg(head_->head + base),
      referenceTitle(false), referenceTitle(true)};
  for (int i = 0; i < 3; ++i)
    painter.drawText(QRectF(layout.plots[i].left(), layout.plots[i].top() - layout.title - 2,
                            layout.plots[i].width(), layout.title),
                     int(Qt::AlignHCenter | Qt::AlignVCenter), titles[i]);
}

void EslView::paintContent(QPainter& painter, const QSizeF& size, const Theme& theme) {
  paintPlots(painter, QRectF(QPointF(0, 0), size), theme, true, {});
}

void EslView::paintFigure(QPainter& painter, const QRectF& area, const Theme& theme,
                          const FigureOptions& options) {
  painter.save();
  painter.fillRect(area, theme.surface);
  if (!emptyText().isEmpty()) {
    painter.setFont(theme.ui);
    painter.setPen(theme.text2);
    painter.drawText(area, int(Qt::AlignCenter) | Qt::TextWordWrap, emptyText());
    painter.restore();
    return;
  }
  QRectF rest = area;
  if (options.caption) {
    QString extra = by_class_ ? QStringLiteral("threshold %1").arg(strength(run_->allocation.threshold))
                              : QStringLiteral("regimes cut at %1 and %2 of the range")
                                    .arg(signedNumber(cuts_.low, 2), signedNumber(cuts_.high, 2));
    rest = paintCaption(painter, area, captionText(*run_, head_.get(), extra, options), theme);
  }
  const double bar = 28 * theme.base / 12;
  paintLegend(painter, rest.left() + 12, rest.top() + bar / 2 + 4, legend(theme), theme);
  paintPlots(painter, rest.adjusted(0, bar, 0, 0), theme, options.selection, options);
  painter.restore();
}

QString EslView::csv() const {
  if (!head_) return {};
  Facts facts = runFacts(*run_, head_.get());
  facts.push_back({QStringLiteral("figure"), figureKind()});
  facts += thresholdFacts(*run_);
  facts.push_back({QStringLiteral("cut_low_normalised"), csvNumber(result_.cut_low)});
  facts.push_back({QStringLiteral("cut_high_normalised"), csvNumber(result_.cut_high)});
  for (auto& fact : facts) {
    if (fact.first == QLatin1String("esl_cut_low")) fact.second = csvNumber(cuts_.low);
    if (fact.first == QLatin1String("esl_cut_high")) fact.second = csvNumber(cuts_.high);
  }
  if (result_.fit.valid) {
    facts.push_back({QStringLiteral("fit_c"), csvNumber(result_.fit.c)});
    facts.push_back({QStringLiteral("fit_lambda"), csvNumber(result_.fit.lambda)});
    facts.push_back({QStringLiteral("fit_r2"), csvNumber(result_.fit.r2)});
  }
  facts.push_back({QStringLiteral("slots_used"), QString::number(result_.used)});
  QString text = factLines(facts);
  text +=
      QStringLiteral("rank,slot,esl,esl_normalised,selected,regime,slot_class,fit,ssm_theory,swa_theory");
  const auto *dense = measuredReference(false), *ring = measuredReference(true);
  if (dense) text += QStringLiteral(",dense_measured");
  if (ring) text += QStringLiteral(",ring_measured");
  text += QLatin1Char('\n');
  const auto measured_at = [](const analysis::EslReference* m, int at) {
    if (!m || size_t(at) >= m->esl.order.size()) return m ? QStringLiteral(",") : QString();
    const auto& esl = m->esl;
    return QLatin1Char(',') + csvNumber(esl.esl[size_t(esl.order[size_t(at)])] / double(std::max<int64_t>(1, esl.tokens)));
  };
  const int slots = int(result_.esl.size());
  const EslPanel p = panel(false);
  for (int at = 0; at < slots; ++at) {
    const auto slot = size_t(result_.order[size_t(at)]);
    const bool written = result_.esl[slot] > 0;
    const double fit =
        result_.fit.valid && written
            ? (std::isfinite(result_.fit.lambda) ? result_.fit.c * std::exp(-at / result_.fit.lambda)
                                                 : result_.fit.c)
            : std::nan("");
    const double tokens = double(std::max<int64_t>(1, result_.tokens));
    text += QStringLiteral("%1,%2,%3,%4,%5,%6,%7,%8,%9,%10")
                .arg(at)
                .arg(slot)
                .arg(result_.esl[slot])
                .arg(csvNumber(p.normalised(int(slot))))
                .arg(slot < result_.selected.size() ? QString::number(result_.selected[slot]) : QString())
                .arg(regimeName(result_.regime[slot]))
                .arg(slot < head_->allocation.slot_class.size()
                         ? slotClassName(head_->allocation.slot_class[slot])
                         : QString())
                .arg(csvNumber(fit))
                .arg(1)
                .arg(csvNumber(analysis::ring_esl(result_.tokens, slots, at) / tokens)) +
            measured_at(dense, at) + measured_at(ring, at) + QLatin1Char('\n');
  }
  return text;
}

int EslView::slotUnder(const QPointF& position) const {
  if (!emptyText().isEmpty()) return -1;
  const auto area = contentRect();
  const QRectF plot = layoutFor(QRectF(QPointF(0, 0), area.size()), Theme::current()).plots[0];
  if (position.y() < plot.top() - 4 || position.y() > plot.bottom() + 20) return -1;
  const int at = eslBarAt(panel(false), plot, position.x());
  return at < 0 ? -1 : result_.order[size_t(at)];
}

int EslView::cutAt(const QPointF& position) const {
  if (!emptyText().isEmpty() || by_class_) return 0;
  const QRectF plot = layoutFor(QRectF(QPointF(0, 0), contentRect().size()), Theme::current()).plots[0];
  if (position.x() < plot.left() || position.x() > plot.right()) return 0;
  const EslPanel p = panel(false);
  const double low = std::abs(position.y() - eslY(p, plot, result_.cut_low)),
               high = std::abs(position.y() - eslY(p, plot, result_.cut_high));
  if (result_.cut_high > 0 && high <= 4 && high <= low) return 2;
  return result_.cut_low > 0 && low <= 4 ? 1 : 0;
}

QString EslView::tipAt(const QPointF& position) const {
  if (cutAt(position) != 0)
    return tipText(
        QStringLiteral("Cut between regimes"),
        {{QStringLiteral("low"), signedNumber(result_.cut_low, 3)},
         {QStringLiteral("high"), signedNumber(result_.cut_high, 3)}},
        QStringLiteral("Drag to move it. Regimes: thirds of the range of normalised ESL by default."),
        Theme::current());
  const int slot = slotUnder(position);
  if (slot < 0) return {};
  const auto at = size_t(slot);
  QVector<std::pair<QString, QString>> rows;
  rows.push_back({QStringLiteral("ESL"),
                  QStringLiteral("%1 of %2 tokens").arg(count(result_.esl[at]), count(result_.tokens))});
  rows.push_back({QStringLiteral("normalised"),
                  share(result_.tokens ? double(result_.esl[at]) / double(result_.tokens) : 0)});
  if (at < result_.selected.size() && result_.selected[at] != result_.esl[at])
    rows.push_back(
        {QStringLiteral("counts differ"), QStringLiteral("%1 by weight, %2 selected")
                                              .arg(count(result_.esl[at]), count(result_.selected[at]))});
  rows.push_back({QStringLiteral("regime"), regimeName(result_.regime[at])});
  if (at < head_->allocation.slot_class.size())
    rows.push_back({QStringLiteral("slot class"), slotClassName(head_->allocation.slot_class[at])});
  return tipText(QStringLiteral("Slot %1").arg(slot), rows,
                 QStringLiteral("ESL = #{t : r[t,i] ≠ 0}, Raven Def. 4"), Theme::current());
}

void EslView::hoverMoved() { update(); }

bool EslView::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride) {
    const int key = static_cast<QKeyEvent*>(event)->key();
    if (static_cast<QKeyEvent*>(event)->modifiers() <= Qt::ShiftModifier &&
        (key == Qt::Key_Up || key == Qt::Key_Down))
      event->accept();
  }
  return PaintedView::event(event);
}

void EslView::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return PaintedView::mousePressEvent(event);
  const QPointF position = toContent(event->position());
  dragged_cut_ = cutAt(position);
  if (dragged_cut_ != 0) return update();
  const int slot = slotUnder(position);
  if (slot >= 0) selection_->request({.slot = slot});
}

void EslView::mouseMoveEvent(QMouseEvent* event) {
  const QPointF position = toContent(event->position());
  if (dragged_cut_ != 0) {
    const QRectF plot = layoutFor(QRectF(QPointF(0, 0), contentRect().size()), Theme::current()).plots[0];
    const auto [low, high] = writtenRange(result_);
    const double value = (plot.bottom() - position.y()) / plot.height() * panel(false).y_max;
    const double share_of_range = high > low ? std::clamp((value - low) / (high - low), 0.0, 1.0) : 0;
    auto cuts = cuts_;
    if (dragged_cut_ == 1) cuts.low = std::min(share_of_range, cuts.high);
    if (dragged_cut_ == 2) cuts.high = std::max(share_of_range, cuts.low);
    setCuts(cuts);
    Q_EMIT statusText(QStringLiteral("cuts at %1 and %2 of the range")
                          .arg(signedNumber(cuts.low, 3), signedNumber(cuts.high, 3)));
    return;
  }
  setCursor(cutAt(position) != 0 ? Qt::SplitVCursor : Qt::ArrowCursor);
  const int slot = slotUnder(position);
  selection_->setHover(slot, -1);
  if (slot >= 0)
    Q_EMIT statusText(QStringLiteral("slot %1   ESL %2 of %3 tokens   %4")
                          .arg(slot)
                          .arg(count(result_.esl[size_t(slot)]), count(result_.tokens),
                               regimeName(result_.regime[size_t(slot)])));
  else
    Q_EMIT statusText({});
}

void EslView::mouseReleaseEvent(QMouseEvent*) {
  if (dragged_cut_ == 0) return;
  dragged_cut_ = 0;
  update();
  Q_EMIT eslOptionsRequested(cuts_);
}

void EslView::leaveEvent(QEvent*) {
  if (selection_) selection_->setHover(-1, -1);
  Q_EMIT statusText({});
}

void EslView::keyPressEvent(QKeyEvent* event) {
  const int key = event->key();
  if (emptyText().isEmpty() && (key == Qt::Key_Up || key == Qt::Key_Down)) {
    const auto found = std::find(result_.order.begin(), result_.order.end(), selection_->current().slot);
    const int step = (event->modifiers() & Qt::ShiftModifier ? 10 : 1) * (key == Qt::Key_Up ? -1 : 1);
    const int at = std::clamp(int(found - result_.order.begin()) + step, 0, int(result_.order.size()) - 1);
    selection_->request({.slot = result_.order[size_t(at)]}, event->isAutoRepeat());
    return event->accept();
  }
  PaintedView::keyPressEvent(event);
}

void EslView::contextMenuEvent(QContextMenuEvent* event) {
  QMenu menu(this);
  const auto choice = [&](const QString& text, YAxis axis) {
    auto* action = menu.addAction(text, this, [this, axis] { setYAxis(axis); });
    action->setCheckable(true);
    action->setChecked(y_axis_ == axis);
  };
  choice(QStringLiteral("y: normalised, 0 to 1"), YAxis::Shared);
  choice(QStringLiteral("y: normalised, up to the longest"), YAxis::OwnMaximum);
  choice(QStringLiteral("y: tokens"), YAxis::Tokens);
  menu.addSeparator();
  menu.addAction(QStringLiteral("Cuts at thirds of the range"), this, [this] {
    setCuts({});
    Q_EMIT eslOptionsRequested(cuts_);
  });
  menu.exec(event->globalPos());
}

}  // namespace slotscope::views
