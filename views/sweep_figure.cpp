#include "views/sweep_figure.h"

#include <QPainter>
#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "views/caption.h"
#include "views/format.h"

namespace slotscope::views {

namespace {

// Margins of a line panel at base 12: y labels, title, x labels, direct labels.
constexpr double kLeft = 48, kTop = 30, kBottom = 40, kRight = 104, kPanelHeight = 250, kWidth = 748;
constexpr double kMapCell = 26, kMapTop = 30, kMapBottom = 34, kMapGap = 26, kMapLeft = 40;
constexpr double kLabelGap = 15;

QColor modelColour(const Theme& theme, int model) {
  const QColor colours[] = {theme.modelA, theme.modelB, theme.fit, theme.text3};
  return colours[model % 4];
}
Qt::PenStyle modelPen(int model) {
  static constexpr Qt::PenStyle styles[] = {Qt::SolidLine, Qt::DashLine, Qt::DotLine, Qt::DashDotLine};
  return styles[model / 4 % 4];
}

double xOf(const SweepData& data, const QRectF& plot, int64_t length) {
  const auto& lengths = data.sweep.settings.lengths;
  const double low = std::log2(double(lengths.front())), high = std::log2(double(lengths.back()));
  const double inset = 18;
  if (!(high > low)) return plot.center().x();
  return plot.left() + inset + (std::log2(double(length)) - low) / (high - low) * (plot.width() - 2 * inset);
}

// Labels stand beside their lines' ends, apart from each other and inside of the plot's height.
void spreadLabels(SweepPanel& panel, double gap) {
  QVector<SweepLine*> order;
  for (SweepLine& line : panel.lines) {
    line.label = line.points.isEmpty() ? panel.plot.bottom() : line.points.last().y();
    order << &line;
  }
  std::stable_sort(order.begin(), order.end(), [](const SweepLine* a, const SweepLine* b) { return a->label < b->label; });
  for (int i = 0; i < order.size(); ++i) {
    const double least = i == 0 ? panel.plot.top() : order[i - 1]->label + gap;
    order[i]->label = std::max(order[i]->label, least);
  }
  double most = panel.plot.bottom();
  for (int i = int(order.size()) - 1; i >= 0; --i) {
    order[i]->label = std::min(order[i]->label, most);
    most = order[i]->label - gap;
  }
}

template <class Y, class Low, class High, class Scale>
SweepPanel linePanel(const SweepData& data, const QRectF& plot, const Theme& theme, Y y, Low low, High high, Scale scale) {
  SweepPanel panel{plot, {}};
  const int count = int(data.table.models.size());
  for (int m = 0; m < count; ++m) {
    SweepLine line{QString::fromStdString(data.table.models[size_t(m)].name), modelColour(theme, m), {}, {}, 0};
    for (const auto& cell : data.table.models[size_t(m)].lengths) {
      if (cell.prompts == 0 || std::isnan(y(cell))) continue;
      // Models with the same value stand side by side, not on top of each other.
      const double aside = (m - (count - 1) / 2.0) * std::min(4.0, 14.0 / std::max(1, count));
      line.points << QPointF(xOf(data, plot, cell.length) + aside, scale(y(cell)));
      line.band << std::pair(scale(high(cell)), scale(low(cell)));
    }
    panel.lines << line;
  }
  spreadLabels(panel, kLabelGap * theme.base / 12);
  return panel;
}

void paintMark(QPainter& painter, const QPointF& at, int model, const QColor& colour, const Theme& theme) {
  painter.setPen(QPen(colour, 1.5));
  painter.setBrush(model % 4 < 2 ? QBrush(colour) : QBrush(theme.surface));
  const double r = 3.5;
  if (model % 2 == 0)
    painter.drawEllipse(at, r, r);
  else
    painter.drawRect(QRectF(at.x() - r, at.y() - r, 2 * r, 2 * r));
}

void paintLines(QPainter& painter, const SweepPanel& panel, const Theme& theme) {
  painter.setRenderHint(QPainter::Antialiasing);
  for (int m = 0; m < panel.lines.size(); ++m) {
    const SweepLine& line = panel.lines[m];
    if (line.points.isEmpty()) continue;
    QPolygonF band;
    for (int i = 0; i < line.points.size(); ++i) band << QPointF(line.points[i].x(), line.band[i].first);
    for (int i = int(line.points.size()) - 1; i >= 0; --i) band << QPointF(line.points[i].x(), line.band[i].second);
    QColor wash = line.colour;
    wash.setAlphaF(theme.dark ? 0.22F : 0.13F);
    painter.setPen(Qt::NoPen);
    painter.setBrush(wash);
    painter.drawPolygon(band);
    QColor edge = line.colour;
    edge.setAlphaF(0.7F);
    painter.setPen(QPen(edge, 1));
    for (int i = 0; i < line.points.size(); ++i)
      painter.drawLine(QPointF(line.points[i].x(), line.band[i].first), QPointF(line.points[i].x(), line.band[i].second));
  }
  for (int m = 0; m < panel.lines.size(); ++m) {
    const SweepLine& line = panel.lines[m];
    painter.setPen(QPen(line.colour, 2, modelPen(m)));
    painter.setBrush(Qt::NoBrush);
    painter.drawPolyline(QPolygonF(line.points));
    for (const QPointF& at : line.points) paintMark(painter, at, m, line.colour, theme);
  }
  painter.setRenderHint(QPainter::Antialiasing, false);
}

// Names beside the ends of their lines, cut where there is no room.
void paintLabels(QPainter& painter, const SweepPanel& panel, double width, const Theme& theme) {
  painter.setFont(theme.labelSemibold());
  const QFontMetricsF metrics(painter.font(), painter.device());
  for (int m = 0; m < panel.lines.size(); ++m) {
    const SweepLine& line = panel.lines[m];
    if (line.points.isEmpty()) continue;
    const double x = panel.plot.right() + 8;
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(QPen(line.colour, 1));
    painter.drawLine(QPointF(line.points.last().x() + 5, line.points.last().y()), QPointF(x - 2, line.label));
    painter.setRenderHint(QPainter::Antialiasing, false);
    painter.setPen(line.colour);
    const QRectF box(x, line.label - 10, width - 8, 20);
    painter.drawText(box, int(Qt::AlignLeft | Qt::AlignVCenter), metrics.elidedText(line.name, Qt::ElideRight, box.width()));
  }
}

void paintFrame(QPainter& painter, const SweepData& data, const QRectF& plot, const QString& title, const Theme& theme) {
  const double k = theme.base / 12;
  painter.setPen(theme.text);
  painter.setFont(theme.semibold());
  painter.drawText(QRectF(plot.left() - kLeft * k + 8, plot.top() - kTop * k, plot.width() + kLeft * k, kTop * k - 6),
                   int(Qt::AlignLeft | Qt::AlignVCenter), title);
  painter.setPen(QPen(theme.lineStrong, 1));
  painter.drawLine(plot.bottomLeft(), plot.bottomRight());
  painter.drawLine(plot.topLeft(), plot.bottomLeft());
  painter.setFont(theme.label());
  double last = -1e9;
  for (const int64_t length : data.sweep.settings.lengths) {
    const double x = xOf(data, plot, length);
    painter.setPen(QPen(theme.lineStrong, 1));
    painter.drawLine(QPointF(x, plot.bottom()), QPointF(x, plot.bottom() + 4));
    const QString text = count(length);
    const double width = QFontMetricsF(painter.font(), painter.device()).horizontalAdvance(text);
    if (x - width / 2 < last + 6) continue;
    painter.setPen(theme.text2);
    painter.drawText(QRectF(x - 40, plot.bottom() + 5 * k, 80, 15 * k), int(Qt::AlignHCenter | Qt::AlignTop), text);
    last = x + width / 2;
  }
  painter.setPen(theme.text2);
  painter.drawText(QRectF(plot.left() - 40, plot.bottom() + 20 * k, plot.width() + 80, 16 * k), int(Qt::AlignHCenter | Qt::AlignTop),
                   QStringLiteral("length in tokens"));
}

void paintTick(QPainter& painter, const QRectF& plot, double y, const QString& text, const Theme& theme) {
  const double k = theme.base / 12;
  if (y < plot.bottom() - 0.5) {
    painter.setPen(QPen(theme.line, 1));
    painter.drawLine(QPointF(plot.left() + 1, y), QPointF(plot.right(), y));
  }
  painter.setPen(QPen(theme.lineStrong, 1));
  painter.drawLine(QPointF(plot.left() - 4, y), QPointF(plot.left(), y));
  painter.setPen(theme.text2);
  painter.setFont(theme.label());
  painter.drawText(QRectF(plot.left() - kLeft * k, y - 10, kLeft * k - 8, 20), int(Qt::AlignRight | Qt::AlignVCenter), text);
}

// One cell per length and depth; white text or near-black by the cell's own colour.
void paintMap(QPainter& painter, const SweepData& data, int model, const QRectF& area, const Theme& theme) {
  const double k = theme.base / 12;
  const auto& s = data.sweep.settings;
  const auto& m = data.table.models[size_t(model)];
  const auto colours = colourMap(QStringLiteral("cividis"), theme.dark);
  const int columns = int(s.lengths.size()), rows = int(s.depths.size());
  const QRectF plot(area.left() + kMapLeft * k, area.top() + kMapTop * k, area.width() - kMapLeft * k, area.height() - (kMapTop + kMapBottom) * k);
  painter.setFont(theme.semibold());
  painter.setPen(modelColour(theme, model));
  painter.drawText(QRectF(plot.left(), area.top(), plot.width(), kMapTop * k - 4), int(Qt::AlignLeft | Qt::AlignBottom),
                   QFontMetricsF(painter.font(), painter.device()).elidedText(QString::fromStdString(m.name), Qt::ElideRight, plot.width()));
  painter.setFont(theme.micro());
  for (int c = 0; c < columns; ++c)
    for (int r = 0; r < rows; ++r) {
      const auto& cell = m.grid[size_t(c * rows + r)];
      const double left = std::floor(plot.left() + plot.width() * c / columns), right = std::floor(plot.left() + plot.width() * (c + 1) / columns);
      const double top = std::floor(plot.top() + plot.height() * r / rows), bottom = std::floor(plot.top() + plot.height() * (r + 1) / rows);
      const QRectF box(left, top, right - left, bottom - top);
      if (cell.prompts == 0) continue;
      const QColor fill(colours[std::clamp(int(std::lround(cell.accuracy * 255)), 0, 255)]);
      painter.fillRect(box, fill);
      painter.setPen(contrast(fill, QColor(Qt::white)) > contrast(fill, QColor(0x17, 0x1B, 0x22)) ? QColor(Qt::white) : QColor(0x17, 0x1B, 0x22));
      if (box.width() > 24) painter.drawText(box, Qt::AlignCenter, QString::number(std::lround(cell.accuracy * 100)));
    }
  painter.setPen(QPen(theme.lineStrong, 1));
  painter.setBrush(Qt::NoBrush);
  painter.drawRect(plot);
  painter.setFont(theme.label());
  painter.setPen(theme.text2);
  double last = -1e9;
  for (int c = 0; c < columns; ++c) {
    const double x = plot.left() + plot.width() * (c + 0.5) / columns;
    const QString text = count(s.lengths[size_t(c)]);
    const double width = QFontMetricsF(painter.font(), painter.device()).horizontalAdvance(text);
    if (x - width / 2 < last + 4) continue;
    painter.drawText(QRectF(x - 40, plot.bottom() + 3, 80, 14 * k), int(Qt::AlignHCenter | Qt::AlignTop), text);
    last = x + width / 2;
  }
  painter.drawText(QRectF(plot.left(), plot.bottom() + 16 * k, plot.width(), 16 * k), int(Qt::AlignHCenter | Qt::AlignTop), QStringLiteral("tokens"));
  last = -1e9;
  for (int r = 0; r < rows; ++r) {
    const double y = plot.top() + plot.height() * (r + 0.5) / rows;
    if (y - 7 * k < last) continue;
    painter.drawText(QRectF(plot.left() - kMapLeft * k, y - 10, kMapLeft * k - 6, 20), int(Qt::AlignRight | Qt::AlignVCenter),
                     QString::number(s.depths[size_t(r)], 'g', 3));
    last = y + 7 * k;
  }
}

struct MapGrid {
  int across = 0, down = 0;
  double height = 0;  // of one map
};
MapGrid mapGrid(const SweepData& data) {
  MapGrid g;
  const int models = int(data.table.models.size());
  if (data.sweep.settings.depths.empty() || models == 0) return g;
  g.across = std::min(models, 4);
  g.down = (models + g.across - 1) / g.across;
  g.height = kMapTop + kMapBottom + std::min(kMapCell * double(data.sweep.settings.depths.size()), 260.0);
  return g;
}

QString caption(const SweepData& data) {
  const auto& s = data.sweep.settings;
  QStringList parts{QString::fromStdString(s.task)};
  parts << QStringLiteral("%1 prompts per length%2, the same for every model").arg(s.prompts).arg(s.depths.empty() ? QString() : QStringLiteral(" and depth"));
  parts << (s.length_counts == "total" ? QStringLiteral("lengths count prompt, answer and <eos>") : QStringLiteral("lengths count the prompt"));
  if (s.depths.empty()) parts << QStringLiteral("needle at a uniformly drawn place");
  parts << QStringLiteral("haystack %1, seed %2").arg(QString::fromStdString(s.haystack)).arg(s.seed);
  parts << QStringLiteral("bands: %1 % Clopper-Pearson interval; shortest to longest slot in use (line: mean of all slots, heads and layers)").arg(100 * data.table.confidence, 0, 'g', 3);
  parts << QStringLiteral("%1, %2").arg(QString::fromStdString(s.device).toUpper(), QString::fromStdString(s.dtype));
  for (const auto& note : data.table.notes) parts << QString::fromStdString(note);
  return parts.join(QStringLiteral(" · "));
}

void paintSweep(QPainter& painter, const QRectF& area, const Theme& theme, const FigureOptions& options, const SweepData& data) {
  painter.save();
  painter.fillRect(area, theme.surface);
  QRectF rest = options.caption ? paintCaption(painter, area, caption(data), theme) : area;
  if (data.table.models.empty()) {
    painter.setPen(theme.text2);
    painter.setFont(theme.ui);
    painter.drawText(rest, Qt::AlignCenter, QStringLiteral("no model was run"));
    painter.restore();
    return;
  }
  const double k = theme.base / 12;
  const MapGrid maps = mapGrid(data);
  const double maps_height = std::min(maps.down * (maps.height + 8) * k, rest.height() * 0.6);
  const QRectF lines(rest.left(), rest.top() + 4, rest.width(), rest.height() - maps_height - 4);
  for (int side = 0; side < 2; ++side) {
    const QRectF half(lines.left() + side * lines.width() / 2, lines.top(), lines.width() / 2, lines.height());
    const QRectF plot(std::floor(half.left() + kLeft * k), std::floor(half.top() + kTop * k), std::floor(half.width() - (kLeft + kRight) * k),
                      std::floor(half.height() - (kTop + kBottom) * k));
    if (plot.width() < 40 || plot.height() < 40) continue;
    double least = 0.1;
    const SweepPanel panel = side == 0 ? accuracyPanel(data, plot, theme) : eslPanel(data, plot, theme, &least);
    if (side == 0)
      for (const int percent : {0, 25, 50, 75, 100}) paintTick(painter, plot, plot.bottom() - plot.height() * percent / 100, QString::number(percent), theme);
    else
      for (double v = 1; v > least * 0.99; v /= 10)
        paintTick(painter, plot, plot.bottom() - plot.height() * (1 - std::log10(v) / std::log10(least)), QString::number(v, 'g', 6), theme);
    paintFrame(painter, data, plot, side == 0 ? QStringLiteral("Exact match, %") : QStringLiteral("ESL / tokens"), theme);
    paintLines(painter, panel, theme);
    paintLabels(painter, panel, kRight * k, theme);
  }
  for (int m = 0; m < int(data.table.models.size()) && maps.across > 0; ++m) {
    const double width = (rest.width() - 24 - (maps.across - 1) * kMapGap) / maps.across, height = maps_height / maps.down;
    paintMap(painter, data, m,
             QRectF(std::floor(rest.left() + 8 + (m % maps.across) * (width + kMapGap)), std::floor(rest.bottom() - maps_height + (m / maps.across) * height),
                    std::floor(width), std::floor(height - 8 * k)),
             theme);
  }
  painter.restore();
}

}  // namespace

std::shared_ptr<const SweepData> readSweep(const QString& file, double confidence) {
  auto data = std::make_shared<SweepData>();
  data->file = file;
  data->sweep = trace::read_sweep(file.toStdString());
  const auto& s = data->sweep.settings;
  data->table = analysis::sweep_table(data->sweep, confidence, {.threshold = s.threshold, .tau = s.tau});
  return data;
}

SweepPanel accuracyPanel(const SweepData& data, const QRectF& plot, const Theme& theme) {
  using Cell = analysis::SweepCell;
  return linePanel(data, plot, theme, [](const Cell& c) { return c.accuracy; }, [](const Cell& c) { return c.interval.low; },
                   [](const Cell& c) { return c.interval.high; }, [&](double v) { return plot.bottom() - v * plot.height(); });
}

SweepPanel eslPanel(const SweepData& data, const QRectF& plot, const Theme& theme, double* least) {
  using Cell = analysis::SweepCell;
  double smallest = 0.1;
  for (const auto& model : data.table.models)
    for (const auto& cell : model.lengths)
      for (const double v : {cell.esl_mean, cell.esl_shortest})
        if (v > 0) smallest = std::min(smallest, v);
  const double bottom = std::pow(10, std::floor(std::log10(smallest) + 1e-9));
  if (least) *least = bottom;
  const auto y = [plot, bottom](double v) {
    return plot.bottom() - plot.height() * (1 - std::log10(std::clamp(std::isnan(v) ? 1.0 : v, bottom, 1.0)) / std::log10(bottom));
  };
  return linePanel(data, plot, theme, [](const Cell& c) { return c.esl_mean; }, [](const Cell& c) { return c.esl_shortest; },
                   [](const Cell& c) { return c.esl_longest; }, y);
}

Figure sweepFigure(std::shared_ptr<const SweepData> data) {
  Figure figure;
  const MapGrid maps = mapGrid(*data);
  figure.size = QSizeF(kWidth, kPanelHeight + 56 + maps.down * (maps.height + 8));
  figure.kind = QStringLiteral("sweep");
  QStringList names;
  for (const auto& model : data->table.models) names << QString::fromStdString(model.name);
  figure.title = QStringLiteral("Slotscope sweep · ") + names.join(QStringLiteral(", "));
  figure.csv = QStringLiteral("# figure: sweep\n") + QString::fromStdString(analysis::sweep_csv(data->sweep, data->table));
  figure.facts = parseFacts(figure.csv);
  figure.paint = [data](QPainter& painter, const QRectF& area, const Theme& theme, const FigureOptions& options) {
    paintSweep(painter, area, theme, options, *data);
  };
  return figure;
}

}  // namespace slotscope::views
