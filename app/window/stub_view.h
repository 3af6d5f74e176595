// A view that is not there yet: only its name.
#pragma once

#include <QPainter>

#include "views/view.h"

namespace slotscope::app {

class StubView : public views::View {
  Q_OBJECT
 public:
  StubView(const QString& kind, views::SelectionModel* selection, QWidget* parent) : View(selection, parent), kind_(kind) {}
  void paintFigure(QPainter& p, const QRectF& r, const views::Theme& t, const views::FigureOptions&) override {
    p.fillRect(r, t.surface);
    p.setPen(t.text2);
    p.drawText(r, Qt::AlignCenter, kind_);
  }
  QString csv() const override { return {}; }
  QString figureKind() const override { return kind_; }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter p(this);
    paintFigure(p, rect(), views::Theme::current(), {});
  }

 private:
  QString kind_;
};

}  // namespace slotscope::app
