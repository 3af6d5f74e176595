// Import of prompts: the file, its list of rows, the Run panel (design: sections 11, 14).
#include <QFileDialog>

#include "app/window/main_window.h"
#include "app/window/prompts_dialog.h"
#include "app/window/run_panel.h"
#include "app/window/selection_bar.h"

namespace slotscope::app {

void MainWindow::askForPrompts() {
  auto* dialog =
      new QFileDialog(this, "Import prompts", {}, "Prompts (*.jsonl *.ndjson *.json *.txt);;All files (*)");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setFileMode(QFileDialog::ExistingFile);
  connect(dialog, &QFileDialog::fileSelected, controller_.get(), &Controller::openPrompts);
  dialog->open();
}

void MainWindow::connectPrompts() {
  connect(controller_.get(), &Controller::promptsOpened, this, &MainWindow::showPrompts);
  connect(controller_.get(), &Controller::runningChanged, this, &MainWindow::tellPromptsDialog);
  connect(run_panel_, &RunPanel::importRequested, this, &MainWindow::askForPrompts);
  connect(run_panel_, &RunPanel::chooseRowsRequested, this, [this] {
    if (!prompts_dialog_) return;
    prompts_dialog_->show();
    prompts_dialog_->raise();
    prompts_dialog_->activateWindow();
  });
  connect(run_panel_, &RunPanel::rowsChanged, this, [this](const QString& rows) {
    if (prompts_dialog_) prompts_dialog_->choose(rows);
  });
}

void MainWindow::showPrompts(std::shared_ptr<const formats::PromptFile> file) {
  if (!prompts_dialog_) {
    prompts_dialog_ = new PromptsDialog(this);
    connect(prompts_dialog_, &PromptsDialog::rowsChosen, run_panel_, &RunPanel::setRows);
    connect(prompts_dialog_, &PromptsDialog::runRequested, this, [this](const QString& rows) {
      run_panel_->setRows(rows);
      showPanel("panel.run");
      controller_->run(run_panel_->settings());
    });
  }
  const auto& open = controller_->checkpoint();
  prompts_dialog_->setFile(file, open ? open->tokenizer : nullptr);
  run_panel_->setPrompts(file);
  run_panel_->setRows("0");
  prompts_dialog_->choose("0");
  tellPromptsDialog();
  showPanel("panel.run");
  prompts_dialog_->show();
  prompts_dialog_->raise();
}

void MainWindow::tellPromptsDialog() {
  if (!prompts_dialog_) return;
  const auto& open = controller_->checkpoint();
  prompts_dialog_->setTokenizer(open ? open->tokenizer : nullptr);
  prompts_dialog_->setWhyNot(!open                    ? QString("Open a checkpoint folder first (Ctrl+O)")
                             : !open->info            ? open->why
                             : controller_->running() ? QString("A run is in progress")
                                                      : QString());
}

}  // namespace slotscope::app
