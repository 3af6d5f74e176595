// How the timeline looks: track, window, playhead, the text around it, buttons.
#include <QFontMetricsF>
#include <QPainter>
#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "views/format.h"
#include "views/heatmap_paint.h"
#include "views/timeline_view.h"
#include "views/token_cells.h"

namespace slotscope::views {

namespace {

constexpr double kTextTokens = 38;

QRectF track_of(const QRectF& area, double k) {
  return {area.left() + HeatmapGeometry::kLeft * k, area.top() + 5,
          std::max(1.0, area.width() - (HeatmapGeometry::kLeft + HeatmapGeometry::kRight) * k), 30};
}

bool is_retrieval(const trace::RunInfo& run, qint64 t) {
  return size_t(t) < run.roles.size() && run.roles[size_t(t)] == 1;
}

}  // namespace

QRectF TimelineView::track() const { return track_of(rect(), Theme::current().base / 12); }

double TimelineView::x(double token) const {
  const QRectF r = track();
  return r.left() + token / double(std::max<qint64>(1, tokens())) * r.width();
}

qint64 TimelineView::tokenAt(double at) const {
  const QRectF r = track();
  return std::clamp<qint64>(qint64(std::floor((at - r.left()) / r.width() * double(tokens()))), 0,
                            std::max<qint64>(0, tokens() - 1));
}

QRectF TimelineView::buttonRect(Button button, const QRectF& area) const {
  const double k = Theme::current().base / 12;
  switch (button) {
    case Button::Back:
      return {area.left() + 6 * k, area.top() + 14, 22 * k, 20};
    case Button::Play:
      return {area.left() + 31 * k, area.top() + 14, 22 * k, 20};
    case Button::Forward:
      return {area.left() + 56 * k, area.top() + 14, 22 * k, 20};
    case Button::Speed:
      return {area.left() + 18 * k, area.top() + 34, 56 * k, 14};
    case Button::None:
      break;
  }
  return {};
}

void TimelineView::paintButtons(QPainter& p, const QRectF& area, const Theme& theme) const {
  p.save();
  p.setRenderHint(QPainter::Antialiasing, true);
  if (hover_button_ != Button::None) {
    p.setPen(Qt::NoPen);
    p.setBrush(theme.hoverFill);
    p.drawRoundedRect(buttonRect(hover_button_, area), 3, 3);
  }
  const QPen stroke(theme.text2, 1.5, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin);
  const auto step = [&](Button button, double direction) {
    const QPointF m = buttonRect(button, area).center();
    p.setPen(stroke);
    p.setBrush(Qt::NoBrush);
    p.drawLine(QPointF(m.x() + 4.5 * direction, m.y() - 5), QPointF(m.x() + 4.5 * direction, m.y() + 5));
    const QPointF corners[3] = {{m.x() - 3.5 * direction, m.y() - 4.5},
                                {m.x() + 2.5 * direction, m.y()},
                                {m.x() - 3.5 * direction, m.y() + 4.5}};
    p.drawPolygon(corners, 3);
  };
  step(Button::Back, -1);
  step(Button::Forward, 1);
  const QPointF m = buttonRect(Button::Play, area).center();
  p.setPen(stroke);
  p.setBrush(theme.text2);
  if (playing()) {
    p.setPen(Qt::NoPen);
    p.drawRoundedRect(QRectF(m.x() - 4.5, m.y() - 5, 3, 10), 1, 1);
    p.drawRoundedRect(QRectF(m.x() + 1.5, m.y() - 5, 3, 10), 1, 1);
  } else {
    const QPointF corners[3] = {{m.x() - 3.5, m.y() - 5}, {m.x() + 5, m.y()}, {m.x() - 3.5, m.y() + 5}};
    p.drawPolygon(corners, 3);
  }
  p.setPen(theme.text3);
  p.setFont(theme.micro());
  p.drawText(buttonRect(Button::Speed, area), Qt::AlignCenter,
             QString::number(speed_) + QStringLiteral(" tok/s"));
  p.restore();
}

void TimelineView::paintTrack(QPainter& p, const QRectF& area, const Theme& theme, bool marks) {
  const QRectF r = track_of(area, theme.base / 12);
  const qint64 n = tokens();
  const auto at = [&](double token) { return r.left() + token / double(std::max<qint64>(1, n)) * r.width(); };
  p.setRenderHint(QPainter::Antialiasing, false);
  const auto [first, last] = selection_->tokenRange();
  const QRectF frame(QPointF(at(double(first)), r.top()), QPointF(at(double(last)), r.bottom()));
  if (marks && n > 0) {
    p.setPen(Qt::NoPen);
    p.setBrush(mix(theme.text2, theme.surface, theme.dark ? 0.18 : 0.09));
    p.setRenderHint(QPainter::Antialiasing, true);
    p.drawRoundedRect(frame, 3, 3);
    p.setRenderHint(QPainter::Antialiasing, false);
  }
  p.fillRect(QRectF(r.left(), r.bottom() - 2, r.width(), 1), theme.lineStrong);
  // Largest value per pixel: for other tokens and for retrieval tokens apart, so that neither hides behind
  // the other.
  const int columns = std::max(1, int(r.width()));
  if (column_width_ != columns) {
    column_width_ = columns;
    column_max_.assign(size_t(columns), 0);
    column_retrieval_.assign(size_t(columns), 0);
    for (qint64 t = 0; t < qint64(values_.size()); ++t) {
      const double v = values_[size_t(t)];
      if (!(v > 0)) continue;
      const int from = int(double(t) * columns / double(n)),
                to = std::max(from + 1, int(double(t + 1) * columns / double(n)));
      auto& where = run_ && is_retrieval(run_->info(), t) ? column_retrieval_ : column_max_;
      for (int c = from; c < std::min(to, columns); ++c)
        where[size_t(c)] = std::max(where[size_t(c)], float(v));
    }
  }
  const double height = r.height() - 4, base = r.bottom() - 2;
  for (const auto* column : {&column_max_, &column_retrieval_})
    for (int c = 0; c < columns && largest_ > 0; ++c) {
      const double h = std::min(height, std::round(double((*column)[size_t(c)]) / largest_ * height));
      if (h >= 1)
        p.fillRect(QRectF(r.left() + c, base - h, 1, h),
                   column == &column_max_ ? theme.timelineOther : theme.retrieval);
    }
  if (marks && n > 0) {
    if (const auto brush = selection_->brush()) {
      QColor wash = theme.selection;
      wash.setAlphaF(0.12f);
      const double x0 = std::round(at(double(brush->first))),
                   x1 = std::max(x0 + 1, std::round(at(double(brush->second))));
      p.fillRect(QRectF(x0, r.top(), x1 - x0, r.height()), wash);
      p.fillRect(QRectF(x0, r.top(), 1, r.height()), theme.selection);
      p.fillRect(QRectF(x1 - 1, r.top(), 1, r.height()), theme.selection);
    }
    p.setRenderHint(QPainter::Antialiasing, true);
    p.setBrush(Qt::NoBrush);
    p.setPen(QPen(theme.text2, 1.5));
    p.drawRoundedRect(frame.adjusted(0.25, 0.25, -0.25, -0.25), 3, 3);
    if (selection_->hoverToken() >= 0) {
      p.fillRect(QRectF(std::floor(at(selection_->hoverToken() + 0.5)), r.top() + 2, 1, r.height() - 4),
                 theme.hover);
    }
    const double x = std::floor(at(selection_->current().token + 0.5));
    p.fillRect(QRectF(x - 1, r.top() - 2, 2, r.height() + 3), theme.selection);
    p.setPen(Qt::NoPen);
    p.setBrush(theme.selection);
    p.drawEllipse(QPointF(x, r.top() - 1), 3.5, 3.5);
  }
  p.setFont(theme.label());
  p.setPen(theme.text2);
  const QFontMetricsF m(p.font());
  const double left = r.right() + 6, room = area.right() - left;
  const bool writes = quantity_ == Quantity::writes;
  p.drawText(QRectF(left, r.top() + 1, room, 14), Qt::AlignLeft | Qt::AlignVCenter,
             writes ? QStringLiteral("writes Σs") : QStringLiteral("surprisal"));
  p.setPen(theme.text3);
  if (largest_ > 0)
    p.drawText(QRectF(left, r.top() + 14, room, 14), Qt::AlignLeft | Qt::AlignVCenter,
               m.elidedText(QStringLiteral("max ") + strength(largest_, 2) +
                                (writes ? QString() : QStringLiteral(" nats")),
                            Qt::ElideRight, room));
}

void TimelineView::paintText(QPainter& p, const QRectF& area, const Theme& theme) const {
  if (!run_ || tokens() == 0) return;
  const auto& run = run_->info();
  const QRectF r = track_of(area, theme.base / 12);
  const qint64 token = selection_->current().token;
  QFont font = theme.fixed, bold = theme.fixed;
  font.setPixelSize(theme.label().pixelSize());
  bold.setPixelSize(font.pixelSize());
  bold.setBold(true);
  const QFontMetricsF m(font);
  const double cell = m.horizontalAdvance(QLatin1Char('x')), limit = cell * (kTextTokens / 2) * 1.6;
  const double middle =
      std::floor(r.left() + (double(token) + 0.5) / double(std::max<qint64>(1, tokens())) * r.width());
  struct Piece {
    QString text;
    double width;
    qint64 token;  // the first of them
    int count;     // tokens; more than one for a character that is split over them
  };
  std::vector<Piece> before, after;
  double left_width = 0, right_width = 0;
  const auto piece = [&](qint64 t) {
    const auto [begin, count] = joinedTokens(run, t);
    // Without text the ids would only be noise here.
    QString text = run.bytes.empty() ? QString() : m.elidedText(tokenName(run, t), Qt::ElideRight, limit);
    const bool selected = token >= begin && token < begin + count;
    return Piece{text, QFontMetricsF(selected ? bold : font).horizontalAdvance(text), begin, count};
  };
  const Piece own = piece(token);
  for (qint64 t = own.token - 1; t >= 0 && token - t <= kTextTokens / 2; t = before.back().token - 1) {
    before.push_back(piece(t));
    if (left_width + before.back().width > limit) break;
    left_width += before.back().width;
  }
  for (qint64 t = own.token + own.count; t < tokens() && t - token < kTextTokens / 2;
       t = after.back().token + after.back().count) {
    after.push_back(piece(t));
    if (right_width + after.back().width > limit) break;
    right_width += after.back().width;
  }
  // The playhead's token stands under the playhead, unless the text would leave the track.
  double x = middle - own.width / 2 - left_width;
  x = std::clamp(x, r.left(), std::max(r.left(), r.right() - (left_width + own.width + right_width)));
  const double baseline = r.bottom() + 2 + m.ascent();
  const auto draw = [&](const Piece& piece) {
    const bool selected = piece.token == own.token;
    p.setFont(selected ? bold : font);
    p.setPen(selected ? theme.selection : is_retrieval(run, piece.token) ? theme.retrieval : theme.text2);
    p.drawText(QPointF(x, baseline), piece.text);
    x += piece.width;
  };
  p.save();
  p.setClipRect(QRectF(r.left() - 2, r.bottom(), r.width() + 4, area.bottom() - r.bottom()),
                Qt::IntersectClip);
  double used = 0;
  for (auto i = before.rbegin(); i != before.rend(); ++i) used += i->width;
  if (used > left_width && !before.empty()) before.pop_back();
  for (auto i = before.rbegin(); i != before.rend(); ++i) draw(*i);
  draw(own);
  double drawn = 0;
  for (const Piece& i : after) {
    if (drawn + i.width > right_width + 0.5) break;
    drawn += i.width;
    draw(i);
  }
  p.restore();
}

void TimelineView::paintFigure(QPainter& p, const QRectF& area, const Theme& theme,
                               const FigureOptions& options) {
  p.save();
  p.setClipRect(area, Qt::IntersectClip);
  p.fillRect(area, theme.surface);
  column_width_ = -1;
  if (run_) {
    paintTrack(p, area, theme, options.selection);
    if (options.selection) paintText(p, area, theme);
  }
  column_width_ = -1;
  p.restore();
}

void TimelineView::paintEvent(QPaintEvent*) {
  QPainter p(this);
  const Theme& theme = Theme::current();
  p.fillRect(rect(), theme.surface);
  paintButtons(p, rect(), theme);
  if (run_) {
    paintTrack(p, rect(), theme, true);
    paintText(p, rect(), theme);
  }
  if (focus_ring_) {
    p.setRenderHint(QPainter::Antialiasing, true);
    p.setBrush(Qt::NoBrush);
    p.setPen(QPen(theme.selection, 2));
    p.drawRoundedRect(QRectF(rect()).adjusted(2, 2, -2, -2), 3, 3);
  }
}

}  // namespace slotscope::views
