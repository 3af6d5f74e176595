// Slot heatmap (design: section 6): slots x tokens, with its view bar above and the timeline below, margins
// aligned.
#pragma once

#include <QPointF>
#include <functional>
#include <QTimer>

#include "views/heatmap_data.h"
#include "views/heatmap_paint.h"
#include "views/view.h"

class QComboBox;
class QFrame;
class QLabel;
class QMenu;
class QPushButton;

namespace slotscope::views {

class ColourBar;
class ColourRangeEditor;
class HeatmapPlot;
class HeatmapTip;
class TimelineView;

// What a comparison draws in a heatmap's place: cells of two heads, by row numbers of its own. Its functions are called
// from the worker too and must hold on to what they use.
struct CellSource {
  QString name;       // "A − B: write strength s"
  HeatmapRows rows;   // slot = number of the row
  QVector<QString> names;                     // by number
  std::vector<analysis::SlotClass> classes;   // by number
  bool diverging = false;                     // limits symmetric about 0, brown to teal
  std::function<SlotGrid(const GridJob&)> grid;
  std::function<SlotGrid(const GridJob&)> over;   // a second grid of the same shape, drawn over the first
  std::function<SlotGrid()> samples;              // for the limits of the first
  std::function<ColourScale()> over_scale;        // called on the GUI thread
  std::function<QString(int row, qint64 token)> text;  // a cell in words: status bar, tooltip, accessible text
};

class HeatmapView : public View {
  Q_OBJECT
 public:
  // Without a worker everything is reduced at once (headless figures, tests).
  HeatmapView(SelectionModel* selection, Worker* worker, QWidget* parent = nullptr);
  ~HeatmapView() override;

  void setRun(std::shared_ptr<const RunData> run) override;
  void setHead(std::shared_ptr<const analysis::HeadData> head) override;
  void setMessage(const QString& text, const QString& button = {}) override;
  void setLoading(bool loading, const QString& stage = {}) override;

  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override;
  QString csv() const override;
  // Its lines alone, "token,slot,value", each after `prefix`.
  QString csvCells(const QString& prefix) const;
  QString figureKind() const override { return QStringLiteral("heatmap"); }
  // Figures get this many pixels per token (figureSize grows with the visible tokens); 0: a fixed width,
  // reduced to fit.
  void setFigurePixelsPerToken(double pixels) { figure_pixels_per_token_ = pixels; }
  double figurePixelsPerToken() const { return figure_pixels_per_token_; }

  Quantity quantity() const { return quantity_; }
  int64_t reference() const { return selection_->current().token; }
  HeatmapSort sort() const { return sort_; }
  const ColourSettings& colours() const { return colours_; }
  bool hidesEmptySlots() const { return hide_empty_; }
  CellRange rowRange() const { return row_range_; }
  CellRange tokenRange() const;
  const HeatmapRows& rows() const { return rows_; }
  const ColourScale& colourScale() const { return scale_; }
  QString currentReduction() const { return reduction_; }
  const SlotGrid* shownGrid() const { return shown_; }
  // The picture on the screen, as drawn with these settings.
  HeatmapGeometry plotGeometry() const;  // in coordinates of plotWidget()
  QWidget* plotWidget() const;
  TimelineView* timeline() const { return timeline_; }
  // Status text of a cell: "slot 5 × token 154 “i”   s = 0.6980   left at query 63.1 %".
  QString cellText(int slot, qint64 token) const;
  // Fills a menu with the view's choices (pooling, margin bars, hide empty slots), for "..." in tabs and
  // title bars.
  void fillMenu(QMenu* menu);
  // Draws now what would be drawn later; waits for no worker. For measurements and tests.
  void drawNow();

  // As one of the panes of a comparison: no view bar, no timeline, no token axis of its own.
  void setPane(bool pane);
  // Positions on the axis, when another run has more of them; what this run does not have is hatched.
  void setAxisTokens(int64_t tokens);
  // False: no token of this run corresponds to the selected one, so none is marked.
  void setTokenMarked(bool marked);
  // Limits that several heatmaps share, instead of this head's own.
  void setSharedRange(std::optional<std::pair<double, double>> range);
  ColourScale ownScale() const;  // without shared limits
  // Rows for HeatmapSort::as_a, from the top: slots of this head, each once. Empty: cannot be chosen.
  void setFollowedOrder(std::vector<int> slots);
  // Draws these cells; null: those of the head.
  void setCells(std::shared_ptr<const CellSource> cells);
  const std::shared_ptr<const CellSource>& cells() const { return cells_; }

 public Q_SLOTS:
  void setQuantity(slotscope::analysis::Quantity quantity);
  void setSort(slotscope::views::HeatmapSort sort);
  void setPooling(slotscope::analysis::Pooling pooling);
  void setColours(const slotscope::views::ColourSettings& settings);
  void setMarginKind(slotscope::views::MarginKind kind);
  void setHideEmptySlots(bool hide);
  void setRowRange(slotscope::views::CellRange rows);
  void setTokenRange(slotscope::views::CellRange tokens, bool merge = false);
  void zoomToAll();
  void zoomToTokens(qint64 centre, qint64 width = 64);
  void selectFirstNan();
  void openColourRange();

 Q_SIGNALS:
  void figureRequested();  // "Export figure…" of the context menu
  void helpRequested(const QString& topic);
  void quantityChanged(slotscope::analysis::Quantity quantity);
  void scaleChanged();
  void rowsChanged();

 protected:
  bool eventFilter(QObject* object, QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;

 private:
  struct Picture {  // a reduced grid and what it was made for
    std::shared_ptr<const SlotGrid> grid, over;
    CellRange rows{0, 0};
    int64_t per_column = 1, per_row = 1;
  };
  // --- heatmap_view.cpp
  void buildBar();
  void refillChoices();
  void headChanged();
  void orderChanged();
  void samplesChanged();
  void colourChanged();
  void selectionMoved(int parts);
  void updateStates();
  void updateAccessibility();
  void followSelection();
  int64_t tokens() const;
  int64_t axisTokens() const;  // tokens(), or more in a comparison
  int64_t query() const;
  // `pixels`: of the device per logical pixel. The geometry shows whole columns and rows of a reduced
  // picture.
  HeatmapGeometry geometryFor(const QRectF& area, double scale, double pixels_x, double pixels_y) const;
  std::optional<HeatmapScene> scene(const QRectF& area, const Theme& theme) const;
  // --- heatmap_requests.cpp: what to reduce, and when
  void requestGrid();
  void requestOverview();
  void requestSamples();
  // The grids of a request, `over` in comparisons only; safe in the worker.
  static Picture drawn(const std::shared_ptr<const CellSource>& cells, const GridJob& request);
  ColourScale scaleOf(const SlotGrid* visible) const;
  void adopt(Picture picture, bool overview);
  void showPicture(bool recolour = false);
  void invalidate();
  const Picture& pictureFor(CellRange tokens, CellRange rows) const;
  GridJob job(CellRange tokens, CellRange rows, int max_columns, int max_rows) const;
  // --- heatmap_interaction.cpp
  bool mousePress(QMouseEvent*);
  bool mouseMove(QMouseEvent*);
  bool mouseRelease(QMouseEvent*);
  bool mouseDouble(QMouseEvent*);
  bool wheel(QWheelEvent*);
  void hoverAt(const QPointF& at, bool tip_at_once);
  void leaveHover();
  void showTip();
  void contextMenu(const QPoint& global);
  void stepSlot(int by, bool merge);
  void stepToken(qint64 by, bool merge);
  void stepRole(int direction);
  void selectSpan(const char* name);
  void selectLastWriter();
  void selectStrongestReader();
  std::pair<int, qint64> cellAt(
      const QPointF& at) const;  // the written cell that is drawn there, else the exact one
  void copyRow(int slot) const;
  void copyColumn(qint64 token) const;

  Worker* worker_;
  QString tag_;
  QFrame *bar_ = nullptr, *rule_ = nullptr;
  QComboBox *show_ = nullptr, *sort_box_ = nullptr;
  ColourBar* colour_bar_ = nullptr;
  ColourRangeEditor* range_editor_ = nullptr;
  HeatmapPlot* plot_ = nullptr;
  TimelineView* timeline_ = nullptr;
  HeatmapTip* tip_ = nullptr;
  QLabel* message_label_ = nullptr;
  QPushButton* message_action_ = nullptr;
  QWidget* message_page_ = nullptr;
  QWidget* loading_bar_ = nullptr;
  QTimer tip_timer_, loading_timer_;

  Quantity quantity_ = Quantity::write_strength;
  HeatmapSort sort_ = HeatmapSort::class_then_esl;
  analysis::Pooling pooling_ = analysis::Pooling::maximum;
  MarginKind margin_kind_ = MarginKind::esl;
  ColourSettings colours_;
  bool hide_empty_ = false;
  bool pane_ = false, token_marked_ = true;
  int64_t axis_tokens_ = 0;
  std::optional<std::pair<double, double>> shared_range_;
  std::vector<int> followed_;
  std::shared_ptr<const CellSource> cells_;
  double figure_pixels_per_token_ = 0;

  HeatmapRows rows_;
  CellRange row_range_{0, 1};
  std::vector<double> margin_;
  std::shared_ptr<const SlotGrid> samples_;
  Picture picture_, overview_;
  const SlotGrid* shown_ = nullptr;  // which of the two is in the plot
  ColourScale scale_;
  QVector<QRgb> map_;
  QString reduction_;
  uint64_t state_ = 0;  // counts what makes reduced pictures stale
  int waiting_ = 0;     // requests under way

  // interaction
  enum class Drag { None, Press, Pan, RubberBand, Brush, TokenChip, SlotChip } drag_ = Drag::None;
  QPointF press_, last_hover_;
  CellRange press_tokens_{0, 1}, press_rows_{0, 1};
  Qt::MouseButton press_button_ = Qt::NoButton;
  bool drag_merged_ = false;
  double wheel_rest_tokens_ = 0, wheel_rest_rows_ = 0;
  QRectF rubber_;
  bool following_ = false, focus_ring_ = false;
};

}  // namespace slotscope::views
