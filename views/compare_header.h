// The row over one side of a comparison: letter badge, model, own layer and head, what is shown (design:
// section 12).
#pragma once

#include <QWidget>

class QPushButton;
class QToolButton;

namespace slotscope::views {

class ElidedLabel;

class CompareHeader : public QWidget {
  Q_OBJECT
 public:
  CompareHeader(bool b, QWidget* parent);
  // heads: of the layer; 0: none. `best` and `same`: B is on its best head, or on A's own layer and head.
  void setSide(const QString& model, int layers, int layer, int heads, int head);
  void setDetails(const QString& text);  // "range 0 – 1.00"
  void setShortcuts(bool offer_best, bool offer_same);
  void restyle();
  QString details() const;
  QPushButton* sameIndexButton() { return same_; }
  QPushButton* bestHeadButton() { return best_; }
  QToolButton* layerButton() { return layer_; }
  QToolButton* headButton() { return head_; }

 Q_SIGNALS:
  void chosen(int layer, int head);
  void sameIndexClicked();
  void bestHeadClicked();

 protected:
  void paintEvent(QPaintEvent*) override;
  void resizeEvent(QResizeEvent*) override;

 private:
  QToolButton* picker(const QString& name);
  void fillMenu(bool layers);
  void place();
  bool b_;
  int layers_ = 0, heads_ = 0, at_layer_ = 0, at_head_ = 0;
  ElidedLabel *model_ = nullptr, *details_ = nullptr;
  QToolButton *layer_ = nullptr, *head_ = nullptr;
  QPushButton *best_ = nullptr, *same_ = nullptr;
};

}  // namespace slotscope::views
