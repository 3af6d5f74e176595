#include "views/raster_view.h"

#include <QComboBox>
#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "views/caption.h"
#include "views/esl_paint.h"
#include "views/format.h"
#include "views/heatmap_geometry.h"
#include "views/token_cells.h"

namespace slotscope::views {

namespace {

constexpr double kLeft = 58, kRight = 16, kTop = 46, kBottom = 46, kGap = 44;
constexpr int64_t kWidths[] = {64, 128, 256, 512, 1024};

const trace::LayerSpec* layerOf(const RunData& run, int layer) {
  if (!hasInfo(run)) return nullptr;
  for (const auto& spec : run.info().layers)
    if (spec.index == layer) return &spec;
  return nullptr;
}

QString number(double v) {
  return std::abs(v - std::round(v)) < 1e-9 ? count(qint64(std::llround(v))) : QString::number(v, 'f', 1);
}

QString writesText(const analysis::Raster& r) {
  if (std::isnan(r.writes_per_token)) return QStringLiteral("not captured here");
  return QStringLiteral("%1 of %2 slots per token").arg(number(r.writes_per_token), count(r.memory_slots));
}

}  // namespace

RasterView::RasterView(SelectionModel* selection, QWidget* parent) : PaintedView(selection, parent) {
  auto* bar = viewBar();
  bar->addWidget(barLabel(QStringLiteral("Tokens")));
  width_ = new QComboBox(this);
  width_->setAccessibleName(QStringLiteral("Tokens shown"));
  width_->setToolTip(QStringLiteral("How many tokens are shown, with the selected one in the middle"));
  for (const int64_t n : kWidths) width_->addItem(count(n), qint64(n));
  width_->addItem(QStringLiteral("visible range"), qint64(0));
  width_->setCurrentIndex(1);
  connect(width_, &QComboBox::activated, this, [this](int at) { setTokens(width_->itemData(at).toLongLong()); });
  bar->addWidget(width_);
  bar->addStretch(1);
  legend_ = new LegendWidget(this);
  bar->addWidget(legend_, 0);
  if (selection_)
    connect(selection_, &SelectionModel::tokenRangeChanged, this, [this] {
      if (tokens_ == 0) rebuild();
    });
  legend_->setItems(legend(Theme::current()));
  refreshAccessibility();
}

QVector<LegendItem> RasterView::legend(const Theme& theme) const {
  return {{LegendItem::Square, theme.text, QStringLiteral("written"), {}},
          {LegendItem::Square, theme.retrieval, QStringLiteral("written by a retrieval token"), QStringLiteral("retrieval")},
          {LegendItem::Outline, theme.surface, QStringLiteral("not written"), {}}};
}

void RasterView::setTokens(int64_t tokens) {
  tokens_ = std::clamp<int64_t>(tokens, 0, analysis::kMostRasterTokens);
  const int at = width_->findData(qint64(tokens_));
  if (at >= 0) width_->setCurrentIndex(at);
  rebuild();
}

void RasterView::setRun(std::shared_ptr<const RunData> run) {
  beside_.clear();
  PaintedView::setRun(std::move(run));
}

void RasterView::addBeside(std::shared_ptr<const RunData> run, std::shared_ptr<const analysis::HeadData> head) {
  if (run && head) beside_.push_back({std::move(run), std::move(head)});
  rebuild();
}

void RasterView::addMeasured(std::shared_ptr<const RunData> run, std::shared_ptr<const analysis::HeadData> head) {
  Panel panel;
  panel.raster = analysis::measured_raster(*head, first_, last_);
  panel.title = QStringLiteral("%1 · layer %2 head %3").arg(run->model_name).arg(head->layer).arg(head->head);
  panel.subtitle = QStringLiteral("measured, ") + writesText(panel.raster);
  panel.run = std::move(run);
  panel.head = std::move(head);
  panels_.push_back(std::move(panel));
}

// The window of tokens, then dense | measured ones | FIFO. A reference by rule is left out where a real memory of its kind
// is shown.
void RasterView::rebuild() {
  panels_.clear();
  first_ = last_ = 0;
  if (run_ && head_) {
    const int64_t total = head_->routes.tokens;
    if (tokens_ == 0 && selection_) {
      std::tie(first_, last_) = selection_->tokenRange();
      last_ = std::min(last_, first_ + analysis::kMostRasterTokens);
    } else {
      const auto range = centreRange(selection_ ? selection_->current().token : 0, tokens_, total);
      first_ = range.first, last_ = range.second;
    }
    bool dense = false, ring = false;
    const auto note = [&](const RunData& run, int layer) {
      const auto* spec = layerOf(run, layer);
      dense = dense || (spec && spec->route_kind == "dense");
      ring = ring || (spec && spec->route_kind == "ring");
    };
    note(*run_, head_->layer);
    for (const Beside& b : beside_) note(*b.run, b.head->layer);
    const int slots = head_->routes.slots;
    const int by_rule = std::min(slots, 256);  // of an attention layer, which has as many as tokens, a part
    const auto add_rule = [&](bool is_ring) {
      Panel panel;
      panel.raster = is_ring ? analysis::fifo_raster(by_rule, first_, last_) : analysis::dense_raster(by_rule, first_, last_);
      panel.title = is_ring ? QStringLiteral("FIFO") : QStringLiteral("Dense");
      panel.subtitle = QStringLiteral("by rule, ") + writesText(panel.raster);
      panels_.push_back(std::move(panel));
    };
    if (slots > 0) {
      if (!dense) add_rule(false);
      addMeasured(run_, head_);
      for (const Beside& b : beside_) addMeasured(b.run, b.head);
      if (!ring) add_rule(true);
    }
    Q_EMIT reductionText(QStringLiteral("tokens %1 to %2 of %3, every cell drawn")
                             .arg(count(first_), count(std::max(first_, last_ - 1)), count(total)));
  }
  update();
}

void RasterView::contentChanged() {
  rebuild();
  PaintedView::contentChanged();
}

void RasterView::selectionMoved(int parts) {
  if ((parts & SelectionModel::Token) && tokens_ != 0 && selection_ &&
      (selection_->current().token < first_ || selection_->current().token >= last_))
    rebuild();
  PaintedView::selectionMoved(parts);
}

void RasterView::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange && legend_) {
    for (Panel& panel : panels_) panel.image = {};
    legend_->setItems(legend(Theme::current()));
  }
  PaintedView::changeEvent(event);
}

QString RasterView::emptyText() const {
  if (!run_) return QStringLiteral("Nothing is open. Run a prompt or open a trace.");
  if (!head_) return QStringLiteral("This head has no routes, so there is no router to show.");
  if (panels_.empty()) return QStringLiteral("This head has no slots.");
  return {};
}

QString RasterView::accessibleText() const {
  if (!head_ || panels_.empty()) return QStringLiteral("Router raster, ") + emptyText();
  QString text = QStringLiteral("Router raster, tokens %1 to %2").arg(first_).arg(last_ - 1);
  for (const Panel& panel : panels_) text += QStringLiteral(", %1: %2").arg(panel.title, panel.subtitle);
  return text;
}

QVector<QRectF> RasterView::plotsFor(const QRectF& area, const Theme& theme) const {
  QVector<QRectF> plots;
  const double s = theme.base / 12;
  const int n = int(panels_.size());
  if (n == 0) return plots;
  const double width = std::floor((area.width() - (kLeft + kRight + (n - 1) * kGap) * s) / n);
  for (int i = 0; i < n; ++i)
    plots.push_back(QRectF(std::floor(area.left() + kLeft * s + i * (width + kGap * s)), std::floor(area.top() + kTop * s),
                           std::max(1.0, width), std::max(1.0, std::floor(area.height() - (kTop + kBottom) * s))));
  return plots;
}

const QImage& RasterView::imageOf(const Panel& panel, const Theme& theme) const {
  const analysis::Raster& r = panel.raster;
  if (!panel.image.isNull() && panel.image_dark == theme.dark) return panel.image;
  panel.image = QImage(int(r.tokens()), r.slots, QImage::Format_RGB32);
  panel.image_dark = theme.dark;
  const QRgb none = theme.plot.rgb(), other = theme.text.rgb(), red = theme.retrieval.rgb(),
             missing = mix(theme.line, theme.plot, 0.6).rgb();
  const trace::RunInfo* info = panel.run && hasInfo(*panel.run) ? &panel.run->info() : nullptr;
  for (int64_t c = 0; c < r.tokens(); ++c) {
    const size_t token = size_t(r.first + c);
    const bool retrieval = info && token < info->roles.size() && info->roles[token] == 1;
    for (int row = 0; row < r.slots; ++row) {
      const uint8_t mark = r.at(row, c);
      panel.image.setPixel(int(c), row,
                           mark == analysis::Raster::written        ? (retrieval ? red : other)
                           : mark == analysis::Raster::not_captured ? missing
                                                                    : none);
    }
  }
  return panel.image;
}

void RasterView::paintPanels(QPainter& painter, const QRectF& area, const Theme& theme, bool marks,
                             const FigureOptions& options) const {
  const double s = theme.base / 12;
  const int base = options.countFromOne ? 1 : 0;
  const auto plots = plotsFor(area, theme);
  const QFontMetricsF metrics(theme.label());
  for (size_t i = 0; i < panels_.size(); ++i) {
    const Panel& panel = panels_[i];
    const analysis::Raster& r = panel.raster;
    const QRectF& plot = plots[qsizetype(i)];
    if (r.tokens() == 0 || r.slots == 0) continue;
    painter.setRenderHint(QPainter::Antialiasing, false);
    painter.setRenderHint(QPainter::SmoothPixmapTransform, false);
    painter.drawImage(plot, imageOf(panel, theme));
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(theme.lineStrong, 1));
    painter.drawRect(plot.adjusted(-0.5, -0.5, 0.5, 0.5));

    painter.setFont(theme.semibold());
    painter.setPen(theme.text);
    const double room = plot.width() + kGap * s - 6;
    painter.drawText(QRectF(plot.left(), plot.top() - 42 * s, room, 20 * s), int(Qt::AlignLeft | Qt::AlignVCenter),
                     QFontMetricsF(theme.semibold()).elidedText(panel.title, Qt::ElideMiddle, room));
    painter.setFont(theme.label());
    painter.setPen(theme.text2);
    painter.drawText(QRectF(plot.left(), plot.top() - 23 * s, room, 18 * s), int(Qt::AlignLeft | Qt::AlignVCenter),
                     metrics.elidedText(panel.subtitle, Qt::ElideRight, room));

    const double cell = plot.width() / double(r.tokens()), height = plot.height() / r.slots;
    const int64_t step = tickStep(cell, 46 * s);
    for (int64_t t = (r.first + step - 1) / step * step; t < r.last; t += step) {
      const double x = std::floor(plot.left() + (double(t - r.first) + 0.5) * cell);
      painter.fillRect(QRectF(x, plot.bottom() + 1, 1, 4), theme.lineStrong);
      painter.drawText(QRectF(x - 40, plot.bottom() + 5, 80, metrics.height() + 2),
                       int(Qt::AlignHCenter | Qt::AlignVCenter), count(t));
    }
    painter.drawText(QRectF(plot.left() - 20, plot.bottom() + 6 + metrics.height(), plot.width() + 40, metrics.height() + 4),
                     int(Qt::AlignHCenter | Qt::AlignVCenter), QStringLiteral("token"));
    const int64_t rows = tickStep(height, 26 * s);
    for (int64_t slot = (r.first_slot + rows - 1) / rows * rows; slot < r.first_slot + r.slots; slot += rows) {
      const double y = std::floor(plot.top() + (double(slot - r.first_slot) + 0.5) * height);
      painter.fillRect(QRectF(plot.left() - 5, y, 4, 1), theme.lineStrong);
      painter.drawText(QRectF(plot.left() - 46, y - 10, 38, 20), int(Qt::AlignRight | Qt::AlignVCenter),
                       count(slot + base));
    }
    if (i == 0) {
      painter.save();
      painter.translate(area.left() + 11 * s, plot.center().y());
      painter.rotate(-90);
      painter.drawText(QRectF(-60, -10, 120, 20), Qt::AlignCenter, QStringLiteral("slot"));
      painter.restore();
    }
    if (!marks || !selection_ || panel.head != head_) continue;
    const auto& chosen = selection_->current();
    painter.setPen(QPen(theme.selection, 1));
    if (chosen.token >= r.first && chosen.token < r.last)
      painter.drawRect(QRectF(plot.left() + double(chosen.token - r.first) * cell - 0.5, plot.top() - 0.5, std::max(2.0, cell),
                              plot.height()));
    if (chosen.slot >= r.first_slot && chosen.slot < r.first_slot + r.slots)
      painter.drawRect(QRectF(plot.left() - 0.5, plot.top() + double(chosen.slot - r.first_slot) * height - 0.5, plot.width(),
                              std::max(2.0, height)));
  }
}

void RasterView::paintContent(QPainter& painter, const QSizeF& size, const Theme& theme) {
  painter.fillRect(QRectF(QPointF(0, 0), size), theme.surface);
  paintPanels(painter, QRectF(QPointF(0, 0), size), theme, true, {});
}

QSizeF RasterView::figureSize() const { return {std::max(1.0, double(panels_.size())) * 290 + 60, 340}; }

void RasterView::paintFigure(QPainter& painter, const QRectF& area, const Theme& theme, const FigureOptions& options) {
  if (paintGround(painter, area, theme)) return;
  painter.save();
  QRectF rest = area;
  if (options.caption)
    rest = paintCaption(painter, area,
                        captionText(*run_, head_.get(),
                                    QStringLiteral("filled where r ≠ 0, tokens %1–%2").arg(first_).arg(last_ - 1), options),
                        theme);
  if (options.legend) {
    const double bar = 26 * theme.base / 12;
    paintLegend(painter, rest.left() + kLeft * theme.base / 12, rest.top() + bar / 2, legend(theme), theme);
    rest.setTop(rest.top() + bar);
  }
  paintPanels(painter, rest, theme, options.selection, options);
  painter.restore();
}

QString RasterView::csv() const {
  if (!run_ || !head_) return {};
  Facts facts = runFacts(*run_, head_.get());
  facts.push_back({QStringLiteral("figure"), figureKind()});
  facts.push_back({QStringLiteral("tokens_shown"), QStringLiteral("%1:%2").arg(first_).arg(last_)});
  QString text = factLines(facts) + QStringLiteral("panel,source,slots,token,slot\n");
  for (const Panel& panel : panels_) {
    const analysis::Raster& r = panel.raster;
    const QString before = QStringLiteral("%1,%2,%3,").arg(
        csvField(panel.title), r.source == analysis::Raster::Source::rule ? QStringLiteral("rule") : QStringLiteral("measured"),
        QString::number(r.memory_slots));
    for (int64_t c = 0; c < r.tokens(); ++c)
      for (int row = 0; row < r.slots; ++row)
        if (r.at(row, c) == analysis::Raster::written)
          text += before + QString::number(r.first + c) + QLatin1Char(',') + QString::number(r.first_slot + row) + QLatin1Char('\n');
  }
  return text;
}

RasterView::Hit RasterView::hitAt(const QPointF& position) const {
  if (!emptyText().isEmpty()) return {};
  const auto plots = plotsFor(QRectF(QPointF(0, 0), contentRect().size()), Theme::current());
  for (qsizetype i = 0; i < plots.size(); ++i) {
    const analysis::Raster& r = panels_[size_t(i)].raster;
    if (!plots[i].contains(position) || r.tokens() == 0 || r.slots == 0) continue;
    const auto at = [](double share, int64_t n) { return std::clamp<int64_t>(int64_t(share * double(n)), 0, n - 1); };
    return {int(i), r.first_slot + int(at((position.y() - plots[i].top()) / plots[i].height(), r.slots)),
            r.first + at((position.x() - plots[i].left()) / plots[i].width(), r.tokens())};
  }
  return {};
}

QString RasterView::tipAt(const QPointF& position) const {
  const Hit hit = hitAt(position);
  if (hit.panel < 0) return {};
  const Panel& panel = panels_[size_t(hit.panel)];
  const uint8_t mark = panel.raster.at(hit.slot - panel.raster.first_slot, hit.token - panel.raster.first);
  QVector<std::pair<QString, QString>> rows{
      {QStringLiteral("token"), count(hit.token)},
      {QStringLiteral("slot"), count(hit.slot)},
      {QStringLiteral("written"), mark == analysis::Raster::written        ? QStringLiteral("yes")
                                  : mark == analysis::Raster::not_captured ? QStringLiteral("not captured")
                                                                           : QStringLiteral("no")}};
  return tipText(panel.title, rows,
                 panel.raster.source == analysis::Raster::Source::rule
                     ? QStringLiteral("A reference by rule, no run of a model")
                     : QStringLiteral("Filled where r[t,i] ≠ 0, Raven Fig. 1"),
                 Theme::current());
}

void RasterView::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return PaintedView::mousePressEvent(event);
  const Hit hit = hitAt(toContent(event->position()));
  if (hit.panel < 0 || !selection_) return;
  SelectionRequest wanted{.token = hit.token};
  if (panels_[size_t(hit.panel)].head == head_) wanted.slot = hit.slot;
  selection_->request(wanted);
}

void RasterView::mouseDoubleClickEvent(QMouseEvent* event) {
  if (hitAt(toContent(event->position())).panel >= 0) Q_EMIT openViewRequested(QStringLiteral("heatmap"));
}

void RasterView::mouseMoveEvent(QMouseEvent* event) {
  const Hit hit = hitAt(toContent(event->position()));
  if (hit.panel < 0) {
    if (selection_) selection_->setHover(-1, -1);
    return Q_EMIT statusText({});
  }
  const bool own = panels_[size_t(hit.panel)].head == head_;
  if (selection_) selection_->setHover(own ? hit.slot : -1, hit.token);
  QString token;
  if (run_ && hasInfo(*run_)) token = QLatin1Char(' ') + tokenName(run_->info(), hit.token);
  Q_EMIT statusText(QStringLiteral("token %1%2   slot %3   %4").arg(hit.token).arg(token).arg(hit.slot).arg(
      panels_[size_t(hit.panel)].title));
}

void RasterView::leaveEvent(QEvent*) {
  if (selection_) selection_->setHover(-1, -1);
  Q_EMIT statusText({});
}

}  // namespace slotscope::views
