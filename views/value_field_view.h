// Value-field laboratory (RAM-Net Figures 1 and 4; design: section 12): keys on a torus or a plane of queries, what full attention,
// quantised keys, linear attention and RAM-Net memories answer everywhere. Keys are dragged, added and removed; all panels follow.
// Needs no trace and no checkpoint.
#pragma once

#include <memory>

#include "core/progress.h"
#include "views/value_field_capture.h"
#include "views/value_field_paint.h"
#include "views/value_field_state.h"
#include "views/view.h"

class QComboBox;
class QFrame;
class QLabel;
class QMenu;
class QScrollArea;
class QTimer;
class QToolButton;

namespace slotscope::views {

class ValueFieldCanvas;
class ValueFieldControls;

class ValueFieldView : public View {
  Q_OBJECT
 public:
  // Queries per side while something is dragged.
  static constexpr int kQuickGrid = 64;

  // `worker` computes the fields; null: at once, on this thread (tests, figures without a window).
  explicit ValueFieldView(Worker* worker = nullptr, QWidget* parent = nullptr);
  ~ValueFieldView() override;

  const FieldState& state() const { return state_; }
  void setState(FieldState state);
  // The latest computed field; null before the first one.
  const std::shared_ptr<const analysis::ValueField>& field() const { return field_; }
  // Values at the cross: the reference, then the panels [rows, columns], each of `channels`; empty without a cross.
  const std::vector<double>& crossValues() const { return cross_values_; }
  bool settled() const;  // nothing waits: field() is of state().settings at its full grid

  // The state for the window's settings. Restoring what cannot be read changes nothing and returns false.
  QByteArray saved() const { return fieldStateJson(state_); }
  bool restore(const QByteArray& json);
  // A saved state, settings, or a file of slotscope-cli ramnet valuefield; what fails is said in the view.
  bool openFile(const QString& path);
  bool saveFile(const QString& path);

  // What the user does; each asks for new fields. `quick`: more of it is coming (a drag), few queries will do.
  void change(const std::function<void(FieldState&)>& change, bool quick = false);
  void moveKey(int key, const QPointF& query, bool quick);
  void addKey(const QPointF& query);
  void removeKey(int key);
  void selectKey(int key);
  void setCross(std::optional<QPointF> query);
  void setLarge(int panel);
  void setHoveredRow(int row);
  int shownRow() const { return shown_row_; }  // whose values are listed at the cross
  void finishQuick();                          // the drag is over
  void fillPanelMenu(QMenu* menu, int panel);
  void fillMenu(QMenu* menu);
  // Keys, values and queries of a head of the open trace take the place of the keys.
  void takeHead(const FieldCapture& capture);
  void undo();
  bool canUndo() const { return !undo_.empty(); }
  void say(const QString& text, bool error = false);

  ValueFieldCanvas* canvas() { return canvas_; }
  ValueFieldControls* controls() { return controls_; }

  // It follows no trace; the open one can be taken keys from.
  void setRun(std::shared_ptr<const RunData> run) override;
  void setHead(std::shared_ptr<const analysis::HeadData>) override {}
  void setMessage(const QString&, const QString&) override {}
  void setLoading(bool, const QString&) override {}

  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override;
  QString csv() const override;
  QString figureKind() const override { return QStringLiteral("value-field"); }

 Q_SIGNALS:
  // A change of the user's has come to rest.
  void stateChanged(const QByteArray& json);
  void fieldChanged();

 protected:
  void changeEvent(QEvent*) override;
  void resizeEvent(QResizeEvent*) override;

 private:
  void buildBar(QFrame* bar);
  void showState();
  void request(bool quick);
  void take(std::shared_ptr<const analysis::ValueField> field, double seconds, quint64 serial, bool quick);
  void renewCross();
  void refreshBar();
  QString accessibleText() const;
  const analysis::ValueField& exportedField() const;

  Worker* worker_;
  FieldState state_;
  std::shared_ptr<const analysis::ValueField> field_;
  bool field_quick_ = false;
  std::vector<double> cross_values_;
  std::shared_ptr<analysis::FieldCache> cache_, quick_cache_;
  std::shared_ptr<Progress> running_;  // of the last fine request
  quint64 asked_ = 0, shown_ = 0;
  bool dragging_ = false, untold_ = false;
  int shown_row_ = 0;
  std::vector<FieldState> undo_;
  mutable std::shared_ptr<const analysis::ValueField> exported_;

  ValueFieldControls* controls_ = nullptr;
  QScrollArea* scroll_ = nullptr;
  ValueFieldCanvas* canvas_ = nullptr;
  QComboBox *rows_ = nullptr, *columns_ = nullptr;
  QToolButton *presets_ = nullptr, *back_ = nullptr;
  QLabel* note_ = nullptr;
  QTimer* rest_ = nullptr;
};

}  // namespace slotscope::views
