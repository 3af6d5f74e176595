// Keys and what they do to the selection (design: section 14). They come here only when the focused control
// did not want them.
#include <QCoreApplication>
#include <QKeyEvent>
#include <QMouseEvent>
#include <algorithm>

#include "app/window/docks.h"
#include "app/window/main_window.h"
#include "app/window/selection_bar.h"

namespace slotscope::app {

void MainWindow::keyPressEvent(QKeyEvent* event) {
  if (!handleKey(event)) QWidget::keyPressEvent(event);
}

bool MainWindow::handleKey(QKeyEvent* event) {
  const bool shift = event->modifiers() & Qt::ShiftModifier, ctrl = event->modifiers() & Qt::ControlModifier;
  if (event->modifiers() & (Qt::AltModifier | Qt::MetaModifier)) return false;
  const views::Selection s = selection_.current();
  const bool held = event->isAutoRepeat();  // a held arrow is one step of history
  const auto layer = [&](int step) { selection_.request({.layer = s.layer + step}, held); };
  const auto head = [&](int step) { selection_.request({.head = s.head + step}, held); };
  switch (event->key()) {
    case Qt::Key_Left:
    case Qt::Key_Right: {
      const int direction = event->key() == Qt::Key_Left ? -1 : 1;
      if (ctrl)
        stepSameRole(direction);
      else
        selection_.request({.token = s.token + direction * (shift ? 10 : 1)}, held);
      return true;
    }
    case Qt::Key_Up:
      return stepSlot(shift ? -10 : -1, held), true;
    case Qt::Key_Down:
      return stepSlot(shift ? 10 : 1, held), true;
    case Qt::Key_PageUp:
      return layer(-1), true;
    case Qt::Key_PageDown:
      return layer(1), true;
    case Qt::Key_Home:
      return selection_.request({.token = 0}, held), true;
    case Qt::Key_End:
      return selection_.request({.token = INT64_MAX}, held), true;
    case Qt::Key_Escape:
      if (selection_.brush())
        selection_.setBrush(std::nullopt);
      else
        zoomAll();
      return true;
    default:
      break;
  }
  if (ctrl) return false;
  const QString text = event->text();
  if (text.size() != 1) return false;
  switch (text[0].toLower().unicode()) {
    case '[':
      return head(-1), true;
    case ']':
      return head(1), true;
    case '{':
      return layer(-1), true;
    case '}':
      return layer(1), true;
    case 'k':
      return jumpToSpan("key"), true;
    case 'q':
      return jumpToSpan("query"), true;
    case 'a':
      return jumpToSpan("answer"), true;
    case 'w':
      return controller_->lastWriter(), true;
    case 'r':
      return controller_->strongestReader(), true;
    case 'b':
      return controller_->bestHead(), true;
    case '+':
    case '=':
      return zoomTokens(1 / 1.5), true;
    case '-':
      return zoomTokens(1.5), true;
    case '0':
      return zoomAll(), true;
    case 's':
    case 'c':
    case 'l':
    case ' ':
    case '.':
    case ',':
      return passToHeatmap(event);
    default:
      return false;
  }
}

// Sort, quantity, log range and playback are the heatmap's own, wherever the focus is.
bool MainWindow::passToHeatmap(QKeyEvent* event) {
  views::View* view = currentView();
  if (passing_ || !view || (view->figureKind() != "heatmap" && view->figureKind() != "compare")) return false;
  passing_ = true;  // what it does not want comes back here
  QKeyEvent copy(event->type(), event->key(), event->modifiers(), event->text(), event->isAutoRepeat());
  QCoreApplication::sendEvent(view, &copy);
  passing_ = false;
  return copy.isAccepted();
}

// Ctrl+F and F3 are the prompt's search, wherever the focus is.
void MainWindow::passToPrompt(int key, Qt::KeyboardModifiers modifiers) {
  views::View* view = findView("prompt");
  if (!view) return;
  showPanel("panel.prompt");
  view->setFocus(Qt::ShortcutFocusReason);
  QKeyEvent press(QEvent::KeyPress, key, modifiers);
  QCoreApplication::sendEvent(view, &press);
}

void MainWindow::stepSlot(int steps, bool merge) {
  const auto& head = controller_->headData();
  const int slot = selection_.current().slot;
  if (!head) {
    selection_.request({.slot = slot + steps}, merge);
    return;
  }
  const std::vector<int> order = slotOrder(*head);
  const auto at = std::find(order.begin(), order.end(), slot);
  if (at == order.end()) return;
  const auto to = std::clamp<int64_t>((at - order.begin()) + steps, 0, int64_t(order.size()) - 1);
  selection_.request({.slot = order[size_t(to)]}, merge);
}

void MainWindow::stepSameRole(int direction) {
  const auto& run = controller_->runData();
  if (!run) return;
  const auto& roles = run->info().roles;
  const qint64 now = selection_.current().token;
  if (now < 0 || now >= qint64(roles.size())) return;
  for (qint64 t = now + direction; t >= 0 && t < qint64(roles.size()); t += direction)
    if (roles[size_t(t)] == roles[size_t(now)]) {
      selection_.request({.token = t});
      return;
    }
}

void MainWindow::jumpToSpan(const QString& name) {
  const auto& run = controller_->runData();
  if (!run) return;
  // What is asked for: a marked value where there is one, else the key (the password).
  const std::string wanted = name == "key" && run->info().span("value") ? "value" : name.toStdString();
  const qint64 now = selection_.current().token;
  const Span* first = nullptr;
  for (const Span& span : run->info().spans) {
    if (span.name != wanted || span.end <= span.begin) continue;
    if (!first) first = &span;
    // Again: the next token of the span, from the last one back to the first.
    if (now >= span.begin && now + 1 < span.end) {
      selection_.request({.token = now + 1});
      return;
    }
  }
  if (name == "query") {
    // The query's position is the last prompt token, whether or not the task marked a span.
    selection_.request({.token = qint64(analysis::query_token(run->info()))});
  } else if (first) {
    selection_.request({.token = qint64(first->begin)});
  } else {
    controller_->note(QString("This prompt has no %1 marked").arg(name));
  }
}

void MainWindow::zoomTokens(double factor) {
  const auto& run = controller_->runData();
  if (!run) return;
  const auto [first, last] = selection_.tokenRange();
  const qint64 tokens = run->info().tokens;
  const double width = std::clamp(double(last - first) * factor, 4.0, double(std::max<qint64>(4, tokens)));
  const qint64 centre = std::clamp<qint64>(selection_.current().token, first, std::max(first, last - 1));
  const double share = last > first ? double(centre - first) / double(last - first) : 0.5;
  qint64 from = std::llround(double(centre) - share * width);
  from = std::clamp<qint64>(from, 0, std::max<qint64>(0, tokens - std::llround(width)));
  selection_.setTokenRange(from, std::min<qint64>(tokens, from + std::llround(width)));
}

void MainWindow::zoomAll() {
  if (const auto& run = controller_->runData()) selection_.setTokenRange(0, run->info().tokens);
}

void MainWindow::cyclePanels(int step) {
  QList<QWidget*> stops{bar_->layer};
  for (Dock* d : panels_->docks())
    if (d->open() && !d->visibleRegion().isEmpty()) stops << d->body();
  for (Dock* d : view_area_->docks())
    if (d->open() && !d->visibleRegion().isEmpty()) stops << d->body();
  int now = -1;
  const QWidget* focus = focusWidget();
  for (int i = 0; i < stops.size(); ++i)
    if (focus &&
        (stops[i] == focus || stops[i]->isAncestorOf(focus) || stops[i]->parentWidget()->isAncestorOf(focus)))
      now = i;
  // The bar's chips share a parent with nothing else that is cycled.
  for (int tries = 1; tries <= stops.size(); ++tries) {
    QWidget* next = stops[((now + step * tries) % int(stops.size()) + int(stops.size())) % int(stops.size())];
    QWidget* target = next->focusPolicy() != Qt::NoFocus ? next : next->nextInFocusChain();
    if (!target) continue;
    target->setFocus(Qt::ShortcutFocusReason);
    return;
  }
}

void MainWindow::mousePressEvent(QMouseEvent* event) {
  if (event->button() == Qt::BackButton)
    selection_.back();
  else if (event->button() == Qt::ForwardButton)
    selection_.forward();
  else
    QWidget::mousePressEvent(event);
}

}  // namespace slotscope::app
