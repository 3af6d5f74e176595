// The rows of a file of prompts as a table: listed in the background, tokens counted for what is looked at.
#pragma once

#include <QAbstractTableModel>
#include <memory>
#include <vector>

#include "core/formats/prompt_import.h"
#include "core/formats/tokenizer.h"
#include "views/worker.h"

namespace slotscope::app {

class PromptRowsModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  enum Column { RowColumn, TextColumn, TokensColumn, AnswerColumn, ColumnCount };
  explicit PromptRowsModel(QObject* parent = nullptr);

  // Starts again with this file; `tokenizer` may be null (no counts).
  void setFile(std::shared_ptr<const formats::PromptFile> file,
               std::shared_ptr<const formats::Tokenizer> tokenizer);
  void setTokenizer(std::shared_ptr<const formats::Tokenizer> tokenizer);
  const std::shared_ptr<const formats::PromptFile>& file() const { return file_; }
  // Counts the tokens of these rows, those that are not counted yet; a newer wish replaces a waiting one.
  void countTokens(const std::vector<int>& rows);
  bool listed() const { return listed_ == int(rows_.size()); }
  bool usable(int row) const;    // listed, and not broken
  qint64 tokens(int row) const;  // -1: not counted

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  Qt::ItemFlags flags(const QModelIndex& index) const override;

 Q_SIGNALS:
  void listing(int done, int all);

 private:
  struct Row {
    QString text, answer, tip;
    qint64 tokens = -1;
    bool known = false, broken = false, odd = false;
  };
  void listMore();
  std::shared_ptr<const formats::PromptFile> file_;
  std::shared_ptr<const formats::Tokenizer> tokenizer_;
  std::vector<Row> rows_;
  int listed_ = 0, generation_ = 0;
  views::Worker worker_;  // last: its thread ends before what it uses goes
};

// "0:10, 15": the rows as --rows takes them.
QString rowsText(const std::vector<int64_t>& rows);

}  // namespace slotscope::app
