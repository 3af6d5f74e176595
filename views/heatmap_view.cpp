#include "views/heatmap_view.h"

#include <QComboBox>
#include <QFocusEvent>
#include <QLabel>
#include <QMenu>
#include <QPushButton>
#include <QResizeEvent>
#include <QStandardItemModel>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "views/colour_range.h"
#include "views/format.h"
#include "views/heatmap_plot.h"
#include "views/heatmap_tip.h"
#include "views/timeline_view.h"
#include "views/token_cells.h"

namespace slotscope::views {

HeatmapView::HeatmapView(SelectionModel* selection, Worker* worker, QWidget* parent)
    : View(selection, parent),
      worker_(worker),
      tag_(QStringLiteral("heatmap.%1").arg(quintptr(this), 0, 16)) {
  setAccessibleName(QStringLiteral("Heatmap"));
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  buildBar();
  layout->addWidget(bar_);
  plot_ = new HeatmapPlot(this);
  plot_->setMinimumSize(240, 120);
  plot_->setMouseTracking(true);
  plot_->installEventFilter(this);
  plot_->setScene([this] { return scene(QRectF(plot_->rect()), Theme::current()); });
  layout->addWidget(plot_, 1);
  rule_ = new QFrame(this);
  rule_->setFixedHeight(1);
  rule_->setProperty("ui", QStringLiteral("bar"));
  layout->addWidget(rule_);
  timeline_ = new TimelineView(selection, this);
  layout->addWidget(timeline_);
  connect(timeline_, &View::statusText, this, &View::statusText);

  tip_ = new HeatmapTip(this);
  tip_->setObjectName(QStringLiteral("heatmap-tip"));
  loading_bar_ = new MovingBar(this);
  message_page_ = new QWidget(this);
  auto* page = new QVBoxLayout(message_page_);
  message_label_ = new QLabel(message_page_);
  message_label_->setAlignment(Qt::AlignCenter);
  message_label_->setWordWrap(true);
  message_action_ = new QPushButton(message_page_);
  page->addStretch(1);
  page->addWidget(message_label_);
  page->addWidget(message_action_, 0, Qt::AlignCenter);
  page->addStretch(1);
  message_page_->setAutoFillBackground(true);
  connect(message_action_, &QPushButton::clicked, this, &View::messageAction);

  tip_timer_.setSingleShot(true);
  tip_timer_.setInterval(400);
  connect(&tip_timer_, &QTimer::timeout, this, &HeatmapView::showTip);
  loading_timer_.setSingleShot(true);
  loading_timer_.setInterval(80);  // quicker answers need no bar
  connect(&loading_timer_, &QTimer::timeout, this, &HeatmapView::updateStates);

  connect(selection, &SelectionModel::changed, this,
          [this](const Selection&, int parts) { selectionMoved(parts); });
  connect(selection, &SelectionModel::hoverChanged, this, [this] { plot_->refreshHover(); });
  connect(selection, &SelectionModel::brushChanged, this, [this] { plot_->refreshSelection(); });
  connect(selection, &SelectionModel::tokenRangeChanged, this, [this] {
    tip_->hide();
    requestGrid();
    updateAccessibility();
    const CellRange t = tokenRange(), r = row_range_;
    if (head_ && (t.second - t.first < axisTokens() || r.second - r.first < int64_t(rows_.slot.size())))
      Q_EMIT statusText(QStringLiteral("tokens %1 – %2 of %3   rows %4 – %5 of %6")
                            .arg(count(t.first), count(t.second - 1), count(axisTokens()), count(r.first),
                                 count(r.second - 1), count(qint64(rows_.slot.size()))));
  });
  map_ = colourMap(colours_.map, Theme::current().dark, colours_.reverse, colours_.soft);
  refillChoices();
  updateStates();
}

HeatmapView::~HeatmapView() = default;

QWidget* HeatmapView::plotWidget() const { return plot_; }

void HeatmapView::buildBar() {
  bar_ = new QFrame(this);
  bar_->setProperty("ui", QStringLiteral("bar"));
  bar_->setFixedHeight(37);
  auto* row = new QHBoxLayout(bar_);
  row->setContentsMargins(9, 0, 3, 0);
  row->setSpacing(6);
  const auto label = [&](const QString& text) {
    auto* l = new QLabel(text, bar_);
    l->setProperty("ui", QStringLiteral("text2"));
    row->addWidget(l);
    return l;
  };
  const auto combo = [&](const QString& name, int width) {
    auto* c = new QComboBox(bar_);
    c->setAccessibleName(name);
    c->setFixedHeight(26);
    c->setMinimumWidth(width);
    row->addWidget(c);
    return c;
  };
  label(QStringLiteral("Show"))->setBuddy(show_ = nullptr);
  show_ = combo(QStringLiteral("Show"), 146);
  label(QStringLiteral("Sort"));
  sort_box_ = combo(QStringLiteral("Sort"), 134);
  row->addStretch(1);
  colour_bar_ = new ColourBar(bar_);
  row->addWidget(colour_bar_);
  connect(show_, &QComboBox::activated, this, [this](int i) {
    const int value = show_->itemData(i).toInt();
    if (value >= 0) setQuantity(Quantity(value));
  });
  connect(sort_box_, &QComboBox::activated, this,
          [this](int i) { setSort(HeatmapSort(sort_box_->itemData(i).toInt())); });
  connect(colour_bar_, &ColourBar::clicked, this, &HeatmapView::openColourRange);
  connect(colour_bar_, &ColourBar::badClicked, this, &HeatmapView::selectFirstNan);
  connect(colour_bar_, &ColourBar::rangeDragged, this, [this](double low, double high) {
    ColourSettings s = colours_;
    s.mode = RangeMode::typed, s.low = low, s.high = high;
    setColours(s);
  });
}

// Choices that do not apply stay in the list, disabled, with the reason as tooltip.
void HeatmapView::refillChoices() {
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
  fill(show_, quantityChoices(head_.get()), int(quantity_));
  fill(sort_box_, sortChoices(head_.get(), reference(), !followed_.empty()), int(sort_));
}

int64_t HeatmapView::tokens() const {
  return !head_ ? 0 : cells_ ? std::max(head_->writes.tokens, axis_tokens_) : head_->writes.tokens;
}
int64_t HeatmapView::axisTokens() const { return std::max(tokens(), axis_tokens_); }
int64_t HeatmapView::query() const { return run_ ? run_->info().prompt_tokens - 1 : -1; }

CellRange HeatmapView::tokenRange() const {
  const auto [first, last] = selection_->tokenRange();
  return last > first ? clampRange({first, last}, axisTokens())
                      : CellRange{0, std::max<int64_t>(1, axisTokens())};
}

void HeatmapView::setRun(std::shared_ptr<const RunData> run) {
  View::setRun(run);
  timeline_->setRun(std::move(run));
  headChanged();
}

void HeatmapView::setHead(std::shared_ptr<const HeadData> head) {
  View::setHead(head);
  timeline_->setHead(std::move(head));
  headChanged();
}

void HeatmapView::headChanged() {
  tip_->hide();
  if (head_) {
    // What this head cannot show falls back to the route weights, which every sparse head has.
    for (const auto& c : quantityChoices(head_.get()))
      if (c.value == int(quantity_) && !c.why.isEmpty()) quantity_ = Quantity::route_weight;
    for (const auto& c : sortChoices(head_.get(), reference(), !followed_.empty()))
      if (c.value == int(sort_) && !c.why.isEmpty()) sort_ = HeatmapSort::class_then_esl;
  } else {
    picture_ = overview_ = {};
    shown_ = nullptr;
    samples_ = nullptr;
    plot_->clearGrid();
  }
  refillChoices();
  orderChanged();
  samplesChanged();
  updateStates();
}

// New rows: the visible part stays where it was when it was a part, else everything is shown.
void HeatmapView::orderChanged() {
  const bool all = row_range_.second - row_range_.first >= int64_t(rows_.slot.size());
  const size_t before = rows_.slot.size();
  rows_ = head_ && cells_ ? cells_->rows
          : head_ ? sort_ == HeatmapSort::as_a && !followed_.empty()
                      ? rowsInOrder(*head_, followed_)
                      : sortRows(*head_, sort_, reference(), hide_empty_)
                : HeatmapRows{};
  const int64_t n = int64_t(rows_.slot.size());
  row_range_ =
      all || rows_.slot.size() != before ? CellRange{0, std::max<int64_t>(1, n)} : clampRange(row_range_, n);
  margin_ = head_ ? marginValues(*head_, margin_kind_, reference()) : std::vector<double>();
  invalidate();
  requestOverview();
  requestGrid();
  Q_EMIT rowsChanged();
}

void HeatmapView::samplesChanged() { requestSamples(); }

void HeatmapView::colourChanged() {
  map_ = cells_ && cells_->diverging ? divergingMap(Theme::current().dark)
                                     : colourMap(colours_.map, Theme::current().dark, colours_.reverse, colours_.soft);
  ColourState state;
  state.settings = colours_;
  state.colours = map_;
  if (samples_) {
    scale_ = ownScale();
    if (shared_range_ && scale_.valid) {
      ColourSettings limits = colours_;
      limits.mode = RangeMode::typed, limits.low = shared_range_->first, limits.high = shared_range_->second;
      scale_ = ColourScale::make(*samples_, shown_, limits);
    }
    ColourSettings whole = colours_;
    whole.mode = RangeMode::min_max;
    const ColourScale all = ColourScale::make(*samples_, nullptr, whole);
    state.data_low = all.low, state.data_high = all.high;
    state.histogram = placedHistogram(*samples_, all, 40);
    state.finite = samples_->finite_cells, state.nan = samples_->nan_cells, state.inf = samples_->inf_cells;
  } else {
    scale_ = {};
  }
  state.scale = scale_;
  colour_bar_->setState(state);
  if (range_editor_) range_editor_->setState(state);
  showPicture(true);
  Q_EMIT scaleChanged();
}

ColourScale HeatmapView::ownScale() const {
  return scaleOf(shown_);
}

ColourScale HeatmapView::scaleOf(const SlotGrid* visible) const {
  if (!samples_) return {};
  if (!cells_ || !cells_->diverging) return ColourScale::make(*samples_, visible, colours_);
  ColourScale scale;
  scale.valid = samples_->finite_cells > 0;
  const double most = std::max(std::abs(samples_->min), std::abs(samples_->max));
  scale.high = most > 0 ? most : 1;
  scale.low = -scale.high;
  return scale;
}

void HeatmapView::setCells(std::shared_ptr<const CellSource> cells) {
  if (cells == cells_) return;
  cells_ = std::move(cells);
  tip_->hide();
  orderChanged();
  samplesChanged();
  updateAccessibility();
}

void HeatmapView::setPane(bool pane) {
  pane_ = pane;
  bar_->setVisible(!pane);
  timeline_->setVisible(!pane);
  rule_->setVisible(!pane);
  plot_->setMinimumSize(pane ? QSize(160, 60) : QSize(240, 120));
  requestGrid();
}

void HeatmapView::setAxisTokens(int64_t tokens) {
  if (tokens == axis_tokens_) return;
  axis_tokens_ = tokens;
  requestGrid();
  plot_->refresh();
}

void HeatmapView::setTokenMarked(bool marked) {
  if (marked == token_marked_) return;
  token_marked_ = marked;
  plot_->refresh();
}

void HeatmapView::setSharedRange(std::optional<std::pair<double, double>> range) {
  if (range == shared_range_) return;
  shared_range_ = range;
  colourChanged();
}

void HeatmapView::setFollowedOrder(std::vector<int> slots) {
  if (slots == followed_) return;
  followed_ = std::move(slots);
  if (followed_.empty() && sort_ == HeatmapSort::as_a) sort_ = HeatmapSort::class_then_esl;
  refillChoices();
  if (sort_ == HeatmapSort::as_a || followed_.empty()) orderChanged();
}

std::optional<HeatmapScene> HeatmapView::scene(const QRectF& area, const Theme& theme) const {
  if (!head_ || rows_.slot.empty() || tokens() <= 0) return std::nullopt;
  HeatmapScene s;
  s.geometry = geometryFor(area, theme.base / 12, plot_->devicePixels(), plot_->devicePixels());
  s.theme = &theme;
  s.run = run_ ? &run_->info() : nullptr;
  s.head = head_.get();
  s.rows = &rows_;
  const Picture& picture = pictureFor({tokenRange().first, std::min(tokenRange().second, tokens())}, row_range_);
  s.grid = picture.grid.get();
  s.grid_row = picture.rows.first;
  s.empty = emptyReason(*head_, quantity_, reference());
  s.scale = scale_;
  s.colours = map_;
  s.margin_kind = margin_kind_;
  s.margin = &margin_;
  s.selection = selection_->current();
  if (!token_marked_) s.selection.token = -1;
  s.hover_slot = selection_->hoverSlot();
  s.hover_token = selection_->hoverToken();
  if (const auto b = selection_->brush()) s.brush = CellRange(b->first, b->second);
  s.rubber = rubber_;
  if (cells_) {
    s.slot_names = &cells_->names;
    s.slot_classes = &cells_->classes;
    if (cells_->over && picture.grid && picture.over)
      s.blend = blendImage(*picture.grid, scale_, *picture.over, cells_->over_scale(), theme);
  }
  s.focus_ring = focus_ring_;
  return s;
}

HeatmapGeometry HeatmapView::geometryFor(const QRectF& area, double scale, double pixels_x,
                                         double pixels_y) const {
  CellRange visible = tokenRange(), rows = row_range_;
  const HeatmapGeometry g = HeatmapGeometry::make(area, visible, rows, scale, pane_);
  visible = wholeColumns(
      visible, tokensPerColumn(visible.second - visible.first, int(g.plot.width() * pixels_x + 1e-6)));
  const int64_t per_row = tokensPerColumn(rows.second - rows.first, int(g.plot.height() * pixels_y + 1e-6));
  rows.second = rows.first + (rows.second - rows.first + per_row - 1) / per_row * per_row;
  return HeatmapGeometry::make(area, visible, rows, scale, pane_);
}

HeatmapGeometry HeatmapView::plotGeometry() const {
  return geometryFor(QRectF(plot_->rect()), Theme::current().base / 12, plot_->devicePixels(),
                     plot_->devicePixels());
}

void HeatmapView::selectionMoved(int parts) {
  if (!head_) return;
  const bool token = parts & SelectionModel::Token;
  if (token && margin_kind_ == MarginKind::read_weight)
    margin_ = marginValues(*head_, margin_kind_, reference());
  if (token) refillChoices();
  if (token && sort_ == HeatmapSort::read_weight) orderChanged();
  if (token && needsReference(quantity_)) {
    invalidate();
    requestSamples();
    requestOverview();
    requestGrid();
  }
  if (parts & (SelectionModel::Token | SelectionModel::Slot)) followSelection();
  // The ESL bar of the selected slot has its colour, and tick labels make room for the chip: the overlay
  // changes too.
  plot_->refresh();
  updateAccessibility();
}

// A selection made elsewhere is brought into view by moving the window, not by zooming.
void HeatmapView::followSelection() {
  if (following_ || drag_ != Drag::None) return;
  following_ = true;
  const auto& s = selection_->current();
  const CellRange t = tokenRange();
  const int64_t width = t.second - t.first;
  if (width < axisTokens() && (s.token < t.first || s.token >= t.second)) {
    const bool near = s.token >= t.first - width && s.token < t.second + width;
    const int64_t first = !near               ? s.token - width / 2
                          : s.token < t.first ? s.token - width / 8
                                              : s.token - width + 1 + width / 8;
    setTokenRange({first, first + width}, true);
  }
  const int64_t row = size_t(s.slot) < rows_.row_of.size() ? rows_.row_of[size_t(s.slot)] : -1;
  const int64_t rows = row_range_.second - row_range_.first;
  if (row >= 0 && (row < row_range_.first || row >= row_range_.second)) {
    const int64_t first = row < row_range_.first ? row : row - rows + 1;
    setRowRange({first, first + rows});
  }
  following_ = false;
}

void HeatmapView::setQuantity(Quantity quantity) {
  if (quantity == quantity_) return;
  quantity_ = quantity;
  // Limits that were typed for another quantity mean nothing here.
  if (colours_.mode == RangeMode::typed) colours_.mode = RangeMode::percentile;
  shared_range_.reset();
  refillChoices();
  invalidate();
  requestSamples();
  requestOverview();
  requestGrid();
  Q_EMIT quantityChanged(quantity_);
}

void HeatmapView::setSort(HeatmapSort sort) {
  if (sort == sort_) return;
  sort_ = sort;
  refillChoices();
  orderChanged();
  plot_->refresh();
}

void HeatmapView::setPooling(analysis::Pooling pooling) {
  if (pooling == pooling_) return;
  pooling_ = pooling;
  invalidate();
  requestOverview();
  requestGrid();
}

void HeatmapView::setColours(const ColourSettings& settings) {
  if (settings == colours_) return;
  colours_ = settings;
  colourChanged();
}

void HeatmapView::setMarginKind(MarginKind kind) {
  margin_kind_ = kind;
  if (head_) margin_ = marginValues(*head_, kind, reference());
  plot_->refresh();
}

void HeatmapView::setHideEmptySlots(bool hide) {
  if (hide == hide_empty_) return;
  hide_empty_ = hide;
  orderChanged();
  plot_->refresh();
}

void HeatmapView::setRowRange(CellRange rows) {
  const CellRange next = clampRange(rows, int64_t(rows_.slot.size()));
  if (next == row_range_) return;
  row_range_ = next;
  tip_->hide();
  requestGrid();
}

void HeatmapView::setTokenRange(CellRange range, bool merge) {
  const CellRange next = clampRange(range, axisTokens());
  selection_->setTokenRange(next.first, next.second, merge);
}

void HeatmapView::zoomToAll() {
  setRowRange({0, int64_t(rows_.slot.size())});
  setTokenRange({0, axisTokens()});
}

void HeatmapView::zoomToTokens(qint64 centre, qint64 width) {
  setTokenRange(centreRange(centre, width, axisTokens()));
}

void HeatmapView::selectFirstNan() {
  if (!head_) return;
  const auto [slot, token] = firstNan(*head_, quantity_, reference());
  if (slot >= 0) selection_->request({.slot = slot, .token = token});
}

void HeatmapView::openColourRange() {
  if (!range_editor_) {
    range_editor_ = new ColourRangeEditor(this);
    connect(range_editor_, &ColourRangeEditor::changed, this, &HeatmapView::setColours);
    range_editor_->setState(colour_bar_->state());
  }
  range_editor_->openAt(
      colour_bar_->mapToGlobal(QPoint(colour_bar_->width() - 2, colour_bar_->height() + 6)));
}

void HeatmapView::setMessage(const QString& text, const QString& button) {
  View::setMessage(text, button);
  updateStates();
}

void HeatmapView::setLoading(bool loading, const QString& stage) {
  View::setLoading(loading, stage);
  updateStates();
}

// Which of plot, message and moving bar is seen.
void HeatmapView::updateStates() {
  QString text = message_;
  if (text.isEmpty() && !loading_) {
    if (!run_ && !head_)
      text = QStringLiteral("No run is open.");
    else if (head_ && tokens() <= 0)
      text = QStringLiteral("This run has no tokens.");
    else if (head_ && rows_.slot.empty())
      text = QStringLiteral("All slots of this head are empty and hidden.");
  }
  if (text.isEmpty() && loading_ && !head_)
    text = loading_stage_.isEmpty() ? QStringLiteral("reading routes") : loading_stage_;
  message_label_->setText(text);
  message_action_->setText(message_button_);
  message_action_->setVisible(!message_button_.isEmpty());
  QFont font = Theme::current().ui;
  font.setPixelSize(font.pixelSize() + 1);
  message_label_->setFont(font);
  QPalette palette = message_page_->palette();
  palette.setColor(QPalette::Window, Theme::current().surface);
  message_page_->setPalette(palette);
  message_page_->setVisible(!text.isEmpty());
  message_page_->setGeometry(plot_->geometry());
  message_page_->raise();
  const bool moving = loading_ || (waiting_ > 0 && !loading_timer_.isActive());
  loading_bar_->setVisible(moving);
  loading_bar_->setGeometry(0, pane_ ? 0 : bar_->height() - 1, width(), 2);
  loading_bar_->raise();
}

void HeatmapView::updateAccessibility() {
  const auto& s = selection_->current();
  setAccessibleDescription(
      head_ ? QStringLiteral("layer %1 head %2, %3").arg(s.layer).arg(s.head).arg(cellText(s.slot, s.token))
            : QString());
}

void HeatmapView::resizeEvent(QResizeEvent*) {
  updateStates();
  tip_->hide();
  QMetaObject::invokeMethod(
      this, [this] { requestGrid(); }, Qt::QueuedConnection);
}

// The ring is for the keyboard: a click shows by what it selects.
void HeatmapView::focusInEvent(QFocusEvent* event) {
  focus_ring_ = event->reason() == Qt::TabFocusReason || event->reason() == Qt::BacktabFocusReason ||
                event->reason() == Qt::ShortcutFocusReason;
  plot_->refreshHover();
  View::focusInEvent(event);
}

void HeatmapView::focusOutEvent(QFocusEvent* event) {
  focus_ring_ = false;
  plot_->refreshHover();
  View::focusOutEvent(event);
}

void HeatmapView::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange && plot_ && colour_bar_ && message_page_) {
    plot_->applyTheme(Theme::current());
    colourChanged();
    plot_->refresh();
  }
  View::changeEvent(event);
}

void HeatmapView::drawNow() {
  requestGrid();
  showPicture();
  plot_->replotNow();
}

QString HeatmapView::cellText(int slot, qint64 token) const {
  if (cells_ && head_ && slot >= 0 && token >= 0) return cells_->text(slot, token);
  if (!head_ || token < 0 || token >= tokens()) return {};
  QString text;
  if (slot >= 0) text = QStringLiteral("slot %1 × ").arg(count(slot));
  text += QStringLiteral("token %1").arg(count(token));
  if (run_ && token < run_->info().tokens)
    text += QStringLiteral(" ") + tokenTitle(run_->info(), token);
  if (slot < 0) return text;
  const QString gap = QStringLiteral("   ");
  const auto value = cellValue(*head_, quantity_, slot, token, reference());
  if (!value) return text + gap + QStringLiteral("not routed");
  text += gap + quantitySymbol(quantity_) + QStringLiteral(" = ") +
          (std::isnan(*value)                ? QStringLiteral("NaN")
           : quantity_ == Quantity::log_gate ? signedNumber(*value, 4)
                                             : strength(*value, 4));
  if (head_->writes.has_gates && token <= query())
    if (const auto left = cellValue(*head_, Quantity::survival_at, slot, token, query()))
      text += gap + QStringLiteral("left at query ") + share(*left);
  return text;
}

void HeatmapView::fillMenu(QMenu* menu) {
  const auto choice = [&](QMenu* into, const QString& text, bool on, auto act) {
    QAction* action = into->addAction(text, this, act);
    action->setCheckable(true);
    action->setChecked(on);
  };
  choice(menu, QStringLiteral("Hide empty slots"), hide_empty_, [this] { setHideEmptySlots(!hide_empty_); });
  QMenu* pooling = menu->addMenu(QStringLiteral("Reduction"));
  choice(pooling, QStringLiteral("Largest of each column"), pooling_ == analysis::Pooling::maximum,
         [this] { setPooling(analysis::Pooling::maximum); });
  choice(pooling, QStringLiteral("Mean of each column"), pooling_ == analysis::Pooling::mean,
         [this] { setPooling(analysis::Pooling::mean); });
  QMenu* margin = menu->addMenu(QStringLiteral("Bars at the right"));
  for (const auto kind :
       {MarginKind::esl, MarginKind::tokens_held, MarginKind::read_weight, MarginKind::last_write})
    choice(margin, marginName(kind), margin_kind_ == kind, [this, kind] { setMarginKind(kind); });
  menu->addAction(QStringLiteral("Colour range"), this, &HeatmapView::openColourRange);
  menu->addAction(QStringLiteral("Show everything"), this, &HeatmapView::zoomToAll);
}

}  // namespace slotscope::views
