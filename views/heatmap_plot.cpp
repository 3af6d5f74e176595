#include "views/heatmap_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "views/qcp.h"

namespace slotscope::views {

namespace {

// A layer's painter: QCustomPlot asks, the shared paint functions draw.
class PaintedLayer : public QCPLayerable {
 public:
  using Paint = std::function<void(QPainter&)>;
  PaintedLayer(QCustomPlot* plot, const QString& layer, Paint paint)
      : QCPLayerable(plot, layer), paint_(std::move(paint)) {}

 protected:
  void applyDefaultAntialiasingHint(QCPPainter* painter) const override { painter->setAntialiasing(false); }
  void draw(QCPPainter* painter) override { paint_(*painter); }
  QRect clipRect() const override { return mParentPlot->viewport(); }

 private:
  Paint paint_;
};

}  // namespace

struct HeatmapPlot::Impl {
  QCustomPlot* plot = nullptr;
  QCPColorMap* map = nullptr;
  SceneSource source;
  QVector<QRgb> colours;
  bool pending = true;  // a full replot is queued or has never been done

  void draw(QPainter& painter, void (*paint)(QPainter&, const HeatmapScene&)) const {
    if (!source) return;
    if (const auto scene = source()) paint(painter, *scene);
  }
  // Axes follow the scene just before drawing, so that cells and everything around them agree.
  void follow() {
    const auto scene = source ? source() : std::nullopt;
    map->setVisible(scene && scene->grid && scene->grid->columns > 0 && scene->blend.isNull());
    if (!scene) return;
    const auto& g = scene->geometry;
    const double rows = double(scene->rows->slot.size());
    plot->axisRect()->setMargins(
        QMargins(int(g.plot.left() - g.area.left()), int(g.plot.top() - g.area.top()),
                 int(g.area.right() - g.plot.right()), int(g.area.bottom() - g.plot.bottom())));
    plot->xAxis->setRange(double(g.first), double(g.last));
    plot->yAxis->setRange(rows - double(g.row_last), rows - double(g.row_first));
  }
};

HeatmapPlot::HeatmapPlot(QWidget* parent) : QWidget(parent), impl_(std::make_unique<Impl>()) {
  auto* plot = impl_->plot = new QCustomPlot(this);
  plot->setAttribute(Qt::WA_TransparentForMouseEvents);  // the view handles the mouse for all of its parts
  plot->setFocusPolicy(Qt::NoFocus);
  plot->setNoAntialiasingOnDrag(true);
  plot->setInteractions(QCP::iNone);
  plot->plotLayout()->setMargins(QMargins(0, 0, 0, 0));
  plot->axisRect()->setAutoMargins(QCP::msNone);
  plot->axisRect()->setMinimumMargins(QMargins(0, 0, 0, 0));
  plot->axisRect()->setupFullAxesBox();
  for (QCPAxis* axis : plot->axisRect()->axes()) axis->setVisible(false), axis->grid()->setVisible(false);

  auto* map = impl_->map = new QCPColorMap(plot->xAxis, plot->yAxis);
  map->setInterpolate(false);    // slots are discrete
  map->setTightBoundary(false);  // edge cells are whole
  map->setAntialiased(false);
  map->setDataRange(QCPRange(0, 1));

  for (const char* name : {"selection", "hover"}) {  // over the topmost layer, "overlay", that every plot has
    plot->addLayer(QLatin1String(name), plot->layer(plot->layerCount() - 1), QCustomPlot::limAbove);
    plot->layer(QLatin1String(name))->setMode(QCPLayer::lmBuffered);
  }
  new PaintedLayer(plot, QStringLiteral("overlay"), [this](QPainter& p) {
    impl_->draw(p, paintBlend);
    impl_->draw(p, paintSpecialCells);
    impl_->draw(p, paintOverlay);
  });
  new PaintedLayer(plot, QStringLiteral("selection"),
                   [this](QPainter& p) { impl_->draw(p, paintSelection); });
  new PaintedLayer(plot, QStringLiteral("hover"), [this](QPainter& p) { impl_->draw(p, paintHover); });
  connect(plot, &QCustomPlot::beforeReplot, this, [this] { impl_->follow(); });
  connect(plot, &QCustomPlot::afterReplot, this, [this] { impl_->pending = false; });
  applyTheme(Theme::current());
}

HeatmapPlot::~HeatmapPlot() = default;

void HeatmapPlot::setScene(SceneSource source) { impl_->source = std::move(source); }

void HeatmapPlot::applyTheme(const Theme& theme) {
  impl_->plot->setBackground(QBrush(theme.surface));
  impl_->plot->axisRect()->setBackground(QBrush(theme.plot));
}

void HeatmapPlot::setGrid(const HeatmapScene& scene) {
  const SlotGrid* grid = scene.grid;
  if (!grid || grid->columns <= 0 || grid->rows <= 0) return clearGrid();
  if (scene.colours != impl_->colours) {
    QCPColorGradient gradient;
    gradient.setLevelCount(256);
    gradient.clearColorStops();
    QMap<double, QColor> stops;
    for (int i = 0; i < 256; ++i) stops.insert(i / 255.0, QColor(scene.colours[i]));
    gradient.setColorStops(stops);
    gradient.setColorInterpolation(QCPColorGradient::ciRGB);
    gradient.setNanHandling(QCPColorGradient::nhTransparent);
    impl_->map->setGradient(gradient);
    impl_->colours = scene.colours;
  }
  const double rows = double(scene.rows->slot.size());
  // QCPColorMap cannot draw one single column or row: it is given twice, at half the width.
  const int twice_c = grid->columns == 1 ? 2 : 1, twice_r = grid->rows == 1 ? 2 : 1;
  const int columns = grid->columns * twice_c, lines = grid->rows * twice_r;
  const double w = grid->tokens_per_column / twice_c, h = grid->slots_per_row / twice_r;
  const double top = rows - double(scene.grid_row);
  auto* data = new QCPColorMapData(
      columns, lines, QCPRange(double(grid->first) + w / 2, double(grid->first) + (columns - 0.5) * w),
      QCPRange(top - (lines - 0.5) * h, top - h / 2));
  // The map gets places on the colour scale, not values: logarithms are taken here and infinite or huge
  // values cannot overflow inside. A place in the middle of level k gives exactly colour k.
  const auto level = [](double place) { return place >= 1 ? 1.0 : (std::lround(place * 255) + 0.5) / 255; };
  data->fill(std::numeric_limits<double>::quiet_NaN());
  for (int r = 0; r < lines; ++r)
    for (int c = 0; c < columns; ++c) {
      const size_t at = size_t(r / twice_r) * size_t(grid->columns) + size_t(c / twice_c);
      double v;
      switch (grid->state[at]) {
        case analysis::Cell::finite:
          if (!scene.scale.valid) continue;
          v = level(scene.scale.place(double(grid->value[at])));
          break;
        case analysis::Cell::pos_inf:
          v = scene.scale.downwards ? level(0) : 1;
          break;
        case analysis::Cell::neg_inf:
          v = scene.scale.downwards ? 1 : level(0);
          break;
        default:
          continue;
      }
      data->setCell(c, lines - 1 - r, v);  // row 0 on top: rows are written flipped
    }
  impl_->map->setData(data, false);
}

void HeatmapPlot::clearGrid() { impl_->map->data()->clear(); }

void HeatmapPlot::refresh() {
  impl_->pending = true;
  impl_->plot->replot(QCustomPlot::rpQueuedReplot);
}

void HeatmapPlot::replotNow() { impl_->plot->replot(QCustomPlot::rpImmediateRefresh); }

// A queued replot draws every layer anyway; asking for one layer before it would replot everything at once.
void HeatmapPlot::refreshSelection() {
  if (!impl_->pending) impl_->plot->layer(QStringLiteral("selection"))->replot();
}

void HeatmapPlot::refreshHover() {
  if (!impl_->pending) impl_->plot->layer(QStringLiteral("hover"))->replot();
}

void HeatmapPlot::resizeEvent(QResizeEvent*) {
  impl_->plot->setGeometry(rect());
  refresh();
}

}  // namespace slotscope::views
