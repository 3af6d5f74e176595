#include "views/allocation_view.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QMouseEvent>
#include <QPainter>
#include <QSignalBlocker>
#include <QStandardItemModel>
#include <algorithm>
#include <cmath>

#include "views/answer_verdict.h"
#include "views/caption.h"
#include "views/format.h"
#include "views/role_text.h"
#include "views/token_cells.h"

namespace slotscope::views {

namespace {

constexpr double kLeft = 40, kRight = 16, kTop = 26, kGap = 18, kCountsRow = 34, kLine = 20;

struct Threshold {
  double threshold, tau;
};
constexpr Threshold kThresholds[] = {{0, 0}, {0, 0.05}, {0, 0.1}, {0.01, 0}, {0.1, 0}, {0.5, 0}};

QString thresholdName(const Threshold& t) {
  if (t.threshold == 0 && t.tau == 0) return QStringLiteral("strict, 0 %");
  QStringList parts;
  if (t.tau > 0) parts << QStringLiteral("tolerance ") + share(t.tau, 0);
  if (t.threshold > 0) parts << QStringLiteral("least s %1").arg(t.threshold);
  return parts.join(QStringLiteral(", "));
}

}  // namespace

QRectF AllocationView::Geometry::strip(int layer, int head) const {
  return {left + layer * step_x, top + head * step_y, strip_width, strip_height};
}

AllocationView::AllocationView(SelectionModel* selection, QWidget* parent) : PaintedView(selection, parent) {
  auto* bar = viewBar();
  bar->addWidget(barLabel(QStringLiteral("Roles from")));
  roles_ = new QComboBox(this);
  roles_->setAccessibleName(QStringLiteral("Roles from"));
  roles_->addItems({QStringLiteral("task spans: key + answer"), QStringLiteral("brushed tokens")});
  connect(roles_, &QComboBox::activated, this, [this](int index) {
    if (index == 1 && selection_->brush())
      Q_EMIT rolesRequested(Roles::Brushed, selection_->brush());
    else
      Q_EMIT rolesRequested(Roles::TaskSpans, std::nullopt);
    updateBar();
  });
  bar->addWidget(roles_);
  bar->addWidget(barLabel(QStringLiteral("Threshold")));
  threshold_ = new QComboBox(this);
  threshold_->setAccessibleName(QStringLiteral("Threshold"));
  threshold_->setToolTip(
      QStringLiteral("Tolerance: share of foreign tokens that a slot of one role may hold. "
                     "Least s: weaker writes do not count as routed."));
  connect(threshold_, &QComboBox::activated, this, [this](int index) {
    if (!run_ || index < 0 || index >= int(std::size(kThresholds))) return;
    auto options = run_->allocation;
    options.threshold = kThresholds[index].threshold;
    options.tau = kThresholds[index].tau;
    Q_EMIT allocationOptionsRequested(options);
  });
  bar->addWidget(threshold_);
  bar->addStretch(1);
  legend_ = new LegendWidget(this);
  bar->addWidget(legend_, 0);
  bar->addSpacing(16);
  score_label_ = barLabel(QStringLiteral("R = retrieval score"));
  score_label_->setProperty("ui", "text3");
  score_label_->setToolTip(
      QStringLiteral("Share of the key's write strength in retrieval-only slots (ours)"));
  bar->addWidget(score_label_);
  if (selection_) connect(selection_, &SelectionModel::brushChanged, this, &AllocationView::updateBar);
  updateBar();
  refreshAccessibility();
}

void AllocationView::resizeEvent(QResizeEvent* event) {
  // The legend needs the room more.
  score_label_->setVisible(width() >= 900 * Theme::current().base / 12);
  PaintedView::resizeEvent(event);
}

void AllocationView::setRun(std::shared_ptr<const RunData> run) {
  own_allocations_.clear();
  own_roles_.clear();
  own_name_.clear();
  PaintedView::setRun(std::move(run));
}

void AllocationView::setAllocations(std::vector<analysis::HeadAllocation> allocations,
                                    std::vector<uint8_t> roles, const QString& name) {
  own_allocations_ = std::move(allocations);
  own_roles_ = std::move(roles);
  own_name_ = name;
  contentChanged();
}

void AllocationView::updateBar() {
  const auto& theme = Theme::current();
  using C = analysis::SlotClass;
  QVector<LegendItem> items;
  for (const auto kind : {C::retrieval, C::shared, C::other})
    items.push_back({LegendItem::Square, theme.roleColour(kind), slotClassName(kind),
                     slotClassName(kind).section(QLatin1Char(' '), 0, 0)});
  items.push_back({LegendItem::Outline, theme.surface, slotClassName(C::empty)});
  legend_->setItems(items);
  const QSignalBlocker blocked(roles_), blocked_too(threshold_);
  auto* model = qobject_cast<QStandardItemModel*>(roles_->model());
  const bool spans =
      run_ && hasInfo(*run_) &&
      std::any_of(run_->info().roles.begin(), run_->info().roles.end(), [](auto r) { return r == 1; });
  roles_->setItemText(
      0, spans || !run_ ? QStringLiteral("task spans: key + answer") : QStringLiteral("no retrieval tokens"));
  roles_->setItemText(1, own_name_.isEmpty() ? QStringLiteral("brushed tokens") : own_name_);
  if (model && model->item(1))
    model->item(1)->setEnabled(!own_name_.isEmpty() || (selection_ && selection_->brush()));
  roles_->setCurrentIndex(own_name_.isEmpty() ? 0 : 1);
  threshold_->clear();
  int current = -1;
  for (int i = 0; i < int(std::size(kThresholds)); ++i) {
    threshold_->addItem(thresholdName(kThresholds[i]));
    if (run_ && kThresholds[i].threshold == run_->allocation.threshold &&
        kThresholds[i].tau == run_->allocation.tau)
      current = i;
  }
  if (!run_) current = 0;
  if (current < 0) {
    threshold_->addItem(thresholdName({run_->allocation.threshold, run_->allocation.tau}));
    current = threshold_->count() - 1;
  }
  threshold_->setCurrentIndex(current);
}

const analysis::HeadSummary* AllocationView::summaryAt(int layer, int head) const {
  return run_ ? findHead(run_->summary, layer, head) : nullptr;
}

const analysis::HeadAllocation* AllocationView::allocationAt(int layer, int head) const {
  if (!own_allocations_.empty()) {
    for (const auto& a : own_allocations_)
      if (a.layer == layer && a.head == head && !a.order.empty()) return &a;
    return nullptr;
  }
  const auto* s = summaryAt(layer, head);
  return s && s->has_routes && !s->allocation.order.empty() ? &s->allocation : nullptr;
}

AllocationView::Geometry AllocationView::geometryFor(const QSizeF& size, const Theme& theme) const {
  Geometry g;
  if (!run_) return g;
  const double scale = theme.base / 12;
  g.layers = std::max(1, run_->summary.layers), g.heads = std::max(1, run_->summary.heads);
  g.left = std::round(kLeft * scale), g.top = std::round(kTop * scale);
  const double gap = g.layers > 8 ? 6 : kGap * scale;
  g.strip_width =
      std::max(10.0, std::floor((size.width() - g.left - kRight - (g.layers - 1) * gap) / g.layers));
  g.step_x = g.strip_width + gap;
  const int lines = size.height() >= 520 ? 3 : 2;
  g.text_height = hasInfo(*run_) ? std::round((12 + 16 + (lines + 1) * kLine + 12) * scale) : 0;
  const double room = (size.height() - g.top - g.text_height) / g.heads;
  const double counts = std::round(kCountsRow * scale);
  g.score = g.strip_width >= 190 * scale;
  g.counts = room - counts >= 40 && g.strip_width >= 130 * scale;
  const double between = g.counts ? counts : room >= 40 ? 22 : 6;
  g.strip_height = std::max(g.heads > 8 ? 12.0 : 20.0, std::floor(room - between));
  // Taller strips say nothing more.
  g.strip_height = std::min(g.strip_height, 160 * scale);
  g.step_y = g.strip_height + between;
  g.text_top = g.top + g.heads * g.step_y - (g.counts ? 0 : between) + (g.counts ? 0 : 12);
  g.height = g.text_top + g.text_height;
  return g;
}

double AllocationView::contentHeight(double width) const {
  // With no height to fill, strips take their least height.
  return geometryFor({width, 0}, Theme::current()).height;
}

QString AllocationView::emptyText() const {
  if (!run_) return QStringLiteral("Nothing is open. Run a prompt or open a trace.");
  const auto& list = run_->summary.head_list;
  if (std::none_of(list.begin(), list.end(), [](const auto& s) { return s.has_routes; }))
    return QStringLiteral("No layer of this run has captured routes: there is no allocation to show.");
  return {};
}

QString AllocationView::accessibleText() const {
  if (!run_) return QStringLiteral("Allocation, ") + emptyText();
  const auto& s = selection_->current();
  QString text = QStringLiteral("Allocation, layer %1 head %2").arg(s.layer).arg(s.head);
  if (const auto* a = allocationAt(s.layer, s.head)) {
    text += QStringLiteral(", %1 retrieval only, %2 shared, %3 other only, %4 empty")
                .arg(a->counts[0])
                .arg(a->counts[1])
                .arg(a->counts[2])
                .arg(a->counts[3]);
    text += QStringLiteral(", retrieval score ") + strength(a->head_score, 2);
    if (s.slot >= 0 && size_t(s.slot) < a->slot_class.size())
      text += QStringLiteral(", slot %1 %2").arg(s.slot).arg(slotClassName(a->slot_class[size_t(s.slot)]));
  }
  return text;
}

void AllocationView::contentChanged() {
  updateBar();
  if (run_ && hasInfo(*run_)) {
    const auto& roles = own_roles_.empty() ? run_->info().roles : own_roles_;
    const auto red = std::count(roles.begin(), roles.end(), uint8_t(1));
    Q_EMIT reductionText(QStringLiteral("roles: %1 retrieval, %2 other tokens")
                             .arg(count(red), count(run_->info().tokens - red)));
  }
  PaintedView::contentChanged();
}

void AllocationView::paintCounts(QPainter& painter, const QRectF& strip, const analysis::HeadAllocation& a,
                                 const Theme& theme, bool score) const {
  const double middle = strip.bottom() + 13 * theme.base / 12;
  const QFontMetricsF metrics(theme.label());
  double x = strip.left() + 1;
  painter.setFont(theme.label());
  for (int kind = 0; kind < 4; ++kind) {
    const QRectF square(std::round(x), std::round(middle - 4), 8, 8);
    painter.setRenderHint(QPainter::Antialiasing, false);
    if (kind < 3) {
      painter.fillRect(square, theme.roleColour(analysis::SlotClass(kind)));
    } else {
      painter.setPen(QPen(theme.lineStrong, 1));
      painter.setBrush(Qt::NoBrush);
      painter.drawRect(square.adjusted(0.5, 0.5, 0.5, 0.5));
    }
    const QString text = QString::number(a.counts[kind]);
    painter.setPen(theme.text2);
    painter.drawText(QRectF(x + 12, middle - 10, 60, 20), int(Qt::AlignLeft | Qt::AlignVCenter), text);
    x += 12 + metrics.horizontalAdvance(text) + 14;
  }
  if (!score) return;
  painter.setFont(a.retrieval_head ? theme.labelSemibold() : theme.label());
  painter.setPen(a.retrieval_head ? theme.text : theme.text3);
  painter.drawText(QRectF(strip.right() - 100, middle - 10, 100, 20), int(Qt::AlignRight | Qt::AlignVCenter),
                   QStringLiteral("R  ") +
                       (std::isnan(a.head_score) ? QStringLiteral("–") : signedNumber(a.head_score, 2)));
}

// The prompt in role colours, then the answer with its verdict. Returns the height used; painter may be null
// to measure.
double AllocationView::paintText(QPainter* painter, double left, double top, double width, double height,
                                 const Theme& theme) const {
  if (!run_ || !hasInfo(*run_)) return 0;
  const double scale = theme.base / 12, step = std::round(kLine * scale);
  const auto& info = run_->info();
  const auto& roles = own_roles_.empty() ? info.roles : own_roles_;
  QFont bold = theme.fixed;
  bold.setBold(true);
  const double advance = QFontMetricsF(theme.fixed).horizontalAdvance(QLatin1Char('0'));
  const double text_left = left + 76 * scale;
  const int columns = int((width - 76 * scale - 8) / std::max(1.0, advance));
  const int lines = std::max(1, int((height - (12 + 16 + 12) * scale) / step) - 1);
  if (!painter) return 0;
  painter->setRenderHint(QPainter::Antialiasing, false);
  painter->fillRect(QRectF(left - 2, top, width + 4, 1), theme.line);
  double y = top + std::round(6 * scale);
  painter->setFont(theme.ui);
  painter->setPen(theme.text2);
  painter->drawText(QRectF(left, y, 74 * scale, step), int(Qt::AlignLeft | Qt::AlignVCenter),
                    QStringLiteral("Prompt"));
  for (const auto& line : roleText(info, roles, std::min(info.prompt_tokens, info.tokens), columns, lines)) {
    double x = text_left;
    for (const auto& run : line.runs) {
      painter->setFont(run.retrieval ? bold : theme.fixed);
      painter->setPen(run.retrieval ? theme.retrieval : run.ellipsis ? theme.text2 : theme.otherText);
      const double w = QFontMetricsF(painter->font()).horizontalAdvance(run.text);
      painter->drawText(QRectF(x, y, w + 4, step), int(Qt::AlignLeft | Qt::AlignVCenter), run.text);
      x += w;
    }
    y += step;
  }
  if (info.output_ids.empty() && info.tokens <= info.prompt_tokens) return y - top;
  y += 2;
  QString label = QStringLiteral("Answer");
  if (run_->trace && !run_->trace->model().family.empty()) {
    label = QString::fromStdString(run_->trace->model().family);
    label[0] = label[0].toUpper();
  }
  painter->setFont(theme.ui);
  painter->setPen(theme.text2);
  painter->drawText(QRectF(left, y, 74 * scale, step), int(Qt::AlignLeft | Qt::AlignVCenter), label);
  double x = text_left;
  QString part;
  bool red = false;
  const auto flush = [&] {
    if (part.isEmpty()) return;
    painter->setFont(red ? bold : theme.fixed);
    painter->setPen(red ? theme.retrieval : theme.otherText);
    const double w = QFontMetricsF(painter->font()).horizontalAdvance(part);
    painter->drawText(QRectF(x, y, w + 4, step), int(Qt::AlignLeft | Qt::AlignVCenter), part);
    x += w;
    part.clear();
  };
  // The verdict and what was expected keep their place behind a long answer.
  const AnswerVerdict verdict = answerVerdict(info);
  QString expected;
  if (verdict.known && !verdict.good)
    expected = QFontMetricsF(theme.ui).elidedText(
        QStringLiteral("%1, expected “%2”").arg(verdict.word, QString::fromStdString(info.answer)),
        Qt::ElideRight, width / 2);
  const int kept =
      std::max(24, int(std::ceil((40 + QFontMetricsF(theme.ui).horizontalAdvance(expected)) / std::max(1.0, advance))));
  int shown = 0;
  for (const auto& cell :
       tokenCells(info, info.prompt_tokens, std::min(info.tokens, info.prompt_tokens + columns))) {
    if (shown + cell.text.size() > columns - kept) {
      flush();
      part = QStringLiteral(" …");
      break;
    }
    const bool is_red = size_t(cell.first) < roles.size() && roles[size_t(cell.first)] == 1;
    if (is_red != red) flush();
    red = is_red;
    part += cell.text;
    shown += int(cell.text.size());
  }
  flush();
  if (verdict.known) {
    paintVerdict(*painter, {x + 15, y + step / 2}, verdict.good, verdict.good ? theme.ok : theme.error);
    if (!verdict.good) {
      painter->setFont(theme.ui);
      painter->setPen(theme.error);
      painter->drawText(QRectF(x + 28, y, std::max(0.0, left + width - x - 28), step),
                        int(Qt::AlignLeft | Qt::AlignVCenter),
                        expected);
    }
  }
  return y + step - top;
}

void AllocationView::paintAll(QPainter& painter, const QSizeF& size, const Theme& theme, bool selection,
                              bool count_from_one) const {
  const Geometry g = geometryFor(size, theme);
  const auto chosen = selection_ ? selection_->current() : Selection{};
  const int base = count_from_one ? 1 : 0;
  const QRectF clip =
      painter.hasClipping() ? painter.clipBoundingRect() : QRectF(QPointF(0, 0), QSizeF(size.width(), 1e9));
  for (int head = 0; head < g.heads; ++head) {
    const QRectF row = g.strip(0, head);
    if (row.bottom() + kCountsRow < clip.top() || row.top() - 8 > clip.bottom()) continue;
    const bool on = selection && head == chosen.head;
    painter.save();
    painter.setPen(on ? theme.selection : theme.text);
    if (row.height() >= QFontMetricsF(theme.semibold()).horizontalAdvance(QStringLiteral("Head 00"))) {
      painter.setFont(on ? theme.semibold() : theme.ui);
      painter.translate(20 * theme.base / 12, row.center().y());
      painter.rotate(-90);
      painter.drawText(QRectF(-row.height() / 2 - 10, -10, row.height() + 20, 20), Qt::AlignCenter,
                       QStringLiteral("Head %1").arg(head + base));
    } else {
      painter.setFont(on ? theme.labelSemibold() : theme.label());
      painter.drawText(QRectF(0, row.center().y() - 10, g.left - 8, 20),
                       int(Qt::AlignRight | Qt::AlignVCenter), QStringLiteral("H%1").arg(head + base));
    }
    painter.restore();
    for (int layer = 0; layer < g.layers; ++layer) {
      const QRectF strip = g.strip(layer, head);
      const bool here = selection && layer == chosen.layer && head == chosen.head;
      if (const auto* a = allocationAt(layer, head)) {
        paintAllocationStrip(painter, strip, *a, theme, here ? chosen.slot : -1);
        if (g.counts) paintCounts(painter, strip, *a, theme, g.score);
      } else if (const auto* s = summaryAt(layer, head)) {
        const QString why = QString::fromStdString(s->why);
        if (!s->has_routes && why.startsWith(QLatin1String("not captured")))
          paintHatch(painter, strip, theme);
        painter.setRenderHint(QPainter::Antialiasing, false);
        painter.setBrush(Qt::NoBrush);
        painter.setPen(QPen(theme.line, 1));
        painter.drawRect(strip.adjusted(0.5, 0.5, -0.5, -0.5));
        painter.setFont(theme.micro());
        painter.setPen(theme.text3);
        const QString text = why.section(QLatin1Char(':'), 0, 0);
        if (QFontMetricsF(theme.micro()).horizontalAdvance(text) < strip.width() - 6)
          painter.drawText(strip, Qt::AlignCenter, text);
      }
      if (here && summaryAt(layer, head)) {
        // Cased ring outside the strip; the tick stays on top of it.
        painter.setRenderHint(QPainter::Antialiasing);
        painter.setBrush(Qt::NoBrush);
        const QRectF ring = strip.adjusted(-2, -2, 2, 2);
        painter.setPen(QPen(theme.selection, 2));
        painter.drawRoundedRect(ring, 3, 3);
      }
    }
  }
  if (g.text_height > 0)
    paintText(&painter, 14 * theme.base / 12, g.text_top, size.width() - 28 * theme.base / 12, g.text_height,
              theme);
  // Column heads stay while rows scroll.
  const double stay = selection ? scrollOffset() : 0;
  if (stay > 0) painter.fillRect(QRectF(0, stay, size.width(), g.top - 6), theme.surface);
  const double need = QFontMetricsF(theme.semibold()).horizontalAdvance(QStringLiteral("Layer 00"));
  for (int layer = 0; layer < g.layers; ++layer) {
    const bool on = selection && layer == chosen.layer;
    const bool brief = g.strip_width < need;
    painter.setFont(brief ? (on ? theme.labelSemibold() : theme.label())
                          : (on ? theme.semibold() : theme.ui));
    painter.setPen(on ? theme.selection : theme.text);
    const QRectF strip = g.strip(layer, 0);
    if (g.strip_width < 22 && layer % 4 != 0 && !on) continue;  // no room for every name
    painter.drawText(QRectF(strip.left() - 10, stay + 2, strip.width() + 20, g.top - 4), Qt::AlignCenter,
                     (brief ? QStringLiteral("L%1") : QStringLiteral("Layer %1")).arg(layer + base));
  }
}

void AllocationView::paintContent(QPainter& painter, const QSizeF& size, const Theme& theme) {
  paintAll(painter, size, theme, true, false);
}

QSizeF AllocationView::figureSize() const {
  if (!run_) return {640, 400};
  const int layers = std::max(1, run_->summary.layers), heads = std::max(1, run_->summary.heads);
  const double width = layers > 8 ? 60 : 200, row = heads > 8 ? 30 : 84;
  return {kLeft + kRight + layers * (width + (layers > 8 ? 6 : kGap)), kTop + heads * row + 190};
}

void AllocationView::paintFigure(QPainter& painter, const QRectF& area, const Theme& theme,
                                 const FigureOptions& options) {
  if (paintGround(painter, area, theme)) return;
  painter.save();
  QRectF rest = area;
  if (options.caption) {
    QStringList extra{
        QStringLiteral("roles from %1").arg(own_name_.isEmpty() ? QStringLiteral("task spans") : own_name_),
        QStringLiteral("threshold %1").arg(strength(run_->allocation.threshold)),
        QStringLiteral("tolerance %1").arg(share(run_->allocation.tau, 0))};
    if (const AnswerVerdict verdict = hasInfo(*run_) ? answerVerdict(run_->info()) : AnswerVerdict{};
        verdict.known && !verdict.good)
      extra << (verdict.word == QStringLiteral("wrong")
                    ? QStringLiteral("the answer was wrong")
                    : QStringLiteral("expected answer %1 in the output").arg(verdict.word));
    rest = paintCaption(painter, area, captionText(*run_, nullptr, extra.join(QStringLiteral(", ")), options),
                        theme);
  }
  const double bar = 28 * theme.base / 12;
  const double after = paintLegend(painter, rest.left() + 14, rest.top() + bar / 2 + 4, legend_->items().isEmpty() ? QVector<LegendItem>{} : [&] {
    using C = analysis::SlotClass;
    QVector<LegendItem> items;
    for (const auto kind : {C::retrieval, C::shared, C::other}) items.push_back({LegendItem::Square, theme.roleColour(kind), slotClassName(kind)});
    items.push_back({LegendItem::Outline, theme.surface, slotClassName(C::empty)});
    return items;
  }(), theme);
  painter.setFont(theme.label());
  painter.setPen(theme.text3);
  painter.drawText(QRectF(after + 24, rest.top() + bar / 2 - 6, 160, 20),
                   int(Qt::AlignLeft | Qt::AlignVCenter), QStringLiteral("R = retrieval score"));
  painter.translate(rest.left(), rest.top() + bar);
  paintAll(painter, {rest.width(), rest.height() - bar}, theme, options.selection, options.countFromOne);
  painter.restore();
}

QString AllocationView::csv() const {
  if (!run_) return {};
  Facts facts = runFacts(*run_, nullptr);
  facts.push_back({QStringLiteral("figure"), figureKind()});
  facts.push_back({QStringLiteral("roles"), own_name_.isEmpty() ? QStringLiteral("task spans") : own_name_});
  facts += thresholdFacts(*run_);
  if (hasInfo(*run_)) {
    const auto& info = run_->info();
    facts.push_back({QStringLiteral("answer"), QString::fromStdString(info.output_text)});
    if (info.has_answer) facts.push_back({QStringLiteral("expected"), QString::fromStdString(info.answer)});
    if (info.exact)
      facts.push_back({QStringLiteral("exact"), *info.exact ? QStringLiteral("1") : QStringLiteral("0")});
  }
  QString text = factLines(facts) + QStringLiteral(
                                        "layer,head,position,slot,class,written,retrieval_written,"
                                        "specialisation,head_score,retrieval_head\n");
  for (int layer = 0; layer < run_->summary.layers; ++layer)
    for (int head = 0; head < run_->summary.heads; ++head) {
      const auto* a = allocationAt(layer, head);
      if (!a) continue;
      for (size_t at = 0; at < a->order.size(); ++at) {
        const auto slot = size_t(a->order[at]);
        text += QStringLiteral("%1,%2,%3,%4,%5,%6,%7,%8,%9,%10\n")
                    .arg(layer)
                    .arg(head)
                    .arg(at)
                    .arg(slot)
                    .arg(slotClassName(a->slot_class[slot]))
                    .arg(a->written[slot])
                    .arg(a->retrieval[slot])
                    .arg(slot < a->specialisation.size() ? csvNumber(a->specialisation[slot]) : QString(),
                         csvNumber(a->head_score))
                    .arg(a->retrieval_head ? 1 : 0);
      }
    }
  return text;
}

std::pair<int, int> AllocationView::cellAt(const QPointF& position) const {
  if (!emptyText().isEmpty()) return {-1, -1};
  const auto area = contentRect();
  const Geometry g =
      geometryFor({area.width(), std::max(area.height(), contentHeight(area.width()))}, Theme::current());
  for (int layer = 0; layer < g.layers; ++layer)
    for (int head = 0; head < g.heads; ++head)
      if (summaryAt(layer, head) &&
          g.strip(layer, head).adjusted(0, -4, 0, g.counts ? 22 : 2).contains(position))
        return {layer, head};
  return {-1, -1};
}

int AllocationView::slotAt(const QPointF& position) const {
  const auto [layer, head] = cellAt(position);
  const auto* a = allocationAt(layer, head);
  if (!a) return -1;
  const auto area = contentRect();
  const QRectF strip =
      geometryFor({area.width(), std::max(area.height(), contentHeight(area.width()))}, Theme::current())
          .strip(layer, head);
  return position.y() <= strip.bottom() ? stripSlotAt(strip, *a, position.x()) : -1;
}

QString AllocationView::tipAt(const QPointF& position) const {
  const auto [layer, head] = cellAt(position);
  if (layer < 0) return {};
  const auto* a = allocationAt(layer, head);
  const QString where = QStringLiteral("layer %1 head %2").arg(layer).arg(head);
  if (!a)
    return tipText(where, {},
                   summaryAt(layer, head) ? QString::fromStdString(summaryAt(layer, head)->why) : QString(),
                   Theme::current());
  const int slot = slotAt(position);
  if (slot < 0)
    return tipText(
        where,
        {{QStringLiteral("retrieval only"), QString::number(a->counts[0])},
         {QStringLiteral("shared"), QString::number(a->counts[1])},
         {QStringLiteral("other only"), QString::number(a->counts[2])},
         {QStringLiteral("empty"), QString::number(a->counts[3])},
         {QStringLiteral("retrieval score"), strength(a->head_score)}},
        QStringLiteral("retrieval score: share of the key's write strength in retrieval-only slots (ours)"),
        Theme::current());
  const auto at = size_t(slot);
  QVector<std::pair<QString, QString>> rows{
      {QStringLiteral("class"), slotClassName(a->slot_class[at])},
      {QStringLiteral("written by"), QStringLiteral("%1 tokens").arg(count(a->written[at]))}};
  if (a->written[at] > 0) {
    rows.push_back({QStringLiteral("of them retrieval"),
                    QStringLiteral("%1 (%2)").arg(count(a->retrieval[at]),
                                                  share(double(a->retrieval[at]) / double(a->written[at])))});
    if (at < a->specialisation.size() && !std::isnan(a->specialisation[at]))
      rows.push_back({QStringLiteral("specialisation"), strength(a->specialisation[at], 2)});
  }
  return tipText(QStringLiteral("Slot %1, %2").arg(slot).arg(where), rows,
                 QStringLiteral("routed: r[t,i] ≠ 0 and s[t,i] ≥ %1; Raven Figs 6, 7")
                     .arg(strength(run_->allocation.threshold)),
                 Theme::current());
}

void AllocationView::selectionMoved(int parts) {
  if (run_ && (parts & SelectionModel::Head)) {
    const auto area = contentRect();
    const Geometry g =
        geometryFor({area.width(), std::max(area.height(), contentHeight(area.width()))}, Theme::current());
    const QRectF strip = g.strip(0, selection_->current().head);
    ensureVisible(strip.top() - g.top, strip.bottom() + 24);
  }
  PaintedView::selectionMoved(parts);
}

bool AllocationView::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if ((key->modifiers() & ~Qt::KeypadModifier) == Qt::NoModifier && key->key() >= Qt::Key_Left &&
        key->key() <= Qt::Key_Down)
      event->accept();
  }
  return PaintedView::event(event);
}

void AllocationView::mousePressEvent(QMouseEvent* event) {
  const QPointF position = toContent(event->position());
  const auto [layer, head] = cellAt(position);
  if (event->button() != Qt::LeftButton || layer < 0) return;
  SelectionRequest request{.layer = layer, .head = head};
  if (const int slot = slotAt(position); slot >= 0) request.slot = slot;
  selection_->request(request);
}

void AllocationView::mouseDoubleClickEvent(QMouseEvent* event) {
  if (event->button() == Qt::LeftButton && cellAt(toContent(event->position())).first >= 0)
    Q_EMIT openViewRequested(QStringLiteral("heatmap"));
}

void AllocationView::mouseMoveEvent(QMouseEvent* event) {
  const QPointF position = toContent(event->position());
  const auto [layer, head] = cellAt(position);
  const auto* a = layer < 0 ? nullptr : allocationAt(layer, head);
  const int slot = a ? slotAt(position) : -1;
  const auto& s = selection_->current();
  selection_->setHover(layer == s.layer && head == s.head ? slot : -1, -1);
  if (!a) return Q_EMIT statusText({});
  QString text = QStringLiteral("layer %1 · head %2   %3 retrieval only   R %4")
                     .arg(layer)
                     .arg(head)
                     .arg(a->counts[0])
                     .arg(std::isnan(a->head_score) ? QStringLiteral("–") : signedNumber(a->head_score, 2));
  if (slot >= 0)
    text += QStringLiteral("   slot %1 %2, %3 writes")
                .arg(slot)
                .arg(slotClassName(a->slot_class[size_t(slot)]), count(a->written[size_t(slot)]));
  Q_EMIT statusText(text);
}

void AllocationView::leaveEvent(QEvent*) {
  if (selection_) selection_->setHover(-1, -1);
  Q_EMIT statusText({});
}

void AllocationView::keyPressEvent(QKeyEvent* event) {
  const auto& s = selection_->current();
  int layer = s.layer, head = s.head;
  switch (event->key()) {
    case Qt::Key_Left:
      --layer;
      break;
    case Qt::Key_Right:
      ++layer;
      break;
    case Qt::Key_Up:
      --head;
      break;
    case Qt::Key_Down:
      ++head;
      break;
    default:
      return PaintedView::keyPressEvent(event);
  }
  if (summaryAt(layer, head)) selection_->request({.layer = layer, .head = head}, event->isAutoRepeat());
  event->accept();
}

}  // namespace slotscope::views
