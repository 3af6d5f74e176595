// Two traces of one prompt (design: section 12): A above or beside B, both overlaid, or A − B; under them "Is the key
// still there?". The heatmaps are those of HeatmapView, each with a selection of its own that CompareModel links.
#pragma once

#include <QPointer>

#include "views/compare_model.h"
#include "views/heatmap_data.h"
#include "views/view.h"

class QBoxLayout;
class QComboBox;
class QFrame;
class QLabel;
class QPushButton;

namespace slotscope::views {

class CompareHeader;
class HeatmapView;
class KeyPlotWidget;
class PairNote;
struct CellSource;
class TimelineView;

enum class CompareLayout { stacked, side_by_side, overlay, difference };

class CompareView : public View {
  Q_OBJECT
 public:
  CompareView(SelectionModel* selection, Worker* worker, QWidget* parent = nullptr);
  ~CompareView() override;
  // Before anything is shown. The model must outlive the view's use of it.
  void setModel(CompareModel* model);
  CompareModel* model() const { return model_; }

  void setRun(std::shared_ptr<const RunData> run) override;
  void setHead(std::shared_ptr<const analysis::HeadData> head) override;
  void setMessage(const QString& text, const QString& button = {}) override;
  void setLoading(bool loading, const QString& stage = {}) override;
  void setOtherLoading(bool loading, const QString& stage = {});

  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override;
  QString csv() const override;
  QString figureKind() const override { return QStringLiteral("compare"); }

  CompareLayout layoutKind() const { return layout_; }
  Quantity quantity() const { return quantity_; }
  bool sharedRanges() const { return shared_; }
  // Why a layout cannot be chosen now; "" when it can.
  QString whyNot(CompareLayout layout) const;
  HeatmapView* paneA() { return pane_a_; }
  HeatmapView* paneB() { return pane_b_; }
  CompareHeader* headerA() { return header_a_; }
  CompareHeader* headerB() { return header_b_; }
  QWidget* keyPlot() const;
  QRectF keyPlotRect() const;  // the axis, in coordinates of keyPlot()
  HeatmapView* panePair() { return pane_pair_; }
  QString pairNote() const;
  QString bannerText() const;
  void drawNow();

 public Q_SLOTS:
  void setLayoutKind(slotscope::views::CompareLayout layout);
  // The same, as soon as it can be chosen.
  void wantLayoutKind(slotscope::views::CompareLayout layout);
  void setQuantity(slotscope::analysis::Quantity quantity);
  void setSharedRanges(bool shared);

 Q_SIGNALS:
  void secondTraceRequested();
  void closeSecondRequested();
  void layoutKindChanged();

 protected:
  void keyPressEvent(QKeyEvent* event) override;
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;

 private:
  void buildBar();
  void buildPanes();
  void modelChanged();
  void showHeaders();
  void refillBar();
  void arrange();
  void followRanges();
  void followOrder();
  void followPair();
  void showPairNote();
  bool paired() const { return layout_ == CompareLayout::overlay || layout_ == CompareLayout::difference; }
  std::shared_ptr<const CellSource> makeCells() const;
  void updateAccessibility();
  QString restText() const;  // for the status bar while nothing is hovered
  QString sideDetails(bool b) const;
  void paintHeader(QPainter&, const QRectF&, const Theme&, const FigureOptions&, bool b);
  void paintSide(QPainter&, const QRectF&, const Theme&, const FigureOptions&, bool b);

  Worker* worker_;
  QPointer<CompareModel> model_;
  CompareLayout layout_ = CompareLayout::stacked;
  Quantity quantity_ = Quantity::write_strength;
  bool shared_ = false, ranges_chosen_ = false, following_ = false, passing_ = false;
  QFrame* bar_ = nullptr;
  QComboBox *layout_box_ = nullptr, *show_ = nullptr, *ranges_ = nullptr;
  QPushButton *linked_ = nullptr, *other_ = nullptr;
  QLabel* banner_ = nullptr;
  QBoxLayout* maps_ = nullptr;
  QWidget *side_a_ = nullptr, *side_b_ = nullptr;
  CompareHeader *header_a_ = nullptr, *header_b_ = nullptr;
  HeatmapView *pane_a_ = nullptr, *pane_b_ = nullptr, *pane_pair_ = nullptr;
  PairNote* pair_note_ = nullptr;
  QWidget* side_pair_ = nullptr;
  KeyPlotWidget* key_ = nullptr;
  std::optional<CompareLayout> wanted_layout_;
};

}  // namespace slotscope::views
