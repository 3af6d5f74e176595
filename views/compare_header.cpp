#include "views/compare_header.h"

#include <QMenu>
#include <QPainter>
#include <QPushButton>
#include <QToolButton>
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "views/key_plot.h"
#include "views/list_widgets.h"
#include "views/theme.h"

namespace slotscope::views {

namespace {
constexpr int kMostInMenu = 512;
}

CompareHeader::CompareHeader(bool b, QWidget* parent) : QWidget(parent), b_(b) {
  model_ = new ElidedLabel(this);
  model_->setProperty("ui", QStringLiteral("semibold"));
  const QString letter = b ? QStringLiteral("B") : QStringLiteral("A");
  layer_ = picker(QStringLiteral("Layer of ") + letter);
  head_ = picker(QStringLiteral("Head of ") + letter);
  details_ = new ElidedLabel(this);
  details_->setProperty("ui", QStringLiteral("text2"));
  const auto button = [&](const QString& text, const QString& tip) {
    auto* made = new QPushButton(text, this);
    made->setProperty("ui", QStringLiteral("quiet"));
    made->setToolTip(tip);
    made->hide();
    return made;
  };
  best_ = button(QStringLiteral("best head"), QStringLiteral("The head of B with the highest retrieval score"));
  same_ = button(QStringLiteral("same index"),
                 QStringLiteral("Layer and head of B as in A. Across models the same index means nothing"));
  connect(best_, &QPushButton::clicked, this, &CompareHeader::bestHeadClicked);
  connect(same_, &QPushButton::clicked, this, &CompareHeader::sameIndexClicked);
  connect(layer_->menu(), &QMenu::aboutToShow, this, [this] { fillMenu(true); });
  connect(head_->menu(), &QMenu::aboutToShow, this, [this] { fillMenu(false); });
  restyle();
}

QToolButton* CompareHeader::picker(const QString& name) {
  auto* made = new QToolButton(this);
  made->setProperty("ui", QStringLiteral("quiet"));
  made->setPopupMode(QToolButton::InstantPopup);
  made->setAccessibleName(name);
  made->setToolTip(name);
  made->setMenu(new QMenu(made));
  return made;
}

// Made when it opens: a model can have thousands of heads.
void CompareHeader::fillMenu(bool layers) {
  QMenu* menu = (layers ? layer_ : head_)->menu();
  menu->clear();
  const int total = layers ? layers_ : heads_, now = layers ? at_layer_ : at_head_;
  const int first = std::max(0, std::min(now - kMostInMenu / 2, total - kMostInMenu));
  for (int i = first; i < std::min(total, first + kMostInMenu); ++i) {
    QAction* action = menu->addAction((layers ? QStringLiteral("layer %1") : QStringLiteral("head %1")).arg(i), this,
                                      [this, layers, i] { Q_EMIT chosen(layers ? i : at_layer_, layers ? at_head_ : i); });
    action->setCheckable(true);
    action->setChecked(i == now);
  }
}

void CompareHeader::setSide(const QString& model, int layers, int layer, int heads, int head) {
  model_->setFullText(model);
  layers_ = layers, heads_ = heads, at_layer_ = layer, at_head_ = head;
  layer_->setText(QStringLiteral("layer %1").arg(layer));
  head_->setText(QStringLiteral("head %1").arg(head));
  layer_->setVisible(layers > 0);
  head_->setVisible(heads > 0);
  place();
}

void CompareHeader::setDetails(const QString& text) {
  details_->setFullText(text);
  place();
}
QString CompareHeader::details() const { return details_->fullText(); }

void CompareHeader::setShortcuts(bool offer_best, bool offer_same) {
  best_->setVisible(offer_best);
  same_->setVisible(offer_same);
  place();
}

void CompareHeader::restyle() {
  const Theme& theme = Theme::current();
  setFixedHeight(int(std::lround(kCompareHeader * theme.base / 12)));
  model_->setFont(theme.semibold());
  for (QWidget* w : std::initializer_list<QWidget*>{layer_, head_, best_, same_, details_}) w->setFont(theme.label());
  place();
}

// From the left: badge, model, pickers, details; at the right what is offered. Long names give way in the middle.
void CompareHeader::place() {
  const double k = Theme::current().base / 12;
  const int height = this->height(), tall = int(std::lround(22 * k)), top = (height - tall) / 2;
  int right = width() - 8;
  for (QPushButton* b : {same_, best_}) {
    if (b->isHidden()) continue;
    const int wide = QFontMetrics(b->font()).horizontalAdvance(b->text()) + int(std::lround(16 * k));
    b->setGeometry(right - wide, top, wide, tall);
    right -= wide + 2;
  }
  int x = int(std::lround(10 + 26 * k));
  const int wanted = QFontMetrics(Theme::current().semibold()).horizontalAdvance(model_->fullText()) + 4;
  const int name = std::min(wanted, std::max(60, (right - x) * 2 / 5));
  model_->setGeometry(x, 0, name, height);
  x += name + int(std::lround(10 * k));
  for (QToolButton* b : {layer_, head_}) {
    if (b->isHidden()) continue;
    const int wide = QFontMetrics(b->font()).horizontalAdvance(b->text()) + int(std::lround(22 * k));
    b->setGeometry(x, top, wide, tall);
    x += wide + 2;
  }
  x += int(std::lround(4 * k));
  details_->setGeometry(x, 0, std::max(0, right - x - 6), height);
}

void CompareHeader::resizeEvent(QResizeEvent*) { place(); }

void CompareHeader::paintEvent(QPaintEvent*) {
  const Theme& theme = Theme::current();
  const double k = theme.base / 12;
  QPainter painter(this);
  painter.fillRect(rect(), theme.surface);
  paintBadge(painter, {10, height() / 2.0 - 8 * k, 18 * k, 16 * k}, b_ ? QStringLiteral("B") : QStringLiteral("A"),
             b_ ? theme.modelB : theme.modelA, theme);
}

}  // namespace slotscope::views
