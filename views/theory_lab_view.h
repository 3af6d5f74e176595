// Theory lab: the address kernel of RAM-Net live (spec: ramnet 2). Controls, codebook circle with draggable q and k, log kappa against
// beta, log error against q.k with Theorem 2, weights over keys, and a table of every number. Needs no trace and no checkpoint.
#pragma once

#include <memory>

#include "views/theory_paint.h"
#include "views/view.h"

class QScrollArea;
class QSplitter;
class QTableWidget;
class QTimer;

namespace slotscope::views {

class TheoryCanvas;
class TheoryControls;

class TheoryLabView : public View {
  Q_OBJECT
 public:
  // `worker`: walks every address of larger codes in the background; may be null.
  explicit TheoryLabView(Worker* worker = nullptr, QWidget* parent = nullptr);

  void setState(const TheoryState& state);
  const TheoryState& state() const { return data_.state; }
  const TheoryData& data() const { return data_; }
  // JSON of the state, for the window's settings. Restoring what cannot be read changes nothing and returns false.
  QByteArray saved() const { return theoryJson(data_.state); }
  bool restore(const QByteArray& json);
  // Files; what fails is said in the view, and returned as false.
  bool openFile(const QString& path);
  bool saveFile(const QString& path);

  TheoryCanvas* canvas() { return canvas_; }
  TheoryControls* controls() { return controls_; }
  QTableWidget* table() { return table_; }
  // The numbers with all digits, one "name\tvalue" line each.
  QString numbersText() const;

  // It follows no trace.
  void setRun(std::shared_ptr<const RunData>) override {}
  void setHead(std::shared_ptr<const analysis::HeadData>) override {}
  void setMessage(const QString&, const QString&) override {}
  void setLoading(bool, const QString&) override {}

  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override { return kTheoryFigureSize; }
  QString csv() const override { return theoryCsv(data_); }
  QString figureKind() const override { return QStringLiteral("theory"); }

 Q_SIGNALS:
  // A change of the user's has come to rest.
  void stateChanged(const QByteArray& json);

 protected:
  void changeEvent(QEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void hideEvent(QHideEvent*) override;

 private:
  void tell();
  void take(TheoryData data);
  void fillTable();
  void copyRow(int row);
  void arrange();

  Worker* worker_ = nullptr;
  TheoryData data_;
  TheoryControls* controls_ = nullptr;
  QScrollArea *controls_scroll_ = nullptr, *canvas_scroll_ = nullptr;
  TheoryCanvas* canvas_ = nullptr;
  QTableWidget* table_ = nullptr;
  QSplitter* split_ = nullptr;
  QTimer* idle_ = nullptr;
  bool untold_ = false;
};

// What is painted and can be touched.
class TheoryCanvas : public QWidget {
  Q_OBJECT
 public:
  explicit TheoryCanvas(QWidget* parent = nullptr);
  void setData(const TheoryData* data);
  TheoryLayout layoutNow() const;

 Q_SIGNALS:
  void changed(const TheoryState& state);
  void status(const QString& text);
  void copyRequested();  // Ctrl+C: of every number

 protected:
  bool event(QEvent*) override;
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  void leaveEvent(QEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void focusInEvent(QFocusEvent*) override;
  void focusOutEvent(QFocusEvent*) override;

 private:
  void drag(const QPointF& at, Qt::KeyboardModifiers modifiers);
  void setX(double x);
  void hover(const QPointF& at);
  QString tipAt(const QPointF& at) const;
  void renewName();

  const TheoryData* data_ = nullptr;
  TheoryMarks marks_;
  enum class Grip { none, q, k, beta } grip_ = Grip::none;
  double reach_ = 0;  // of the circle while a vector is dragged
};

}  // namespace slotscope::views
