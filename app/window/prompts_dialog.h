// Which rows of a file of prompts are run.
#pragma once

#include <QDialog>
#include <memory>
#include <vector>

#include "app/window/prompt_rows.h"

class QLabel;
class QLineEdit;
class QPushButton;
class QSortFilterProxyModel;
class QTableView;

namespace slotscope::app {

class PromptsDialog : public QDialog {
  Q_OBJECT
 public:
  explicit PromptsDialog(QWidget* parent = nullptr);

  // Lists the file's rows; the first one is chosen.
  void setFile(std::shared_ptr<const formats::PromptFile> file,
               std::shared_ptr<const formats::Tokenizer> tokenizer);
  void setTokenizer(std::shared_ptr<const formats::Tokenizer> tokenizer);
  // Empty: rows can be run; else why they cannot.
  void setWhyNot(const QString& why);
  // Rows as "0:10,15"; rows that do not exist are left out.
  void choose(const QString& rows);
  std::vector<int64_t> chosen() const;  // in the order of the file
  PromptRowsModel* model() { return model_; }
  QTableView* table() { return table_; }
  QLineEdit* filter() { return filter_; }
  QPushButton* runButton() { return run_; }

 Q_SIGNALS:
  void rowsChosen(const QString& rows);  // whenever the choice changes
  void runRequested(const QString& rows);

 private:
  void refresh();
  void countVisible();
  PromptRowsModel* model_;
  QSortFilterProxyModel* proxy_;
  QTableView* table_;
  QLabel *title_, *state_;
  QLineEdit* filter_;
  QPushButton* run_;
  QString why_not_;
  QTimer* count_timer_;
};

}  // namespace slotscope::app
