#include "app/window/selection_bar.h"

#include <QAction>
#include <QClipboard>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QMenu>
#include <algorithm>
#include <cmath>

#include "app/window/icons.h"
#include "views/format.h"
#include "views/theme.h"

namespace slotscope::app {

using views::SelectionRequest;
using views::Theme;

std::vector<int> slotOrder(const analysis::HeadData& head) { return head.allocation.order; }

QString quotedToken(const trace::RunInfo& info, qint64 token) {
  if (token < 0 || token >= info.tokens) return {};
  const QString text = views::tokenText(info.token_bytes(token));
  return text.isEmpty() ? QString() : QStringLiteral("“%1”").arg(text);
}

namespace {

QToolButton* historyButton(const QString& tip, QWidget* parent) {
  auto* button = new QToolButton(parent);
  button->setProperty("ui", "quiet");
  button->setFixedSize(28, 28);
  button->setToolTip(tip);
  button->setAccessibleName(tip);
  return button;
}

QPushButton* barButton(const QString& text, int width, const char* ui, QWidget* parent) {
  auto* button = new QPushButton(text, parent);
  button->setProperty("ui", ui);
  button->setProperty("designWidth", width);
  button->setProperty("designText", text);
  return button;
}

}  // namespace

SelectionBar::SelectionBar(views::SelectionModel* selection, QWidget* parent)
    : QFrame(parent), selection_(selection) {
  setProperty("ui", "selection-bar");
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(7, 0, 8, 0);
  row->setSpacing(6);
  back = historyButton("Back in the selection history (Alt+Left)", this);
  forward = historyButton("Forward in the selection history (Alt+Right)", this);
  model_ = new ListChip(146, this);
  prompt_ = new ListChip(148, this);
  layer = new StepChip("Layer", 98, this);
  head = new StepChip("Head", 96, this);
  slot = new StepChip("Slot", 98, this);
  token = new StepChip("Token", 142, this);
  search = barButton("Ctrl+K", 92, "button", this);
  compare = barButton("Compare", 100, "button", this);
  figure = barButton("Figure…", 98, "button", this);
  run = barButton("Run", 76, "primary", this);
  // Its seat is kept; what it opens is not part of this version.
  search->setEnabled(false);
  search->setToolTip("Find (Ctrl+K): the command palette is not part of this version");
  search->setAccessibleName("Find");
  compare->setCheckable(true);
  compare->setAccessibleName("Compare");
  compare->setToolTip("Compare with a second trace (Ctrl+D)");
  figure->setAccessibleName("Figure");
  figure->setToolTip("Export the current view as a figure (Ctrl+E)");

  row->addWidget(back);
  row->addSpacing(-2);
  row->addWidget(forward);
  row->addWidget(model_);
  row->addWidget(prompt_);
  row->addSpacing(4);
  for (StepChip* chip : {layer, head, slot, token}) row->addWidget(chip);
  row->addStretch(1);
  row->addWidget(search);
  row->addWidget(compare);
  row->addSpacing(4);
  row->addWidget(figure);
  row->addWidget(run);

  connect(back, &QToolButton::clicked, selection_, &views::SelectionModel::back);
  connect(forward, &QToolButton::clicked, selection_, &views::SelectionModel::forward);
  connect(figure, &QPushButton::clicked, this, &SelectionBar::figureClicked);
  connect(run, &QPushButton::clicked, this, [this] {
    if (running_)
      Q_EMIT cancelClicked();
    else
      Q_EMIT runClicked();
  });
  connect(layer, &StepChip::stepRequested, this,
          [this](int n) { selection_->request({.layer = selection_->current().layer + n}); });
  connect(head, &StepChip::stepRequested, this,
          [this](int n) { selection_->request({.head = selection_->current().head + n}); });
  connect(slot, &StepChip::stepRequested, this, &SelectionBar::stepSlot);
  connect(token, &StepChip::stepRequested, this,
          [this](int n) { selection_->request({.token = selection_->current().token + n}); });
  for (StepChip* chip : {layer, head, slot, token}) {
    connect(chip, &StepChip::textEntered, this, [this, chip](const QString& text) { entered(chip, text); });
    connect(chip, &StepChip::menuRequested, this, [this, chip](const QPoint& at) { showMenu(chip, at); });
  }
  connect(selection_, &views::SelectionModel::changed, this, &SelectionBar::refresh);
  connect(selection_, &views::SelectionModel::historyChanged, this, &SelectionBar::refresh);
  setModelName({});
  setPromptName({});
  restyle();
  refresh();
}

void SelectionBar::restyle() {
  const Theme& t = Theme::current();
  const double base = t.base;
  setFixedHeight(int(std::lround(42 * base / 12)));
  back->setIcon(icon("back"));
  forward->setIcon(icon("forward"));
  search->setIcon(icon("search"));
  compare->setIcon(icon("compare"));
  figure->setIcon(icon("figure"));
  run->setIcon(icon(running_ ? "stop" : "play", t.onInk));
  for (StepChip* chip : {layer, head, slot, token}) chip->setBaseFont(base);
  model_->setBaseFont(base);
  prompt_->setBaseFont(base);
  fitButtons();
}

// Where there is no room for their words, the quiet buttons keep their icons; the words are in the tooltips.
void SelectionBar::fitButtons() {
  const double scale = Theme::current().base / 12;
  const auto px = [&](double v) { return int(std::lround(v * scale)); };
  const auto needed = [&](QPushButton* b, bool words) {
    return words ? px(b->property("designWidth").toInt()) : px(34);
  };
  int chips = px(846);
  for (const int words : {3, 1, 0}) {  // all; Figure alone; none
    QPushButton* quiet[] = {figure, compare, search};
    int total = chips + px(running_ ? 92 : 76) + px(30);
    for (int i = 0; i < 3; ++i) total += needed(quiet[i], i < words);
    if (words > 0 && total > width()) continue;
    for (int i = 0; i < 3; ++i) {
      quiet[i]->setText(i < words ? quiet[i]->property("designText").toString() : QString());
      quiet[i]->setFixedSize(needed(quiet[i], i < words), px(28));
    }
    break;
  }
  run->setFixedSize(px(running_ ? 92 : 76), px(28));
}

void SelectionBar::resizeEvent(QResizeEvent* event) {
  QFrame::resizeEvent(event);
  fitButtons();
}

void SelectionBar::setModelName(const QString& name) {
  model_->setShown(name.isEmpty() ? QStringLiteral("– no model") : name);
}

void SelectionBar::setPromptName(const QString& name) {
  prompt_->setShown(name.isEmpty() ? QStringLiteral("– no prompt") : name);
}

void SelectionBar::setRun(std::shared_ptr<const views::RunData> run_data) {
  run_ = std::move(run_data);
  head_data_ = nullptr;
  refresh();
}

void SelectionBar::setHead(std::shared_ptr<const analysis::HeadData> data) {
  head_data_ = std::move(data);
  refresh();
}

void SelectionBar::setRunning(bool running) {
  running_ = running;
  run->setText(running ? "Cancel" : "Run");
  run->setToolTip(running ? "Stop after this segment (Ctrl+.)" : "Run the prompt of the Run panel (Ctrl+R)");
  run->setIcon(icon(running ? "stop" : "play", Theme::current().onInk));
  fitButtons();
}

void SelectionBar::setRunEnabled(bool enabled, const QString& why) {
  run->setEnabled(enabled);
  if (!enabled) run->setToolTip(why);
}

void SelectionBar::refresh() {
  const views::Selection s = selection_->current();
  back->setEnabled(selection_->canGoBack());
  forward->setEnabled(selection_->canGoForward());
  const QString nothing = "Nothing is open";
  if (!run_) {
    for (StepChip* chip : {layer, head, slot, token}) {
      chip->setCount(0);
      chip->setValue(0, {}, false, nothing);
    }
    return;
  }
  const trace::RunInfo& info = run_->info();
  layer->setCount(qint64(info.layers.size()));
  layer->setValue(s.layer, {}, !info.layers.empty(), "This trace has no layers");
  const trace::LayerSpec* spec = nullptr;
  if (size_t(s.layer) < info.layers.size()) spec = &info.layers[size_t(s.layer)];
  const bool routed = spec && spec->slots > 0 && spec->route_kind != "none";
  const QString why =
      spec
          ? QString("Layer %1 is %2: it has no routes").arg(s.layer).arg(QString::fromStdString(spec->family))
          : nothing;
  head->setCount(spec ? std::max<qint64>(spec->route_heads, 0) : 0);
  head->setValue(s.head, {}, spec && spec->route_heads > 0, why);
  slot->setCount(routed ? spec->slots : 0);
  slot->setValue(s.slot, {}, routed, why);
  token->setCount(info.tokens);
  token->setValue(s.token, quotedToken(info, s.token), info.tokens > 0, "This trace holds no token");
}

void SelectionBar::stepSlot(int steps) { selection_->request({.slot = selection_->current().slot + steps}); }

void SelectionBar::entered(StepChip* chip, const QString& text) {
  bool is_number = false;
  const qlonglong n = text.toLongLong(&is_number);
  if (is_number) {
    SelectionRequest wanted;
    if (chip == layer) wanted.layer = int(std::clamp<qlonglong>(n, 0, INT_MAX));
    if (chip == head) wanted.head = int(std::clamp<qlonglong>(n, 0, INT_MAX));
    if (chip == slot) wanted.slot = int(std::clamp<qlonglong>(n, 0, INT_MAX));
    if (chip == token) wanted.token = n;
    selection_->request(wanted);
    return;
  }
  if (chip != token) {
    Q_EMIT problem(QString("“%1” is not a number").arg(text));
    return;
  }
  QString wanted = text;
  if (wanted.startsWith('"') || wanted.startsWith(QChar(0x201C))) wanted.remove(0, 1);
  if (wanted.endsWith('"') || wanted.endsWith(QChar(0x201D))) wanted.chop(1);
  if (!jumpToText(wanted)) Q_EMIT problem(QString("No token after this one begins with “%1”").arg(wanted));
}

bool SelectionBar::jumpToText(const QString& text) {
  if (!run_ || text.isEmpty()) return false;
  const trace::RunInfo& info = run_->info();
  const std::string wanted = text.toStdString();
  const std::string_view all(reinterpret_cast<const char*>(info.bytes.data()), info.bytes.size());
  if (info.tokens <= 0 || int64_t(info.byte_offsets.size()) <= info.tokens) return false;
  // The next place after the start of the selected token; from the beginning when there is none.
  const auto from = size_t(info.byte_offsets[size_t(selection_->current().token)]) + 1;
  size_t at = from < all.size() ? all.find(wanted, from) : std::string_view::npos;
  if (at == std::string_view::npos) at = all.find(wanted);
  if (at == std::string_view::npos) return false;
  const auto after = std::upper_bound(info.byte_offsets.begin(), info.byte_offsets.end(), int64_t(at));
  const qint64 found = std::clamp<qint64>(after - info.byte_offsets.begin() - 1, 0, info.tokens - 1);
  selection_->request({.token = found});
  return true;
}

void SelectionBar::showMenu(StepChip* chip, const QPoint& at) {
  auto* menu = new QMenu(this);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  const auto request = [this, chip](qint64 n) {
    SelectionRequest wanted;
    if (chip == layer) wanted.layer = int(n);
    if (chip == head) wanted.head = int(n);
    if (chip == slot) wanted.slot = int(n);
    if (chip == token) wanted.token = n;
    selection_->request(wanted);
  };
  menu->addAction("Copy", this, [chip] { QGuiApplication::clipboard()->setText(chip->shownText()); });
  menu->addAction("Edit", chip, [chip] { chip->edit(); });
  menu->addSeparator();
  menu->addAction("First", this, [request] { request(0); });
  menu->addAction("Last", this, [request] { request(INT_MAX); });
  if (chip == slot && head_data_) {
    const auto& classes = head_data_->allocation.slot_class;
    const auto& order = head_data_->allocation.order;
    const int now = selection_->current().slot;
    menu->addAction("Next of the same class", this, [=] {
      const auto place = std::find(order.begin(), order.end(), now);
      if (place == order.end()) return;
      for (size_t step = 1; step <= order.size(); ++step) {
        const int candidate = order[(size_t(place - order.begin()) + step) % order.size()];
        if (classes[size_t(candidate)] == classes[size_t(now)]) return request(candidate);
      }
    });
  }
  if (chip == token && run_) {
    menu->addAction("Next of the same role", this, [this, request] {
      const auto& roles = run_->info().roles;
      const qint64 now = selection_->current().token;
      for (qint64 t = now + 1; t < qint64(roles.size()); ++t)
        if (roles[size_t(t)] == roles[size_t(now)]) return request(t);
    });
  }
  menu->popup(at);
}

}  // namespace slotscope::app
