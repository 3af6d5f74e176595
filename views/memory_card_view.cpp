#include "views/memory_card_view.h"

#include <QPainter>
#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "views/caption.h"
#include "views/format.h"
#include "views/math_text.h"

namespace slotscope::views {

namespace {

constexpr double kMargin = 16, kPad = 8;

bool grows(const MemoryCardRow& row) { return row.route_kind == QLatin1String("append"); }

// Slots that one token writes.
qint64 writes(const MemoryCardRow& row) {
  if (row.route_kind == QLatin1String("dense")) return row.slots;
  if (row.route_kind == QLatin1String("sparse")) return row.top_k;
  return 1;
}

QString slotsText(const MemoryCardRow& row) {
  if (grows(row)) return QStringLiteral("one more per token");
  return row.route_heads == 1 ? count(row.slots) : QStringLiteral("%1 × %2").arg(count(row.route_heads), count(row.slots));
}

// Columns of widths in the ratio of `shares`.
std::vector<QRectF> columns(double left, double width, std::initializer_list<double> shares) {
  double sum = 0;
  for (const double s : shares) sum += s;
  std::vector<QRectF> out;
  for (const double s : shares) {
    out.push_back(QRectF(left, 0, width * s / sum, 0));
    left += width * s / sum;
  }
  return out;
}

void textAt(QPainter* painter, const QRectF& box, const QFont& font, const QColor& colour, const QString& text,
            int flags = Qt::AlignLeft | Qt::AlignVCenter) {
  if (!painter) return;
  painter->setFont(font);
  painter->setPen(colour);
  painter->drawText(box, flags, QFontMetricsF(font).elidedText(text, Qt::ElideRight, box.width()));
}

void rule(QPainter* painter, double left, double y, double width, const QColor& colour) {
  if (painter) painter->fillRect(QRectF(left, std::round(y), width, 1), colour);
}

}  // namespace

MemoryCardView::MemoryCardView(QWidget* parent) : PaintedView(nullptr, parent) {
  why_ = QStringLiteral("No checkpoint is open.");
  refreshAccessibility();
}

void MemoryCardView::setCard(const MemoryCardData& card, const QString& why) {
  card_ = card;
  why_ = why;
  contentChanged();
}

QString MemoryCardView::emptyText() const {
  if (!card_.rows.empty()) return {};
  return why_.isEmpty() ? QStringLiteral("No checkpoint is open.") : why_;
}

QString MemoryCardView::stateText() const {
  qint64 fixed = 0, token = 0;
  for (const MemoryCardRow& row : card_.rows) (grows(row) ? token : fixed) += row.state_bytes * row.layer_count;
  if (token == 0) return QStringLiteral("%1 for one prompt, however long").arg(bytes(fixed));
  if (fixed == 0) return QStringLiteral("%1 for each token: %2 after 131 072").arg(bytes(token), bytes(token * 131072));
  return QStringLiteral("%1 for one prompt and %2 for each token: %3 after 131 072")
      .arg(bytes(fixed), bytes(token), bytes(fixed + token * 131072));
}

QString MemoryCardView::accessibleText() const {
  if (card_.rows.empty()) return QStringLiteral("Routing-slot card, ") + emptyText();
  QString text = QStringLiteral("Routing-slot card of %1, %2").arg(card_.model, card_.facts);
  for (const MemoryCardRow& row : card_.rows)
    text += QStringLiteral(". Layers %1, %2: router %3, content %4, decay %5, readout %6")
                .arg(row.layers, row.mixer, row.router.words, row.content.words, row.decay.words, row.readout.words);
  return text + QStringLiteral(". State: ") + stateText();
}

double MemoryCardView::paintTable(QPainter* painter, double top, double width, const Theme& theme) const {
  const double s = theme.base / 12, line = 20 * s;
  const auto column = columns(kMargin * s, width - 2 * kMargin * s, {1.1, 2.4, 1.7, 2.4, 2.2});
  const char* const heads[] = {"Layers", "Router", "Content", "Decay", "Readout"};
  for (int c = 0; c < 5; ++c)
    textAt(painter, QRectF(column[size_t(c)].left(), top, column[size_t(c)].width() - kPad, line), theme.labelSemibold(),
           theme.text2, QString::fromLatin1(heads[c]));
  double y = top + line + 2 * s;
  rule(painter, column[0].left(), y, width - 2 * kMargin * s, theme.lineStrong);
  for (const MemoryCardRow& row : card_.rows) {
    y += 7 * s;
    textAt(painter, QRectF(column[0].left(), y, column[0].width() - kPad, line), theme.semibold(), theme.text, row.mixer);
    textAt(painter, QRectF(column[0].left(), y + line, column[0].width() - kPad, line), theme.label(), theme.text2, row.layers);
    double height = 2 * line;
    const MemoryCardRow::Cell* const cells[] = {&row.router, &row.content, &row.decay, &row.readout};
    for (int c = 0; c < 4; ++c) {
      const double left = column[size_t(c + 1)].left(), room = column[size_t(c + 1)].width() - kPad * s;
      double h = 0;
      if (!cells[c]->formula.isEmpty()) {
        QFont font = theme.ui;
        font.setPixelSize(int(std::round(theme.base * 1.15)));
        h = paintRichText(painter, QRectF(left, y, room, 0), mathHtml(cells[c]->formula), font, theme.text) + 3 * s;
      }
      if (!cells[c]->words.isEmpty())
        h += paintRichText(painter, QRectF(left, y + h, room, 0), cells[c]->words.toHtmlEscaped(), theme.label(),
                           cells[c]->formula.isEmpty() ? theme.text : theme.text2);
      height = std::max(height, h);
    }
    y += height + 7 * s;
    rule(painter, column[0].left(), y, width - 2 * kMargin * s, theme.line);
  }
  return y - top;
}

double MemoryCardView::paintSizes(QPainter* painter, double top, double width, const Theme& theme) const {
  const double s = theme.base / 12, line = 20 * s;
  const auto column = columns(kMargin * s, width - 2 * kMargin * s, {0.9, 0.9, 1.7, 1.8, 1.1, 1.5, 1.3});
  const char* const heads[] = {"Layers", "Route", "Slots, heads × M", "Written per token", "Width k, v", "State per layer",
                               "In all"};
  for (size_t c = 0; c < column.size(); ++c)
    textAt(painter, QRectF(column[c].left(), top, column[c].width() - kPad, line), theme.labelSemibold(), theme.text2,
           QString::fromUtf8(heads[c]));
  double y = top + line + 2 * s;
  rule(painter, column[0].left(), y, width - 2 * kMargin * s, theme.lineStrong);
  y += 3 * s;
  for (const MemoryCardRow& row : card_.rows) {
    const QString per = grows(row) ? QStringLiteral(" per token") : QString();
    const QString cells[] = {row.layers,
                             row.route_kind,
                             slotsText(row),
                             grows(row) ? QStringLiteral("1, none lost")
                                        : QStringLiteral("%1 of %2").arg(count(writes(row)), count(row.slots)),
                             QStringLiteral("%1, %2").arg(count(row.d_k), count(row.d_v)),
                             bytes(row.state_bytes) + per,
                             bytes(row.state_bytes * row.layer_count) + per};
    for (size_t c = 0; c < column.size(); ++c)
      textAt(painter, QRectF(column[c].left(), y, column[c].width() - kPad, line), theme.ui, theme.text, cells[c]);
    y += line;
  }
  rule(painter, column[0].left(), y + 3 * s, width - 2 * kMargin * s, theme.line);
  y += 6 * s;
  textAt(painter, QRectF(column[0].left(), y, width - 2 * kMargin * s, line), theme.semibold(), theme.text,
         QStringLiteral("Memory: ") + stateText());
  textAt(painter, QRectF(column[0].left(), y + line, width - 2 * kMargin * s, line), theme.label(), theme.text3,
         QStringLiteral("float32, keys and values of the slots or the matrix state; tails of convolutions apart"));
  return y + 2 * line - top;
}

// One axis from FIFO (a token writes 1 slot) to dense (all M): log(written) / log(M), so that each halving is one step.
double MemoryCardView::paintAxis(QPainter* painter, double top, double width, const Theme& theme) const {
  const double s = theme.base / 12, line = 18 * s;
  const double left = kMargin * s + 90 * s, right = width - kMargin * s - 90 * s, y = std::round(top + line + 24 * s);
  double lowest = y + line;
  textAt(painter, QRectF(kMargin * s, top, width - 2 * kMargin * s, line), theme.labelSemibold(), theme.text2,
         QStringLiteral("Between FIFO and dense: slots written per token"));
  if (painter) {
    painter->fillRect(QRectF(left, y, right - left, 1), theme.lineStrong);
    for (const double end : {left, right - 1}) painter->fillRect(QRectF(end, y - 3, 1, 7), theme.lineStrong);
    textAt(painter, QRectF(left - 90 * s, y - 10 * s, 82 * s, 20 * s), theme.ui, theme.text, QStringLiteral("FIFO"),
           Qt::AlignRight | Qt::AlignVCenter);
    textAt(painter, QRectF(right + 8 * s, y - 10 * s, 82 * s, 20 * s), theme.ui, theme.text, QStringLiteral("dense"));
    textAt(painter, QRectF(left - 40 * s, y + 6 * s, 80 * s, line), theme.label(), theme.text3,
           QStringLiteral("1 slot"), Qt::AlignHCenter | Qt::AlignVCenter);
    textAt(painter, QRectF(right - 40 * s, y + 6 * s, 80 * s, line), theme.label(), theme.text3,
           QStringLiteral("all slots"), Qt::AlignHCenter | Qt::AlignVCenter);
  }
  double note = y + 8 * s + line;
  for (const MemoryCardRow& row : card_.rows) {
    if (grows(row)) {
      textAt(painter, QRectF(left, note, right - left, line), theme.label(), theme.text2,
             QStringLiteral("%1 (layers %2) is beyond FIFO: its memory grows and nothing is overwritten").arg(row.mixer, row.layers));
      note += line;
      lowest = std::max(lowest, note);
      continue;
    }
    if (!painter || row.slots <= 0) continue;
    const double place =
        row.slots > 1 ? std::log(double(std::clamp<qint64>(writes(row), 1, row.slots))) / std::log(double(row.slots)) : 1;
    const QPointF at(std::round(left + (right - left) * place) + 0.5, y + 0.5);
    painter->setRenderHint(QPainter::Antialiasing);
    painter->setPen(QPen(theme.surface, 1.5));
    painter->setBrush(theme.modelA);
    painter->drawEllipse(at, 6 * s, 6 * s);
    painter->setRenderHint(QPainter::Antialiasing, false);
    const QString text = QStringLiteral("%1, %2 of %3").arg(row.mixer, count(writes(row)), count(row.slots));
    const double wide = QFontMetricsF(theme.labelSemibold()).horizontalAdvance(text) + 4;
    textAt(painter, QRectF(std::clamp(at.x() - wide / 2, kMargin * s, std::max(kMargin * s, width - kMargin * s - wide)),
                           y - 28 * s, wide, line),
           theme.labelSemibold(), theme.text, text, Qt::AlignHCenter | Qt::AlignVCenter);
  }
  return std::max(lowest, note) + 6 * s - top;
}

double MemoryCardView::paintCard(QPainter* painter, double width, const Theme& theme) const {
  const double s = theme.base / 12;
  double y = 12 * s;
  textAt(painter, QRectF(kMargin * s, y, width - 2 * kMargin * s, 22 * s), theme.title(), theme.text, card_.model);
  textAt(painter, QRectF(kMargin * s, y + 22 * s, width - 2 * kMargin * s, 20 * s), theme.ui, theme.text2, card_.facts);
  y += 50 * s;
  y += paintTable(painter, y, width, theme) + 18 * s;
  y += paintSizes(painter, y, width, theme) + 18 * s;
  y += paintAxis(painter, y, width, theme);
  return y + 8 * s;
}

void MemoryCardView::paintContent(QPainter& painter, const QSizeF& size, const Theme& theme) {
  painter.fillRect(QRectF(QPointF(0, 0), size), theme.surface);
  paintCard(&painter, size.width(), theme);
}

double MemoryCardView::contentHeight(double width) const {
  return card_.rows.empty() ? 0 : paintCard(nullptr, width, Theme::current());
}

QSizeF MemoryCardView::figureSize() const {
  return {860, card_.rows.empty() ? 200 : std::ceil(paintCard(nullptr, 860, Theme::current()))};
}

void MemoryCardView::paintFigure(QPainter& painter, const QRectF& area, const Theme& theme, const FigureOptions&) {
  if (paintGround(painter, area, theme)) return;
  painter.save();
  painter.translate(area.topLeft());
  paintCard(&painter, area.width(), theme);
  painter.restore();
}

QString MemoryCardView::csv() const {
  Facts facts{{QStringLiteral("model"), card_.model}, {QStringLiteral("figure"), figureKind()},
              {QStringLiteral("state"), stateText()}};
  QString text = factLines(facts) +
                 QStringLiteral("layers,mixer,route_kind,router,content,decay,readout,heads,route_heads,slots,written_per_token,"
                                "d_k,d_v,state_bytes_per_layer,per_token\n");
  const auto cell = [](const MemoryCardRow::Cell& c) {
    const QString formula = mathPlain(c.formula);
    return csvField(formula.isEmpty() ? c.words : c.words.isEmpty() ? formula : formula + QStringLiteral("; ") + c.words);
  };
  for (const MemoryCardRow& r : card_.rows) {
    QStringList fields{csvField(r.layers), csvField(r.mixer), r.route_kind, cell(r.router), cell(r.content), cell(r.decay), cell(r.readout)};
    for (const qint64 n : {r.heads, r.route_heads, r.slots, writes(r), r.d_k, r.d_v, r.state_bytes, qint64(grows(r))})
      fields << QString::number(n);
    text += fields.join(QLatin1Char(',')) + QLatin1Char('\n');
  }
  return text;
}

}  // namespace slotscope::views
