// Small parts that panels and views share: labels that give way, texts of files in one line, lists whose rows
// can be copied.
#pragma once

#include <QAbstractItemView>
#include <QLabel>
#include <functional>

class QMenu;

namespace slotscope::views {

// Text of a file (names, metadata) in one line: control and invisible characters as \u200b, line breaks as ↵.
QString oneLine(const QString& text);
// For tooltips: lines of at most 80 characters, the middle of very long texts left out.
QString wrappedTip(const QString& text);

// One line that never asks for width: what does not fit is left out in the middle, the tooltip has all of it.
class ElidedLabel : public QLabel {
  Q_OBJECT
 public:
  explicit ElidedLabel(QWidget* parent = nullptr);
  void setFullText(const QString& text);
  const QString& fullText() const { return full_; }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent*) override;
  void contextMenuEvent(QContextMenuEvent*) override;

 private:
  QString full_;
};

// Ctrl+C and the context menu copy the selected rows of `view`, one line each, as `text` writes them; `more`
// adds actions of its own before "Copy". Keys that move in a list never move anything else, not even at its
// end.
void makeCopyable(QAbstractItemView* view, const QString& label,
                  std::function<QString(const QModelIndex&)> text,
                  std::function<void(QMenu*, const QModelIndex&)> more = {});

}  // namespace slotscope::views
