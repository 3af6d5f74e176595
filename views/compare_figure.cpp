// The comparison as an exported figure, and its data.
#include <QPainter>
#include <cmath>

#include "views/caption.h"
#include "views/compare_view.h"
#include "views/format.h"
#include "views/heatmap_view.h"
#include "views/key_plot.h"
#include "views/pair_note.h"

namespace slotscope::views {

namespace {
constexpr double kWidth = 860, kMap = 260, kGap = 8;
}

QSizeF CompareView::figureSize() const {
  const double key = kKeyPlotHeight + 28;
  return layout_ == CompareLayout::stacked ? QSizeF(kWidth, 2 * kMap + key) : QSizeF(kWidth * 1.4, kMap * 1.3 + key);
}

// Badge, model, layer and head, and what is shown, in words.
void CompareView::paintHeader(QPainter& p, const QRectF& area, const Theme& theme, const FigureOptions& options, bool b) {
  const double k = theme.base / 12;
  const CompareSide& side = b ? model_->b() : model_->a();
  const double middle = area.top() + kCompareHeader * k / 2;
  paintBadge(p, {area.left() + 10, middle - 8 * k, 18 * k, 16 * k}, b ? QStringLiteral("B") : QStringLiteral("A"),
             b ? theme.modelB : theme.modelA, theme);
  const Selection at = (b ? model_->selectionB() : model_->selectionA())->current();
  const int one = options.countFromOne ? 1 : 0;
  const QString name = side.run ? side.run->model_name : QString();
  double x = area.left() + 10 + 26 * k;
  p.setFont(theme.semibold());
  p.setPen(theme.text);
  const QString shown_name = QFontMetricsF(p.font()).elidedText(name, Qt::ElideMiddle, area.width() / 2);
  p.drawText(QRectF(x, middle - 10 * k, area.width() / 2, 20 * k), Qt::AlignVCenter, shown_name);
  x += QFontMetricsF(p.font()).horizontalAdvance(shown_name) + 16 * k;
  p.setFont(theme.label());
  p.setPen(theme.text2);
  QString details = QStringLiteral("layer %1 · head %2").arg(at.layer + one).arg(at.head + one);
  if (const QString more = sideDetails(b); !more.isEmpty()) details += QStringLiteral(" · ") + more;
  p.drawText(QRectF(x, middle - 10 * k, std::max(0.0, area.right() - x), 20 * k), Qt::AlignVCenter,
             QFontMetricsF(p.font()).elidedText(details, Qt::ElideRight, std::max(0.0, area.right() - x)));
}

void CompareView::paintSide(QPainter& p, const QRectF& area, const Theme& theme, const FigureOptions& options, bool b) {
  const double k = theme.base / 12;
  paintHeader(p, {area.left(), area.top(), area.width(), kCompareHeader * k}, theme, options, b);
  FigureOptions inner = options;
  inner.caption = false;
  inner.scale = 1;
  (b ? pane_b_ : pane_a_)->paintFigure(p, area.adjusted(0, kCompareHeader * k, 0, 0), theme, inner);
}

void CompareView::paintFigure(QPainter& p, const QRectF& area, const Theme& theme, const FigureOptions& options) {
  p.save();
  p.fillRect(area, theme.surface);
  Theme scaled = theme;
  if (options.scale != 1) scaled.setBase(theme.base * options.scale);
  if (!model_ || !model_->complete()) {
    p.setPen(theme.text2);
    p.setFont(scaled.ui);
    p.drawText(area, int(Qt::AlignCenter) | Qt::TextWordWrap,
               model_ && !model_->b().why.isEmpty() ? model_->b().why : QStringLiteral("A comparison needs two traces"));
    p.restore();
    return;
  }
  const double k = scaled.base / 12;
  QRectF rest = area;
  if (options.caption) {
    QString text = QStringLiteral("A: ") + captionText(*model_->a().run, model_->a().head.get(), {}, options) +
                   QStringLiteral("; B: ") + captionText(*model_->b().run, model_->b().head.get(), {}, options);
    if (const QString note = bannerText(); !note.isEmpty()) text += QStringLiteral(". ") + note;
    rest = paintCaption(p, area, text, scaled);
  }
  const double key = std::min(kKeyPlotHeight * k, rest.height() / 3);
  const QRectF below(rest.left(), rest.bottom() - key, rest.width(), key);
  const QRectF maps(rest.left(), rest.top(), rest.width(), rest.height() - key - kGap);
  if (paired()) {
    const double header = kCompareHeader * k, note = 22 * k;
    for (const bool b : {false, true})
      paintHeader(p, {maps.left(), maps.top() + (b ? header : 0), maps.width(), header}, scaled, options, b);
    paintPairNote(p, {maps.left(), maps.top() + 2 * header, maps.width(), note}, pair_note_->note(), scaled);
    FigureOptions inner = options;
    inner.caption = inner.legend = false;
    inner.scale = 1;
    pane_pair_->paintFigure(p, maps.adjusted(0, 2 * header + note, 0, 0), scaled, inner);
  } else if (layout_ == CompareLayout::side_by_side) {
    const double half = std::floor((maps.width() - kGap) / 2);
    paintSide(p, {maps.left(), maps.top(), half, maps.height()}, scaled, options, false);
    paintSide(p, {maps.right() - half, maps.top(), half, maps.height()}, scaled, options, true);
  } else {
    const double half = std::floor((maps.height() - kGap) / 2);
    paintSide(p, {maps.left(), maps.top(), maps.width(), half}, scaled, options, false);
    paintSide(p, {maps.left(), maps.bottom() - half, maps.width(), half}, scaled, options, true);
  }
  KeyPlotScene scene;
  scene.model = model_;
  const auto [first, last] = model_->selectionA()->tokenRange();
  scene.tokens = {first, std::max(last, first + 1)};
  scene.count_from_one = options.countFromOne;
  if (options.selection) scene.selected = model_->selectionA()->current().token;
  paintKeyPlot(p, below, scene, scaled);
  p.restore();
}

QString CompareView::csv() const {
  if (!model_ || !model_->complete()) return {};
  Facts facts{{QStringLiteral("figure"), figureKind()}, {QStringLiteral("quantity"), quantityName(quantity_)}};
  for (const bool b : {false, true}) {
    const CompareSide& side = b ? model_->b() : model_->a();
    for (const auto& [key, value] : runFacts(*side.run, side.head.get()))
      facts.push_back({key + (b ? QStringLiteral("_b") : QStringLiteral("_a")), value});
    if (!side.head) facts.push_back({b ? QStringLiteral("missing_b") : QStringLiteral("missing_a"), side.why});
  }
  facts.push_back({QStringLiteral("tokens_linked"), model_->tokens().same_tokens ? QStringLiteral("by position, same tokens")
                                                                                  : QString::fromStdString(model_->tokens().note)});
  facts.push_back({QStringLiteral("cells"),
                   QStringLiteral("A, B: cells of the visible tokens and slots; key left A, key left B: share of the key tokens' "
                                  "write strength that is left; A-B: in the layout difference, slot of A | slot of B. Tokens are positions of the run they are named after")});
  QString text = factLines(facts) + QStringLiteral("series,token,slot,value\n");
  for (const bool b : {false, true}) {
    const HeatmapView* pane = b ? pane_b_ : pane_a_;
    if (pane->headData()) text += pane->csvCells(b ? QStringLiteral("B,") : QStringLiteral("A,"));
  }
  if (layout_ == CompareLayout::difference && pane_pair_->cells()) {
    const auto [first, last] = model_->selectionA()->tokenRange();
    const auto value = [&](const CompareSide& side, int slot, qint64 token, const SelectionModel* at) -> std::optional<double> {
      if (slot < 0 || token >= side.head->writes.tokens) return std::nullopt;
      return cellValue(*side.head, quantity_, slot, token, at->current().token);
    };
    const bool survival = quantity_ == Quantity::survival_at || quantity_ == Quantity::survival_of;
    for (const auto& pair : model_->paired().pair)
      for (qint64 t = first; t < last; ++t) {
        const auto x = value(model_->a(), pair.a, t, model_->selectionA()), y = value(model_->b(), pair.b, t, model_->selectionB());
        if (survival ? !x || !y : !x && !y) continue;
        text += QStringLiteral("A-B,%1,%2|%3,%4\n")
                    .arg(QString::number(t), pair.a < 0 ? QString() : QString::number(pair.a),
                         pair.b < 0 ? QString() : QString::number(pair.b), csvNumber(x.value_or(0) - y.value_or(0)));
      }
  }
  for (const bool b : {false, true}) {
    const analysis::KeyCurve& curve = (b ? model_->b() : model_->a()).key;
    for (size_t i = 0; i < curve.left.size(); ++i)
      text += QStringLiteral("key left %1,%2,,%3\n")
                  .arg(b ? QStringLiteral("B") : QStringLiteral("A"))
                  .arg(curve.first + int64_t(i))
                  .arg(csvNumber(curve.left[i]));
  }
  return text;
}

}  // namespace slotscope::views
