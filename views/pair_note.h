// The line over an overlay or a difference: what the colours mean, with their limits, and how rows were matched.
#pragma once

#include <QString>
#include <QVector>
#include <QWidget>

namespace slotscope::views {

struct Theme;

struct PairNoteText {
  bool difference = false;
  QString low, high;  // limits of a difference
  QString text;
};
void paintPairNote(QPainter& painter, const QRectF& area, const PairNoteText& note, const Theme& theme);

class PairNote : public QWidget {
 public:
  explicit PairNote(QWidget* parent) : QWidget(parent) {}
  void setNote(const PairNoteText& note);
  const PairNoteText& note() const { return note_; }

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  PairNoteText note_;
};

}  // namespace slotscope::views
