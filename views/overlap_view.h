// Address overlap: how the read address of each token meets the write addresses of the tokens before it, beside the weights that
// the memory makes of it and a second model's attention (design: section 12 "Address overlap"; spec: ramnet 1.7, 4).
#pragma once

#include <QTimer>

#include "views/colour_range.h"
#include "views/overlap_paint.h"
#include "views/painted_view.h"

class QComboBox;
class QDoubleSpinBox;
class QPushButton;
class QSpinBox;
class QToolButton;

namespace slotscope::views {

class OverlapView : public PaintedView {
  Q_OBJECT
 public:
  // `worker` null: everything is computed at once (headless figures, tests). Otherwise on a thread of the view's own, because
  // 100,000 tokens take a while.
  OverlapView(SelectionModel* selection, Worker* worker, QWidget* parent = nullptr);
  ~OverlapView() override;

  void setRun(std::shared_ptr<const RunData> run) override;
  void setHead(std::shared_ptr<const analysis::HeadData> head) override;
  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override { return {840, 560}; }
  QString csv() const override;
  QString figureKind() const override { return QStringLiteral("overlap"); }

  // The second trace; null: none. Its layer and query head: the same numbers as here where they exist, unless chosen.
  void setOther(std::shared_ptr<const RunData> other);
  void chooseOther(int layer, int head);
  void setShow(MatrixKind kind);
  void setByRowSum(bool on);
  void setMean(bool on);
  void setDials(const analysis::AddressDials& dials);
  void setOverlapKind(analysis::OverlapKind kind);
  void setColours(const ColourSettings& settings);
  void setWindow(CellRange rows, CellRange columns);
  // Computes the picture at once, at the view's size.
  void drawNow();

  MatrixKind shownKind() const { return show_; }
  CellRange rows() const { return rows_; }
  CellRange columns() const { return columns_; }
  const OverlapPicture* picture() const { return picture_.get(); }
  const ColourScale& colourScale() const { return scale_; }
  MatrixGeometry geometryFor(const QRectF& area, double scale) const;
  // "t 312 “x”   s 299 “y”   O = 0.0123": exact, where that takes no reading of a file.
  QString cellText(int64_t t, int64_t s) const;
  bool busy() const { return waiting_ > 0; }

 Q_SIGNALS:
  void secondTraceRequested();

 protected:
  QString emptyText() const override;
  void paintContent(QPainter&, const QSizeF&, const Theme&) override;
  QString tipAt(const QPointF&) const override;
  QString accessibleText() const override;
  void selectionMoved(int parts) override;
  void hoverMoved() override;
  void changeEvent(QEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  void mouseDoubleClickEvent(QMouseEvent*) override;
  void wheelEvent(QWheelEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void leaveEvent(QEvent*) override;

 private:
  struct Hit {
    bool inside = false;
    int64_t t = -1, s = -1;  // -1: not on that axis
    int side = -1;
  };
  void buildBar();
  void buildColours(QHBoxLayout* bar);
  void updateBar();
  void fitBar();
  void request();
  void post(const OverlapJob& wanted);
  void adopt(std::shared_ptr<const OverlapPicture> picture);
  void recolour();
  OverlapJob job(const QSizeF& size, double pixel_ratio) const;
  int sides() const;
  int64_t tokens() const;
  const analysis::SlotGrid* grid() const;
  MatrixScene scene(const QRectF& area, const Theme& theme, double scale, const QImage& image, const QVector<QImage>& side) const;
  ColourScale scaleOf(const analysis::SlotGrid& samples, MatrixKind kind, bool own) const;
  QVector<QRgb> mapOf(MatrixKind kind, const Theme& theme) const;
  QVector<QImage> sideImages(const Theme& theme) const;
  std::optional<double> exact(MatrixKind kind, int64_t t, int64_t s) const;
  Hit hitAt(const QPointF& content) const;
  void zoom(double factor, std::optional<double> row, std::optional<double> column);
  QString otherText() const;  // "B: llama-passkey layer 1 head 0"; empty without
  void paintLegendBar(QPainter&, const QRectF&, const Theme&) const;

  std::unique_ptr<Worker> worker_;
  std::shared_ptr<OverlapSource> source_ = std::make_shared<OverlapSource>();
  std::shared_ptr<const RunData> other_;
  int other_layer_ = 0, other_head_ = 0;
  bool other_chosen_ = false;
  analysis::AddressDials dials_;
  analysis::OverlapKind kind_ = analysis::OverlapKind::min;
  MatrixKind show_ = MatrixKind::overlap;
  bool by_row_sum_ = false, mean_ = false;
  ColourSettings colours_;
  CellRange rows_{0, 1}, columns_{0, 1};
  std::shared_ptr<const OverlapPicture> picture_;
  std::shared_ptr<Progress> progress_;
  QImage image_;
  QVector<QImage> side_images_;
  ColourScale scale_;
  uint64_t ticket_ = 0;
  int waiting_ = 0;
  QTimer again_, busy_;
  bool following_ = false;  // the token range is being set from here
  Hit hover_;
  QPointF press_;
  CellRange press_rows_{0, 1}, press_columns_{0, 1};
  bool pressed_ = false, panning_ = false;

  QComboBox *show_box_ = nullptr, *pool_box_ = nullptr, *shift_box_ = nullptr, *kind_box_ = nullptr, *other_box_ = nullptr;
  QToolButton* row_sum_ = nullptr;
  QSpinBox* top_k_ = nullptr;
  QDoubleSpinBox* temperature_ = nullptr;
  QPushButton* open_other_ = nullptr;
  ColourBar* colour_bar_ = nullptr;
  ColourRangeEditor* range_editor_ = nullptr;
};

}  // namespace slotscope::views
