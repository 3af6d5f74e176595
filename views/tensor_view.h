// One tensor of the open checkpoint: what it is, its first and last values, its histogram and statistics.
// Gets plain structs; whoever owns it reads the file (design: section 11).
#pragma once

#include "views/tensor_histogram_view.h"

class QLabel;
class QProgressBar;
class QPushButton;
class QSplitter;
class QStandardItemModel;
class QTableView;
class QToolButton;

namespace slotscope::views {

class ElidedLabel;

struct TensorFacts {
  QString checkpoint, name;
  QStringList lines;  // "260 × 256 · F32 · 66 560 elements · 266 kB", "model.safetensors, bytes 1 234 to ..."
  QString shares_with;  // a name to jump to, or empty
  QString sharing;      // "same values as", "another view of the memory of"
};

// Exact texts of the first and last values. Row and column names are indices; "…" stands for what is left
// out.
struct TensorPreview {
  QStringList rows, columns;
  QVector<QStringList> cells;  // one list per row
};

class TensorView : public View {
  Q_OBJECT
 public:
  explicit TensorView(QWidget* parent = nullptr);

  void setFacts(const TensorFacts& facts);  // begins a new tensor: everything else is empty until it is given
  void setPreview(const TensorPreview& preview);
  void setPreviewMessage(const QString& why);
  void setHistogram(TensorHistogram histogram);
  // Reading goes on; fraction below 0: not known yet.
  void setProgress(double fraction, const QString& stage);
  // Reading ended without numbers: one sentence, and a button that asks for them again (or none).
  void setStopped(const QString& why, const QString& button = {});
  void clear();  // no tensor is chosen

  TensorHistogramView* histogramView() { return histogram_; }
  QTableView* previewTable() { return table_; }
  QString message() const;
  QString factsText() const;
  bool reading() const;
  QPushButton* cancelButton() { return cancel_; }

  void setRun(std::shared_ptr<const RunData>) override {}
  void setHead(std::shared_ptr<const analysis::HeadData>) override {}
  void setMessage(const QString&, const QString& = {}) override {}
  void setLoading(bool, const QString& = {}) override {}
  void paintFigure(QPainter& p, const QRectF& r, const Theme& t, const FigureOptions& o) override {
    histogram_->paintFigure(p, r, t, o);
  }
  QSizeF figureSize() const override { return histogram_->figureSize(); }
  QString csv() const override { return histogram_->csv(); }
  QString figureKind() const override { return QStringLiteral("tensor"); }

 Q_SIGNALS:
  void cancelRequested();
  void readRequested();  // the button of setStopped
  void scaleRequested(bool symmetric_log);
  void tensorRequested(const QString& name);  // the one it shares memory with
  void chooseRequested();                     // no tensor is chosen: show where to

 protected:
  void changeEvent(QEvent*) override;

 private:
  void restyle();
  void fillTable(const TensorPreview& preview);
  TensorFacts facts_;
  ElidedLabel* name_;
  QLabel *lines_, *stage_, *preview_note_;
  QToolButton* shares_;
  QWidget *head_, *progress_row_, *preview_;
  QProgressBar* progress_;
  QPushButton *cancel_, *again_;
  QSplitter* split_;
  TensorHistogramView* histogram_;
  QTableView* table_;
  QStandardItemModel* model_;
  bool reading_ = false;
};

}  // namespace slotscope::views
