#include "views/compare_view.h"

#include <QApplication>
#include <QComboBox>
#include <QFocusEvent>
#include <QKeyEvent>
#include <QLabel>
#include <QMenu>
#include <QMouseEvent>
#include <QPainter>
#include <QPushButton>
#include <QStandardItemModel>
#include <QToolTip>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "views/caption.h"
#include "views/compare_header.h"
#include "views/format.h"
#include "views/heatmap_view.h"
#include "views/key_plot.h"
#include "views/pair_note.h"
#include "views/token_cells.h"

namespace slotscope::views {

// The bottom plot on the screen: click selects, hover and selection are linked.
class KeyPlotWidget : public QWidget {
 public:
  KeyPlotWidget(CompareView* view) : QWidget(view), view_(view) {
    setMouseTracking(true);
    setAttribute(Qt::WA_OpaquePaintEvent);
    setAccessibleName(QStringLiteral("Is the key still there?"));
  }
  KeyPlotScene scene() const {
    KeyPlotScene s;
    s.model = view_->model();
    if (!s.model) return s;
    auto* in_a = view_->model()->selectionA();
    const auto [first, last] = in_a->tokenRange();
    s.tokens = {first, std::max(last, first + 1)};
    if (const HeatmapView* pane = view_->paneA(); pane->headData()) {
      // The axis shows whole columns of a reduced picture, as the maps do.
      const HeatmapGeometry g = pane->plotGeometry();
      if (view_->layoutKind() == CompareLayout::stacked) s.tokens = {g.first, g.last};
    }
    if (view_->layoutKind() == CompareLayout::overlay || view_->layoutKind() == CompareLayout::difference) {
      const HeatmapGeometry g = view_->panePair()->plotGeometry();
      if (view_->panePair()->headData()) s.tokens = {g.first, g.last};
    }
    s.selected = in_a->current().token;
    s.hovered = in_a->hoverToken();
    return s;
  }
  QRectF axis() const { return keyPlotArea(QRectF(rect()), scene(), Theme::current().base / 12); }

 protected:
  void paintEvent(QPaintEvent*) override {
    const Theme& theme = Theme::current();
    QPainter painter(this);
    painter.fillRect(rect(), theme.surface);
    painter.fillRect(QRect(0, 0, width(), 1), theme.line);
    const KeyPlotScene s = scene();
    if (s.model && s.model->a().run) paintKeyPlot(painter, QRectF(rect()), s, theme);
  }
  void mousePressEvent(QMouseEvent* event) override {
    if (event->button() != Qt::LeftButton || !view_->model() || !axis().adjusted(0, 0, 0, 24).contains(event->position()))
      return;
    view_->model()->selectionA()->request({.token = keyTokenAt(axis(), scene(), event->position().x())});
  }
  void mouseMoveEvent(QMouseEvent* event) override {
    if (!view_->model()) return;
    const bool inside = axis().contains(event->position());
    const qint64 token = inside ? keyTokenAt(axis(), scene(), event->position().x()) : -1;
    view_->model()->selectionA()->setHover(-1, token);
    Q_EMIT view_->statusText(inside ? valuesAt(token) : QString());
    if (inside && (event->buttons() & Qt::LeftButton)) view_->model()->selectionA()->request({.token = token}, true);
  }
  void leaveEvent(QEvent*) override {
    if (view_->model()) view_->model()->selectionA()->setHover(-1, -1);
    Q_EMIT view_->statusText(QString());
  }

 private:
  QString valuesAt(qint64 token) const {
    const auto value = [](const analysis::KeyCurve& curve, qint64 t) {
      const qint64 at = t - curve.first;
      return t < 0 || at < 0 || at >= qint64(curve.left.size()) ? QStringLiteral("–") : share(curve.left[size_t(at)]);
    };
    const CompareModel& m = *view_->model();
    return QStringLiteral("token %1   key left: A %2, B %3")
        .arg(count(token), value(m.a().key, token), value(m.b().key, m.tokens().b_of(token)));
  }
  CompareView* view_;
};

CompareView::CompareView(SelectionModel* selection, Worker* worker, QWidget* parent)
    : View(selection, parent), worker_(worker) {
  setAccessibleName(QStringLiteral("Compare"));
}

CompareView::~CompareView() = default;

void CompareView::setModel(CompareModel* model) {
  if (model_ || !model) return;
  model_ = model;
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  buildBar();
  column->addWidget(bar_);
  banner_ = new QLabel(this);
  banner_->setProperty("ui", QStringLiteral("warn"));
  banner_->setContentsMargins(12, 4, 12, 4);
  banner_->setWordWrap(true);
  banner_->hide();
  column->addWidget(banner_);
  buildPanes();
  column->addLayout(maps_, 1);
  key_ = new KeyPlotWidget(this);
  column->addWidget(key_);
  connect(model_, &CompareModel::changed, this, &CompareView::modelChanged);
  connect(model_, &CompareModel::linkedChanged, this, [this](bool on) { linked_->setChecked(on); });
  connect(model_, &CompareModel::otherTokenMarkedChanged, this, [this](bool marked) {
    pane_b_->setTokenMarked(marked);
    updateAccessibility();
  });
  for (SelectionModel* one : {model_->selectionA(), model_->selectionB()}) {
    connect(one, &SelectionModel::changed, this, [this](const Selection&, int parts) {
      // Pictures that hang on the selected token are new ones.
      if (parts & SelectionModel::Token && paired() && needsReference(quantity_)) followPair();
      showHeaders();
      updateAccessibility();
      key_->update();
    });
    connect(one, &SelectionModel::hoverChanged, key_, [this] { key_->update(); });
    connect(one, &SelectionModel::tokenRangeChanged, key_, [this] { key_->update(); });
  }
  arrange();
  modelChanged();
}

void CompareView::buildBar() {
  bar_ = new QFrame(this);
  bar_->setProperty("ui", QStringLiteral("bar"));
  bar_->setFixedHeight(37);
  auto* row = new QHBoxLayout(bar_);
  row->setContentsMargins(9, 0, 8, 0);
  row->setSpacing(6);
  const auto combo = [&](const QString& name, int width) {
    auto* label = new QLabel(name, bar_);
    label->setProperty("ui", QStringLiteral("text2"));
    row->addWidget(label);
    auto* box = new QComboBox(bar_);
    box->setAccessibleName(name);
    box->setFixedHeight(26);
    box->setMinimumWidth(width);
    row->addWidget(box);
    return box;
  };
  layout_box_ = combo(QStringLiteral("Layout"), 92);
  show_ = combo(QStringLiteral("Show"), 146);
  row->addStretch(1);
  ranges_ = combo(QStringLiteral("Ranges"), 90);
  ranges_->addItems({QStringLiteral("separate"), QStringLiteral("shared")});
  linked_ = new QPushButton(QStringLiteral("Linked"), bar_);
  linked_->setCheckable(true);
  linked_->setChecked(true);
  linked_->setToolTip(QStringLiteral("Zoom, hover and slots of A and B follow each other. Tokens always do"));
  row->addWidget(linked_);
  other_ = new QPushButton(QStringLiteral("Open B…"), bar_);
  other_->setToolTip(QStringLiteral("Open a second trace (or drop it here)"));
  row->addWidget(other_);
  connect(layout_box_, &QComboBox::activated, this,
          [this](int i) { setLayoutKind(CompareLayout(layout_box_->itemData(i).toInt())); });
  connect(show_, &QComboBox::activated, this, [this](int i) { setQuantity(Quantity(show_->itemData(i).toInt())); });
  connect(ranges_, &QComboBox::activated, this, [this](int i) {
    ranges_chosen_ = true;
    setSharedRanges(i == 1);
  });
  connect(linked_, &QPushButton::clicked, this, [this](bool on) { model_->setLinked(on); });
  connect(other_, &QPushButton::clicked, this, &CompareView::secondTraceRequested);
}

void CompareView::buildPanes() {
  maps_ = new QBoxLayout(QBoxLayout::TopToBottom);
  maps_->setSpacing(0);
  const auto side = [&](bool b, CompareHeader*& header, HeatmapView*& pane) {
    auto* box = new QWidget(this);
    auto* column = new QVBoxLayout(box);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    header = new CompareHeader(b, box);
    pane = new HeatmapView(b ? model_->selectionB() : model_->selectionA(), worker_, box);
    pane->setPane(true);
    pane->setAccessibleName(b ? QStringLiteral("Heatmap of B") : QStringLiteral("Heatmap of A"));
    column->addWidget(header);
    column->addWidget(pane, 1);
    maps_->addWidget(box, 1);
    connect(pane, &View::statusText, this,
            [this](const QString& text) { Q_EMIT statusText(text.isEmpty() ? restText() : text); });
    connect(pane, &View::reductionText, this, &View::reductionText);
    connect(pane, &HeatmapView::quantityChanged, this, [this, pane](Quantity q) {
      if (!following_) setQuantity(q);
      showHeaders();
      (void)pane;
    });
    connect(pane, &HeatmapView::scaleChanged, this, [this] { followRanges(); });
    connect(pane, &HeatmapView::figureRequested, this, [this] { Q_EMIT openViewRequested(QStringLiteral("figure")); });
    return box;
  };
  side_a_ = side(false, header_a_, pane_a_);
  side_b_ = side(true, header_b_, pane_b_);
  side_pair_ = new QWidget(this);
  auto* column = new QVBoxLayout(side_pair_);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  pair_note_ = new PairNote(side_pair_);
  column->addWidget(pair_note_);
  pane_pair_ = new HeatmapView(model_->selectionPair(), worker_, side_pair_);
  pane_pair_->setPane(true);
  pane_pair_->setAccessibleName(QStringLiteral("Heatmap of A and B"));
  column->addWidget(pane_pair_, 1);
  maps_->addWidget(side_pair_, 1);
  side_pair_->hide();
  connect(pane_pair_, &View::statusText, this,
          [this](const QString& text) { Q_EMIT statusText(text.isEmpty() ? restText() : text); });
  connect(pane_pair_, &View::reductionText, this, &View::reductionText);
  connect(pane_pair_, &HeatmapView::scaleChanged, this, &CompareView::showPairNote);
  connect(pane_pair_, &HeatmapView::quantityChanged, this, [this](Quantity q) {
    if (!following_) setQuantity(q);
  });
  connect(pane_a_, &HeatmapView::rowsChanged, this, &CompareView::followOrder);
  connect(pane_a_, &View::messageAction, this, &View::messageAction);
  connect(pane_b_, &View::messageAction, this, &CompareView::secondTraceRequested);
  connect(header_a_, &CompareHeader::chosen, this,
          [this](int layer, int head) { selection_->request({.layer = layer, .head = head}); });
  connect(header_b_, &CompareHeader::chosen, model_, &CompareModel::chooseOther);
  connect(header_b_, &CompareHeader::sameIndexClicked, model_, &CompareModel::sameIndex);
  connect(header_b_, &CompareHeader::bestHeadClicked, model_, &CompareModel::bestOther);
}

QWidget* CompareView::keyPlot() const { return key_; }
QRectF CompareView::keyPlotRect() const { return key_->axis(); }
QString CompareView::bannerText() const { return banner_ ? banner_->text() : QString(); }

void CompareView::setRun(std::shared_ptr<const RunData> run) {
  View::setRun(std::move(run));
}

void CompareView::setHead(std::shared_ptr<const analysis::HeadData> head) {
  View::setHead(std::move(head));
}

// What is missing in A is said where A would be.
void CompareView::setMessage(const QString& text, const QString& button) {
  View::setMessage(text, button);
  if (model_) pane_a_->setMessage(text, button);
}

void CompareView::setLoading(bool loading, const QString& stage) {
  View::setLoading(loading, stage);
  if (model_) pane_a_->setLoading(loading, stage);
}

void CompareView::setOtherLoading(bool loading, const QString& stage) {
  if (model_) pane_b_->setLoading(loading, stage);
}

void CompareView::modelChanged() {
  const CompareSide &a = model_->a(), &b = model_->b();
  pane_a_->setAxisTokens(model_->axisTokens());
  pane_b_->setAxisTokens(model_->otherAxisTokens());
  if (pane_a_->runData() != a.run) pane_a_->setRun(a.run);
  if (pane_b_->runData() != b.run) pane_b_->setRun(b.run);
  if (pane_a_->headData() != a.head) pane_a_->setHead(a.head);
  if (pane_b_->headData() != b.head) pane_b_->setHead(b.head);
  pane_b_->setTokenMarked(model_->otherTokenMarked());
  if (!b.run)
    pane_b_->setMessage(b.why.isEmpty() ? QStringLiteral("No second trace is open. Drop one here, or") : b.why,
                        QStringLiteral("Open a second trace…"));
  else
    pane_b_->setMessage(b.head ? QString() : b.why);
  if (a.run && !a.head && message_.isEmpty()) pane_a_->setMessage(a.why);
  if (a.head) pane_a_->setMessage({});
  const QString note = QString::fromStdString(model_->tokens().note);
  banner_->setText(note);
  banner_->setVisible(!note.isEmpty());
  other_->setText(b.run ? QStringLiteral("Other B…") : QStringLiteral("Open B…"));
  // Ranges of two families say nothing about each other.
  if (!ranges_chosen_) setSharedRanges(model_->complete() && !model_->familiesDiffer());
  following_ = true;
  for (HeatmapView* pane : {pane_a_, pane_b_}) pane->setQuantity(quantity_);
  following_ = false;
  // What can no longer be drawn goes back to what always can.
  if (model_->complete() && model_->a().head && model_->b().head && !whyNot(layout_).isEmpty()) setLayoutKind(CompareLayout::stacked);
  if (wanted_layout_ && whyNot(*wanted_layout_).isEmpty()) setLayoutKind(*std::exchange(wanted_layout_, std::nullopt));
  refillBar();
  showHeaders();
  followRanges();
  followOrder();
  followPair();
  updateAccessibility();
  key_->update();
  if (isVisible()) Q_EMIT statusText(restText());
}

QString CompareView::restText() const {
  if (!model_->complete()) return {};
  return model_->tokens().same_tokens ? QStringLiteral("same prompt, same tokens: positions are linked") : bannerText();
}

// The order of A's rows, through the matching: what B can be sorted by as "as A".
void CompareView::followOrder() {
  std::vector<int> order;
  const auto& match = model_->match();
  if (match.why.empty()) {
    for (const int slot : pane_a_->rows().slot)
      if (size_t(slot) < match.b_of_a.size() && match.b_of_a[size_t(slot)] >= 0) order.push_back(match.b_of_a[size_t(slot)]);
    order.insert(order.end(), match.only_b.begin(), match.only_b.end());
  }
  pane_b_->setFollowedOrder(order);
}

void CompareView::followRanges() {
  if (following_) return;
  following_ = true;
  std::optional<std::pair<double, double>> range;
  const ColourScale a = pane_a_->ownScale(), b = pane_b_->ownScale();
  if (shared_ && a.valid && b.valid) range = {std::min(a.low, b.low), std::max(a.high, b.high)};
  pane_a_->setSharedRange(range);
  pane_b_->setSharedRange(range);
  pane_pair_->setSharedRange(layout_ == CompareLayout::overlay ? range : std::nullopt);
  following_ = false;
  showHeaders();
}

QString CompareView::sideDetails(bool b) const {
  const HeatmapView* pane = b ? pane_b_ : pane_a_;
  const CompareSide& side = b ? model_->b() : model_->a();
  if (!side.head) return {};
  QStringList parts;
  const ColourScale& scale = pane->colourScale();
  if (scale.valid)
    parts << QStringLiteral("range %1 – %2").arg(limitText(scale.left()), limitText(scale.right()));
  if (pane->quantity() != quantity_)
    parts << QStringLiteral("%1 shown: %2").arg(quantityName(pane->quantity()), emptyReason(*side.head, quantity_, pane->reference()));
  if (size_t(side.head->layer) < side.run->info().layers.size()) {
    for (const auto& spec : side.run->info().layers)
      if (spec.index == side.head->layer && spec.route_kind == "dense")
        parts << QStringLiteral("dense: every token writes every slot");
  }
  const auto& info = side.run->info();
  // A run that said <eos> came to its end with fewer tokens than were planned.
  const bool ended = side.run->trace && side.run->trace->status() == trace::Status::complete && !side.run->trace->writer_alive_or_dead();
  if (info.planned_tokens > info.tokens && !ended)
    parts << QStringLiteral("ends at token %1 of %2").arg(count(info.tokens), count(info.planned_tokens));
  return parts.join(QStringLiteral(" · "));
}

void CompareView::showHeaders() {
  const CompareSide &a = model_->a(), &b = model_->b();
  const auto layers = [](const CompareSide& side) { return side.run ? int(side.run->info().layers.size()) : 0; };
  const auto heads = [](const CompareSide& side, int layer) {
    if (!side.run || layer < 0 || size_t(layer) >= side.run->info().layers.size()) return 0;
    const auto& spec = side.run->info().layers[size_t(layer)];
    return int(std::clamp<int64_t>(spec.route_heads > 0 ? spec.route_heads : spec.heads, 0, 65536));
  };
  const Selection in_a = model_->selectionA()->current(), in_b = model_->selectionB()->current();
  header_a_->setSide(a.run ? a.run->model_name : QStringLiteral("nothing open"), layers(a), in_a.layer, heads(a, in_a.layer),
                     in_a.head);
  header_b_->setSide(b.run ? b.run->model_name : QStringLiteral("no second trace"), layers(b), in_b.layer,
                     heads(b, in_b.layer), in_b.head);
  header_a_->setDetails(sideDetails(false));
  header_b_->setDetails(sideDetails(true));
  header_b_->setShortcuts(b.run && model_->bestHead() != std::pair(in_b.layer, in_b.head),
                          b.run && (in_a.layer != in_b.layer || in_a.head != in_b.head));
}

QString CompareView::whyNot(CompareLayout layout) const {
  if (layout == CompareLayout::stacked || layout == CompareLayout::side_by_side) return {};
  if (layout == CompareLayout::difference) return model_->whyNoDifference();
  if (!model_->a().head || !model_->b().head) return QStringLiteral("an overlay needs two heads with routes");
  return model_->tokens().same_tokens ? QString() : QStringLiteral("an overlay needs the same tokens in both");
}

// What cannot be chosen stays in the lists, disabled, with the reason as tooltip.
void CompareView::refillBar() {
  const auto fill = [](QComboBox* box, const QVector<HeatmapChoice>& choices, int current) {
    const QSignalBlocker block(box);
    box->clear();
    auto* model = qobject_cast<QStandardItemModel*>(box->model());
    for (const auto& c : choices) {
      box->addItem(c.name, c.value);
      if (c.why.isEmpty()) continue;
      model->item(box->count() - 1)->setEnabled(false);
      model->item(box->count() - 1)->setToolTip(c.why);
    }
    box->setCurrentIndex(box->findData(current));
  };
  QVector<HeatmapChoice> layouts;
  const std::pair<CompareLayout, const char*> names[] = {{CompareLayout::stacked, "stacked"},
                                                         {CompareLayout::side_by_side, "side by side"},
                                                         {CompareLayout::overlay, "overlay"},
                                                         {CompareLayout::difference, "difference A − B"}};
  for (const auto& [kind, name] : names) layouts.push_back({int(kind), QString::fromUtf8(name), whyNot(kind)});
  fill(layout_box_, layouts, int(layout_));
  QVector<HeatmapChoice> quantities;
  for (HeatmapChoice choice : quantityChoices(model_->a().head.get()))
    if (choice.value >= 0) quantities.push_back(choice);
  fill(show_, quantities, int(quantity_));
  const QSignalBlocker block(ranges_);
  ranges_->setCurrentIndex(shared_ ? 1 : 0);
}

void CompareView::arrange() {
  maps_->setDirection(layout_ == CompareLayout::side_by_side ? QBoxLayout::LeftToRight : QBoxLayout::TopToBottom);
  const bool pair = paired();
  const QWidget* focused = QApplication::focusWidget();
  const bool had_focus = focused && (focused == pane_a_ || focused == pane_b_ || focused == pane_pair_);
  pane_a_->setVisible(!pair);
  pane_b_->setVisible(!pair);
  side_pair_->setVisible(pair);
  maps_->setStretchFactor(side_a_, pair ? 0 : 1);
  maps_->setStretchFactor(side_b_, pair ? 0 : 1);
  if (had_focus) (pair ? pane_pair_ : pane_a_)->setFocus();  // hiding would hand it to the next control
  pair_note_->setFixedHeight(int(std::lround(22 * Theme::current().base / 12)));
  key_->setFixedHeight(int(std::lround(kKeyPlotHeight * Theme::current().base / 12)));
}

void CompareView::setLayoutKind(CompareLayout layout) {
  if (layout == layout_ || !whyNot(layout).isEmpty()) return;
  layout_ = layout;
  following_ = true;
  pane_pair_->setQuantity(quantity_);
  following_ = false;
  arrange();
  followPair();
  followRanges();
  refillBar();
  key_->update();
  Q_EMIT layoutKindChanged();
}

void CompareView::wantLayoutKind(CompareLayout layout) {
  wanted_layout_ = layout;
  setLayoutKind(layout);
}

void CompareView::setQuantity(Quantity quantity) {
  quantity_ = quantity;
  following_ = true;
  for (HeatmapView* pane : {pane_a_, pane_b_}) {
    // What one of them cannot show stays as it is there; its header says so.
    bool can = false;
    for (const HeatmapChoice& c : quantityChoices(pane->headData().get()))
      can = can || (c.value == int(quantity) && c.why.isEmpty());
    if (can) pane->setQuantity(quantity);
  }
  pane_pair_->setQuantity(quantity);
  following_ = false;
  followPair();
  refillBar();
  followRanges();
  updateAccessibility();
}

void CompareView::setSharedRanges(bool shared) {
  shared_ = shared;
  followRanges();
  const QSignalBlocker block(ranges_);
  ranges_->setCurrentIndex(shared ? 1 : 0);
}

// Keys that reach the view itself belong to A.
void CompareView::keyPressEvent(QKeyEvent* event) {
  if (!model_ || passing_) return View::keyPressEvent(event);
  passing_ = true;  // what A does not want comes back here
  QKeyEvent copy(event->type(), event->key(), event->modifiers(), event->text(), event->isAutoRepeat());
  QCoreApplication::sendEvent(paired() ? pane_pair_ : pane_a_, &copy);
  passing_ = false;
  event->setAccepted(copy.isAccepted());
}

void CompareView::changeEvent(QEvent* event) {
  if ((event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) && model_) {
    header_a_->restyle();
    header_b_->restyle();
    arrange();
    showHeaders();
  }
  View::changeEvent(event);
}

void CompareView::resizeEvent(QResizeEvent* event) {
  View::resizeEvent(event);
  if (!model_) return;
  header_a_->restyle();
  header_b_->restyle();
}

void CompareView::focusInEvent(QFocusEvent* event) {
  View::focusInEvent(event);
  if (model_) (paired() ? pane_pair_ : pane_a_)->setFocus(event->reason());
}

void CompareView::updateAccessibility() {
  QString text = QStringLiteral("Compare");
  if (model_->complete()) {
    const Selection in_a = model_->selectionA()->current(), in_b = model_->selectionB()->current();
    text += QStringLiteral(", A %1 layer %2 head %3, %4, B %5 layer %6 head %7, %8")
                .arg(model_->a().run->model_name).arg(in_a.layer).arg(in_a.head)
                .arg(pane_a_->cellText(in_a.slot, in_a.token), model_->b().run->model_name).arg(in_b.layer).arg(in_b.head)
                .arg(model_->otherTokenMarked() ? pane_b_->cellText(in_b.slot, in_b.token)
                                                : QStringLiteral("no token corresponds"));
    const auto left = [](const analysis::KeyCurve& key) {
      return key.left.empty() ? QString::fromStdString(key.why) : share(key.at_query);
    };
    text += QStringLiteral(", key left at the query: A %1, B %2").arg(left(model_->a().key), left(model_->b().key));
    if (const QString note = QString::fromStdString(model_->tokens().note); !note.isEmpty()) text += QStringLiteral(", ") + note;
  } else {
    text += QStringLiteral(", no second trace is open");
  }
  setAccessibleDescription(text);
  if (key_) key_->setAccessibleDescription(text);
}

void CompareView::drawNow() {
  for (HeatmapView* pane : {pane_a_, pane_b_, pane_pair_}) pane->drawNow();
}

}  // namespace slotscope::views
