#include "views/view.h"

namespace slotscope::views {

View::View(SelectionModel* selection, QWidget* parent) : QWidget(parent), selection_(selection) {
  setFocusPolicy(Qt::StrongFocus);
}

void View::setRun(std::shared_ptr<const RunData> run) {
  run_ = std::move(run);
  head_ = nullptr;
  update();
}

void View::setHead(std::shared_ptr<const analysis::HeadData> head) {
  head_ = std::move(head);
  update();
}

void View::setMessage(const QString& text, const QString& button) {
  message_ = text;
  message_button_ = button;
  update();
}

void View::setLoading(bool loading, const QString& stage) {
  loading_ = loading;
  loading_stage_ = stage;
  update();
}

}  // namespace slotscope::views
