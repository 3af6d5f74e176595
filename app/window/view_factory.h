// Which views and panels exist, and how they are made.
#pragma once

#include <QList>
#include <QString>
#include <optional>
#include <string>

#include "views/view.h"

namespace slotscope::views {
enum class CompareLayout;
}

namespace slotscope::app {

struct ViewKind {
  const char *kind, *title, *tip;
  bool standard = true;  // part of the default layout
  bool lab = false;      // needs neither trace nor checkpoint, and room: panels give way to it
};
// Kinds of the view area, in menu order.
const QList<ViewKind>& viewKinds();
QString viewTitle(const QString& kind);
bool isLab(const QString& kind);
// Whether a view shows the one head that is selected, so that it can be pinned to another.
bool showsOneHead(const QString& kind);

// "stacked", "side-by-side", "overlay", "difference"; nothing for other texts.
std::optional<views::CompareLayout> compareLayout(const std::string& name);

// Any kind of the view area, and the data panels "heads", "prompt", "inspector", "output". Null for an
// unknown kind.
views::View* makeView(const QString& kind, views::SelectionModel* selection, views::Worker* draw,
                      QWidget* parent);

}  // namespace slotscope::app
