// How the elements of one tensor are distributed: a histogram with its statistics beside it. Knows nothing of
// files: it draws what it is given.
#pragma once

#include "views/caption.h"
#include "views/painted_view.h"

class QComboBox;
class QToolButton;

namespace slotscope::views {

struct TensorHistogram {
  QString checkpoint, tensor, dtype, shape;  // "raven-passkey", "model.embed.weight", "BF16", "260 × 256"
  quint64 elements = 0, finite = 0, nan = 0, positive_infinity = 0, negative_infinity = 0, zeros = 0;
  // Of the finite elements; the texts are exact ("9007199254740993"), the numbers are where they are drawn.
  QString minimum_text, maximum_text;
  double minimum = 0, maximum = 0, mean = 0, deviation = 0, l2 = 0;
  QVector<std::pair<double, double>> quantiles;  // share, value
  // counts[i] elements lie in [edges[i], edges[i + 1]); the last bin includes its upper edge. Bins are as
  // wide as each other in x, or in sign(x) log(1 + |x| / unit).
  QVector<double> edges;
  QVector<quint64> counts;
  bool symmetric_log = false;
  double unit = 0;
  bool whole = false;  // one bin per whole number, edges at the halves
};

// Four significant digits as the program writes numbers: "−0.01234", "1.2e−7", "0"; NaN "–".
QString valueText(double value, int digits = 4);

class TensorHistogramView : public PaintedView {
  Q_OBJECT
 public:
  explicit TensorHistogramView(QWidget* parent = nullptr);

  // Replaces what is drawn; an empty histogram (no counts) with no finite element says so.
  void setHistogram(TensorHistogram histogram);
  // Nothing to draw, and why.
  void clear(const QString& why);
  const TensorHistogram& histogram() const { return data_; }
  void setLogCounts(bool on);
  bool logCounts() const { return log_counts_; }

  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override { return {640, 320}; }
  QString csv() const override;
  QString figureKind() const override { return QStringLiteral("tensor"); }

  // Where the bars are drawn, and the bar under x (-1: none).
  QRectF plotRect(const QRectF& area, const Theme& theme) const;
  QRectF bar(const QRectF& plot, int bin, double pixel = 1) const;
  int binAt(const QRectF& plot, double x) const;
  // Pixel position of a value on the x axis.
  double xOf(const QRectF& plot, double value) const;
  // Values at which the x axis has ticks, at least `gap` pixels apart.
  QVector<double> ticks(const QRectF& plot, double gap) const;
  QVector<std::pair<QString, QString>> statisticsRows() const;

 Q_SIGNALS:
  // Another spacing of the bins: they have to be counted again.
  void scaleRequested(bool symmetric_log);

 protected:
  bool needsHead() const override { return false; }
  QString emptyText() const override;
  void paintContent(QPainter&, const QSizeF&, const Theme&) override;
  double contentHeight(double width) const override;
  QString tipAt(const QPointF&) const override;
  QString accessibleText() const override;
  void contentChanged() override;
  bool event(QEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void leaveEvent(QEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void contextMenuEvent(QContextMenuEvent*) override;

 private:
  QRectF shownPlot() const;
  QVector<LegendItem> legend(const Theme&) const;
  QString notFinite() const;
  void paintAll(QPainter&, const QRectF&, const Theme&, bool marks) const;
  void paintAxes(QPainter&, const QRectF& plot, const Theme&) const;
  void paintBars(QPainter&, const QRectF& plot, const Theme&, bool marks) const;
  void paintRows(QPainter&, const QRectF& area, const Theme&) const;
  double yOf(const QRectF& plot, quint64 count) const;
  quint64 highest() const;
  QString binText(int bin) const;
  void choose(int bin);
  Facts facts() const;

  TensorHistogram data_;
  QString why_;
  bool log_counts_ = false;
  int hover_ = -1, chosen_ = -1;
  LegendWidget* legend_ = nullptr;
  QComboBox* scale_ = nullptr;
  QToolButton* log_ = nullptr;
};

}  // namespace slotscope::views
