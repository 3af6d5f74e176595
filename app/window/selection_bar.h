// The bar under the menu: history, what is open, the one selection, and what can be done with it (design:
// section 3).
#pragma once

#include <QFrame>

#include "app/window/chips.h"
#include "views/selection.h"
#include "views/view.h"

namespace slotscope::app {

class SelectionBar : public QFrame {
  Q_OBJECT
 public:
  SelectionBar(views::SelectionModel* selection, QWidget* parent = nullptr);

  void setRun(std::shared_ptr<const views::RunData> run);
  void setHead(std::shared_ptr<const analysis::HeadData> head);
  void setModelName(const QString& name);
  void setPromptName(const QString& name);
  void setRunning(bool running);  // Run becomes Cancel
  void setRunEnabled(bool enabled, const QString& why);
  // Goes to the next (or, backwards, previous) token whose text begins there with `text`; false when there is
  // none.
  bool jumpToText(const QString& text);
  void restyle();

  ListChip* model() { return model_; }
  ListChip* prompt() { return prompt_; }
  StepChip *layer, *head, *slot, *token;
  QPushButton *search, *compare, *figure, *run;
  QToolButton *back, *forward;

 protected:
  void resizeEvent(QResizeEvent*) override;

 Q_SIGNALS:
  void runClicked();
  void cancelClicked();
  void figureClicked();
  void problem(const QString& text);

 private:
  void refresh();
  void stepSlot(int steps);
  void showMenu(StepChip* chip, const QPoint& at);
  void entered(StepChip* chip, const QString& text);
  views::SelectionModel* selection_;
  ListChip *model_, *prompt_;
  std::shared_ptr<const views::RunData> run_;
  std::shared_ptr<const analysis::HeadData> head_data_;
  void fitButtons();
  bool running_ = false;
};

// Slots of a head in the order the views start with: by class, then ESL.
std::vector<int> slotOrder(const analysis::HeadData& head);
// "“x”" of a token, or empty when the trace has no text for it.
QString quotedToken(const trace::RunInfo& info, qint64 token);

}  // namespace slotscope::app
