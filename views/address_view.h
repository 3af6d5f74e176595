// RAM-Net's addresses of one head, four ways: which slots are written and read over the tokens (v1 Fig. 5: CAPE heads drift, others
// do not), the marginals of each factor, one token's address as digits, the mass of each slot (spec: ramnet 1.2 to 1.6, 6.5).
#pragma once

#include <QImage>
#include <QTimer>

#include "views/address_data.h"
#include "views/painted_view.h"

class QComboBox;
class QToolButton;

namespace slotscope::views {

class AddressView : public PaintedView {
  Q_OBJECT
 public:
  // `worker` null: everything at once (headless figures, tests); otherwise on a thread of the view's own.
  AddressView(SelectionModel* selection, Worker* worker, QWidget* parent = nullptr);
  ~AddressView() override;

  void setRun(std::shared_ptr<const RunData> run) override;
  void setHead(std::shared_ptr<const analysis::HeadData> head) override;
  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override { return {820, 460}; }
  QString csv() const override;
  QString figureKind() const override { return QStringLiteral("addresses"); }

  void setMode(AddressMode mode);
  void setWriteFactors(bool write);  // factors: of the write or the read address
  void setDecoded(bool on);          // accesses: CAPE undone
  void setTokens(CellRange tokens);
  void setSlots(CellRange slot_range);
  void drawNow();

  AddressMode mode() const { return mode_; }
  const AddressPicture* picture() const { return picture_.get(); }
  CellRange tokenWindow() const { return tokens_; }
  CellRange slotWindow() const { return slots_; }
  QRectF plotFor(const QRectF& area, double scale) const;
  // Rows of the list of ranks, write (0) at the left and read (1) at the right.
  QRectF rankRow(const QRectF& area, double scale, bool read, int rank) const;
  bool busy() const { return waiting_ > 0; }

 protected:
  QString emptyText() const override;
  void paintContent(QPainter&, const QSizeF&, const Theme&) override;
  QString tipAt(const QPointF&) const override;
  QString accessibleText() const override;
  void selectionMoved(int parts) override;
  void hoverMoved() override { update(); }
  void changeEvent(QEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  void wheelEvent(QWheelEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void leaveEvent(QEvent*) override;

 private:
  struct Hit {
    int64_t token = -1, slot = -1;
    int factor = -1, code = -1;
  };
  struct Look {
    QRectF area;
    const Theme* theme = nullptr;
    double scale = 1;
    bool marks = true, count_from_one = false;
  };
  void buildBar();
  void updateBar();
  void request();
  void adopt(std::shared_ptr<const AddressPicture> picture);
  AddressJob job() const;
  int64_t tokens() const;
  int64_t slotCount() const;
  Hit hitAt(const QPointF& content) const;
  QString hitText(const Hit& hit) const;
  void paintMode(QPainter&, const Look&) const;
  void paintAccess(QPainter&, const Look&) const;
  void paintFactors(QPainter&, const Look&) const;
  void paintDigits(QPainter&, const Look&) const;
  void paintAddress(QPainter&, const Look&, bool read) const;
  void paintMass(QPainter&, const Look&) const;
  void paintSlotAxis(QPainter&, const Look&, const QRectF& plot) const;
  QImage accessImage(const Theme&) const;
  QVector<LegendItem> legend(const Theme&) const;
  QString modeText() const;  // what is shown, for captions

  std::unique_ptr<Worker> worker_;
  std::shared_ptr<AddressSource> source_ = std::make_shared<AddressSource>();
  AddressMode mode_ = AddressMode::access;
  bool write_ = true, decoded_ = false;
  CellRange tokens_{0, 1}, slots_{0, 1};
  std::shared_ptr<const AddressPicture> picture_;
  std::shared_ptr<Progress> progress_;
  uint64_t ticket_ = 0;
  int waiting_ = 0;
  QTimer again_;
  bool following_ = false;
  mutable QImage image_;
  mutable bool image_dark_ = false;
  QPointF press_;
  CellRange press_tokens_{0, 1}, press_slots_{0, 1};
  bool pressed_ = false, panning_ = false;
  QVector<QToolButton*> modes_;
  QComboBox* address_box_ = nullptr;
  QToolButton* decoded_button_ = nullptr;
  LegendWidget* legend_ = nullptr;
};

}  // namespace slotscope::views
