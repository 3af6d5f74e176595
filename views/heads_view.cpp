#include "views/heads_view.h"

#include <QAction>
#include <QActionGroup>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QLabel>
#include <QListWidget>
#include <QMenu>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollArea>
#include <QScrollBar>
#include <QStyledItemDelegate>
#include <QTimer>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "views/format.h"
#include "views/heads_grid.h"

namespace slotscope::views {

namespace {

const std::pair<HeadsView::Picture, const char*> kPictures[] = {
    {HeadsView::Picture::allocation, "allocation"},
    {HeadsView::Picture::esl_curve, "ESL curve"},
    {HeadsView::Picture::mean_strength, "mean write strength"},
    {HeadsView::Picture::read_mass_on_key, "read mass on key"},
    {HeadsView::Picture::entropy, "entropy"},
};
const std::pair<HeadsView::Score, const char*> kScores[] = {
    {HeadsView::Score::retrieval, "Retrieval score"},
    {HeadsView::Score::key_survival, "Still there at query"},
    {HeadsView::Score::read_mass_on_key, "Read mass on key"},
    {HeadsView::Score::gini, "Gini of ESL"},
};

template <class Table, class Key>
QString name_in(const Table& table, Key key) {
  for (const auto& [k, name] : table)
    if (k == key) return QString::fromUtf8(name);
  return {};
}

// One row of the ranking: name, bar, value.
class RankDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const override {
    return {100, int(20 * Theme::current().base / 12)};
  }
  void paint(QPainter* p, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const Theme& theme = Theme::current();
    const double k = theme.base / 12;
    const QRectF r = option.rect;
    const bool selected = option.state & QStyle::State_Selected;
    p->save();
    if (selected)
      p->fillRect(r.adjusted(4, 0, -4, 0), theme.selectionRow);
    else if (option.state & QStyle::State_MouseOver)
      p->fillRect(r.adjusted(4, 0, -4, 0), theme.hoverFill);
    p->setFont(selected ? theme.labelSemibold() : theme.label());
    p->setPen(selected ? theme.selection : theme.text);
    p->drawText(QRectF(r.left() + 8, r.top(), 54 * k, r.height()), Qt::AlignLeft | Qt::AlignVCenter,
                index.data(Qt::DisplayRole).toString());
    const double value = index.data(Qt::UserRole + 1).toDouble();
    const QRectF bar(r.left() + 62 * k, r.center().y() - 3, std::max(10.0, r.width() - 62 * k - 52 * k), 6);
    p->fillRect(bar, theme.hoverFill);
    if (value > 0)
      p->fillRect(QRectF(bar.left(), bar.top(), std::max(1.0, std::round(bar.width() * std::min(1.0, value))),
                         bar.height()),
                  theme.retrieval);
    p->setPen(theme.text);
    p->setFont(theme.label());
    p->drawText(QRectF(bar.right(), r.top(), r.right() - 8 - bar.right(), r.height()),
                Qt::AlignRight | Qt::AlignVCenter, strength(value, 3));
    p->restore();
  }
};

}  // namespace

class HeadsRanks : public QListWidget {
 public:
  explicit HeadsRanks(HeadsView* view) : QListWidget(view), view_(view) {
    setFrameShape(QFrame::NoFrame);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setVerticalScrollMode(QAbstractItemView::ScrollPerPixel);
    setItemDelegate(new RankDelegate(this));
    setUniformItemSizes(true);
    setMouseTracking(true);
    setAttribute(Qt::WA_MacShowFocusRect, false);
    setAccessibleName(QStringLiteral("Heads by score"));
    connect(this, &QListWidget::currentRowChanged, this, [this](int row) {
      if (row >= 0 && !filling_) view_->select(item(row)->data(Qt::UserRole).toInt());
    });
  }
  void fill() {
    filling_ = true;
    clear();
    if (const auto& run = view_->runData())
      for (const int position : view_->ranking()) {
        const auto& head = run->summary.head_list[size_t(position)];
        auto* row = new QListWidgetItem(QStringLiteral("L%1·H%2").arg(head.layer).arg(head.head), this);
        row->setData(Qt::UserRole, position);
        row->setData(Qt::UserRole + 1, view_->scoreOf(position));
        row->setData(Qt::AccessibleTextRole, QStringLiteral("layer %1 head %2, %3")
                                                 .arg(head.layer)
                                                 .arg(head.head)
                                                 .arg(strength(view_->scoreOf(position))));
      }
    filling_ = false;
    follow();
  }
  void follow() {
    const auto& s = view_->selection_->current();
    filling_ = true;
    int at = -1;
    for (int i = 0; i < count(); ++i)
      if (item(i)->data(Qt::UserRole).toInt() == view_->positionOf(s.layer, s.head)) at = i;
    setCurrentRow(at);
    filling_ = false;
  }

 private:
  HeadsView* view_;
  bool filling_ = false;
};

HeadsView::HeadsView(SelectionModel* selection, QWidget* parent) : View(selection, parent) {
  setAccessibleName(QStringLiteral("Heads"));
  grid_ = new HeadsGrid(this);
  setFocusProxy(grid_);
  grid_area_ = new QScrollArea(this);
  grid_area_->setFrameShape(QFrame::NoFrame);
  grid_area_->setWidget(grid_);
  grid_area_->setWidgetResizable(false);
  grid_area_->setFocusPolicy(Qt::NoFocus);
  heading_ = new QLabel(this);
  heading_->setContextMenuPolicy(Qt::CustomContextMenu);
  ranks_ = new HeadsRanks(this);
  connect(heading_, &QLabel::customContextMenuRequested, this,
          [this](const QPoint& at) { choiceMenu()->popup(heading_->mapToGlobal(at)); });
  for (QScrollBar* bar : {grid_area_->horizontalScrollBar(), grid_area_->verticalScrollBar()})
    connect(bar, &QScrollBar::valueChanged, grid_, QOverload<>::of(&QWidget::update));
  connect(selection, &SelectionModel::changed, this, [this](const Selection&, int parts) {
    if (!(parts &
          (SelectionModel::Layer | SelectionModel::Head | SelectionModel::Slot | SelectionModel::Run)))
      return;
    ranks_->follow();
    grid_->reveal();
    grid_->update();
  });
  rank();
}

void HeadsView::setRun(std::shared_ptr<const RunData> run) {
  kept_.clear();
  View::setRun(std::move(run));
  rank();
  place();
}

void HeadsView::setHead(std::shared_ptr<const analysis::HeadData> head) {
  View::setHead(std::move(head));
  grid_->update();
}

void HeadsView::setMessage(const QString& text, const QString& button) {
  View::setMessage(text, button);
  grid_->update();
}

double HeadsView::scoreOf(int position) const {
  if (!run_ || position < 0 || size_t(position) >= run_->summary.head_list.size()) return std::nan("");
  const auto& head = run_->summary.head_list[size_t(position)];
  if (!head.has_routes) return std::nan("");
  switch (score_) {
    case Score::retrieval:
      return head.allocation.head_score;
    case Score::key_survival:
      return head.key_survival;
    case Score::read_mass_on_key:
      return head.read_mass_on_key;
    case Score::gini:
      return head.statistics.gini;
  }
  return std::nan("");
}

void HeadsView::rank() {
  ranking_.clear();
  if (run_)
    for (size_t i = 0; i < run_->summary.head_list.size(); ++i) ranking_.push_back(int(i));
  const auto key = [this](int position) {
    const double v = scoreOf(position);
    return std::isnan(v) ? -1e300 : v;
  };
  std::stable_sort(ranking_.begin(), ranking_.end(), [&](int a, int b) { return key(a) > key(b); });
  heading_->setText(name_in(kScores, score_));
  ranks_->fill();
}

int HeadsView::positionOf(int layer, int head) const {
  if (!run_) return -1;
  const auto& list = run_->summary.head_list;
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].layer == layer && list[i].head == head) return int(i);
  return -1;
}

void HeadsView::select(int position, bool merge) {
  if (!run_ || position < 0 || size_t(position) >= run_->summary.head_list.size()) return;
  const auto& head = run_->summary.head_list[size_t(position)];
  selection_->request({.layer = head.layer, .head = head.head}, merge);
}

void HeadsView::toggleKept(int position) {
  if (!kept_.remove(position)) kept_.insert(position);
  grid_->update();
  Q_EMIT keptChanged();
}

QString HeadsView::choiceText() const { return name_in(kPictures, picture_); }

QMenu* HeadsView::choiceMenu() {
  if (!menu_) menu_ = new QMenu(this);
  menu_->clear();
  menu_->setToolTipsVisible(true);
  auto* pictures = new QActionGroup(menu_);
  auto* scores = new QActionGroup(menu_);
  for (const auto& [picture, name] : kPictures) {
    QAction* action = menu_->addAction(QString::fromUtf8(name), this, [this, p = picture] { setPicture(p); });
    action->setCheckable(true);
    action->setChecked(picture == picture_);
    pictures->addAction(action);
  }
  QAction* difference = menu_->addAction(QStringLiteral("difference A − B"));
  difference->setEnabled(false);
  difference->setToolTip(QStringLiteral("a difference needs two runs in Compare"));
  menu_->addSection(QStringLiteral("Rank by"));
  for (const auto& [score, name] : kScores) {
    QAction* action = menu_->addAction(QString::fromUtf8(name), this, [this, s = score] { setScore(s); });
    action->setCheckable(true);
    action->setChecked(score == score_);
    scores->addAction(action);
  }
  return menu_;
}

void HeadsView::setPicture(Picture picture) {
  if (picture == picture_) return;
  picture_ = picture;
  grid_->update();
  Q_EMIT choiceTextChanged(choiceText());
}

void HeadsView::setScore(Score score) {
  score_ = score;
  rank();
}

void HeadsView::setRankRows(int rows) {
  rank_rows_ = rows;
  place();
}

// Cells get 40 to 72 px of height each, then the list its rows; what is left goes to the list.
void HeadsView::place() {
  const Theme& theme = Theme::current();
  const double k = theme.base / 12;
  const int layers = run_ ? run_->summary.layers : 0;
  heading_->setFont(theme.label());
  QPalette palette = heading_->palette();
  palette.setColor(QPalette::WindowText, theme.text2);
  heading_->setPalette(palette);
  const QString thin =
      QStringLiteral(
          "QListWidget { background: transparent; } QScrollBar:vertical { background: transparent; width: "
          "8px; margin: 0; }"
          "QScrollBar::handle:vertical { background: %1; border-radius: 3px; min-height: 20px; margin: 1px; }"
          "QScrollBar::add-line:vertical, QScrollBar::sub-line:vertical { height: 0; }")
          .arg(theme.line.name());
  if (ranks_->styleSheet() != thin) ranks_->setStyleSheet(thin);
  heading_->setContentsMargins(int(8 * k), int(4 * k), 8, 0);
  const int row = int(20 * k), heading = int(22 * k), legend = int(26 * k);
  const int least_rows = rank_rows_ > 0 ? rank_rows_ : height() < 330 ? 2 : 4;
  const int room = std::max(60, height() - heading - least_rows * row - 4);
  const QSizeF cells(width(), std::max(40, room - legend));
  const HeadsGeometry g = grid_->geometryFor(cells);
  const int wanted = layers ? int(std::ceil(g.contentSize().height() + (g.squares ? 6 : legend))) : room;
  const int grid_height = std::min(room, wanted);
  grid_area_->setGeometry(0, 0, width(), grid_height);
  heading_->setGeometry(0, grid_height, width(), heading);
  ranks_->setGeometry(0, grid_height + heading, width(), std::max(0, height() - heading - grid_height - 4));
  grid_->setLayoutRoom(cells);
  const bool wide = g.contentSize().width() > width(), tall = wanted > grid_height;
  grid_area_->setHorizontalScrollBarPolicy(wide ? Qt::ScrollBarAsNeeded : Qt::ScrollBarAlwaysOff);
  grid_area_->setVerticalScrollBarPolicy(tall ? Qt::ScrollBarAsNeeded : Qt::ScrollBarAlwaysOff);
  grid_->resize(wide ? int(std::ceil(g.contentSize().width())) : width(), std::max(wanted, grid_height));
  grid_->update();
}

void HeadsView::paintEvent(QPaintEvent*) {
  QPainter p(this);
  const Theme& theme = Theme::current();
  p.fillRect(rect(), theme.surface);
  p.fillRect(QRect(0, heading_->y(), width(), 1), theme.line);
}

void HeadsView::resizeEvent(QResizeEvent*) { place(); }

void HeadsView::changeEvent(QEvent* event) {
  if ((event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) && heading_ &&
      !placing_) {
    placing_ = true;  // the heading's own palette is set in place()
    place();
    placing_ = false;
    update();
  }
  View::changeEvent(event);
}

void HeadsView::keyPressEvent(QKeyEvent* event) {
  const auto& s = selection_->current();
  const bool merge = event->isAutoRepeat();
  switch (event->key()) {
    case Qt::Key_Left:
    case Qt::Key_BracketLeft:
      selection_->request({.head = s.head - 1}, merge);
      return;
    case Qt::Key_Right:
    case Qt::Key_BracketRight:
      selection_->request({.head = s.head + 1}, merge);
      return;
    case Qt::Key_Up:
    case Qt::Key_PageUp:
    case Qt::Key_BraceLeft:
      selection_->request({.layer = s.layer - 1}, merge);
      return;
    case Qt::Key_Down:
    case Qt::Key_PageDown:
    case Qt::Key_BraceRight:
      selection_->request({.layer = s.layer + 1}, merge);
      return;
    case Qt::Key_B: {  // best head; again: the next best
      const int at = positionOf(s.layer, s.head);
      const auto found = std::find(ranking_.begin(), ranking_.end(), at);
      if (ranking_.empty()) return;
      const bool walking = found != ranking_.end() && found + 1 != ranking_.end() && last_best_ == at;
      last_best_ = walking ? *(found + 1) : ranking_.front();
      select(last_best_);
      return;
    }
    default:
      View::keyPressEvent(event);
  }
}

void HeadsView::paintFigure(QPainter& p, const QRectF& area, const Theme& theme,
                            const FigureOptions& options) {
  p.save();
  p.fillRect(area, theme.surface);
  if (run_) {
    const double legend = picture_ == Picture::allocation ? 22 : 0;
    const auto g = HeadsGeometry::make(area.adjusted(4, 4, 0, -legend), run_->summary.layers,
                                       run_->summary.heads, theme.base / 12);
    const auto& s = selection_->current();
    paintHeadsLabels(p, g, options.selection ? s.layer : -1, options.selection ? s.head : -1, theme);
    for (const auto& head : run_->summary.head_list) {
      if (g.squares)
        paintHeadSquare(p, g.cell(head.layer, head.head), run_->summary, head, picture_, theme);
      else
        paintHeadCell(p, g.cell(head.layer, head.head), run_->summary, head, picture_, -1, theme);
    }
    if (options.selection) paintHeadsRing(p, g.cell(s.layer, s.head), theme);
    if (legend > 0) paintHeadsLegend(p, {g.area.left() + g.left, area.bottom() - 18}, theme);
  }
  p.restore();
}

QSizeF HeadsView::figureSize() const {
  const int layers = run_ ? run_->summary.layers : 1, heads = run_ ? run_->summary.heads : 1;
  return {std::max(200.0, 40.0 + heads * 66), 46.0 + layers * 56};
}

QString HeadsView::csv() const {
  QString text = QStringLiteral(
      "# figure: heads\nlayer,head,retrieval_score,still_there_at_query,read_mass_on_key,gini,entropy_nats,"
      "mean_write_strength,retrieval_slots,shared_slots,other_slots,empty_slots\n");
  const auto number = [](double v) { return std::isnan(v) ? QString() : QString::number(v, 'g', 17); };
  if (run_)
    for (const auto& h : run_->summary.head_list) {
      QStringList row = {QString::number(h.layer), QString::number(h.head)};
      if (h.has_routes) {
        row << number(h.allocation.head_score) << number(h.key_survival) << number(h.read_mass_on_key)
            << number(h.statistics.gini) << number(h.statistics.entropy) << number(h.mean_write_strength);
        for (const int n : h.allocation.counts) row << QString::number(n);
      } else {
        for (int i = 0; i < 10; ++i) row << QString();
      }
      text += row.join(QLatin1Char(',')) + QLatin1Char('\n');
    }
  return text;
}

}  // namespace slotscope::views
