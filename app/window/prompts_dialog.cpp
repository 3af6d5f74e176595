#include "app/window/prompts_dialog.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QScrollBar>
#include <QSignalBlocker>
#include <QSortFilterProxyModel>
#include <QTableView>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>

#include "core/error.h"
#include "views/format.h"
#include "views/theme.h"

namespace slotscope::app {

using views::Theme;

PromptsDialog::PromptsDialog(QWidget* parent) : QDialog(parent) {
  setObjectName("promptsDialog");
  setWindowTitle("Prompts");
  resize(860, 520);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(12, 12, 12, 12);
  column->setSpacing(8);
  title_ = new QLabel(this);
  title_->setTextFormat(Qt::PlainText);
  column->addWidget(title_);
  filter_ = new QLineEdit(this);
  filter_->setPlaceholderText("Filter by prompt or answer");
  filter_->setClearButtonEnabled(true);
  filter_->setAccessibleName("Filter");
  filter_->setMinimumHeight(26);
  column->addWidget(filter_);

  model_ = new PromptRowsModel(this);
  proxy_ = new QSortFilterProxyModel(this);
  proxy_->setSourceModel(model_);
  proxy_->setFilterCaseSensitivity(Qt::CaseInsensitive);
  proxy_->setFilterKeyColumn(-1);
  proxy_->setDynamicSortFilter(true);
  table_ = new QTableView(this);
  table_->setModel(proxy_);
  table_->setAccessibleName("Prompts");
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  table_->setShowGrid(false);
  table_->setWordWrap(false);
  table_->setTabKeyNavigation(false);
  table_->verticalHeader()->hide();
  table_->horizontalHeader()->setHighlightSections(false);
  table_->horizontalHeader()->setSectionResizeMode(PromptRowsModel::TextColumn, QHeaderView::Stretch);
  table_->setColumnWidth(PromptRowsModel::RowColumn, 64);
  table_->setColumnWidth(PromptRowsModel::TokensColumn, 84);
  table_->setColumnWidth(PromptRowsModel::AnswerColumn, 220);
  column->addWidget(table_, 1);

  auto* foot = new QHBoxLayout;
  state_ = new QLabel(this);
  state_->setTextFormat(Qt::PlainText);
  foot->addWidget(state_, 1);
  auto* all = new QPushButton("Select all", this);
  auto* close = new QPushButton("Close", this);
  run_ = new QPushButton("Run", this);
  run_->setProperty("ui", "primary");
  for (QPushButton* button : {all, close, run_}) {
    button->setAutoDefault(false);
    foot->addWidget(button);
  }
  column->addLayout(foot);

  count_timer_ = new QTimer(this);
  count_timer_->setSingleShot(true);
  count_timer_->setInterval(120);
  connect(count_timer_, &QTimer::timeout, this, &PromptsDialog::countVisible);
  const auto look = [this] { count_timer_->start(); };
  connect(table_->verticalScrollBar(), &QScrollBar::valueChanged, this, look);
  connect(model_, &PromptRowsModel::listing, this, [this, look] {
    look();
    refresh();
  });
  connect(model_, &PromptRowsModel::dataChanged, this, look);
  connect(filter_, &QLineEdit::textChanged, this, [this, look](const QString& text) {
    proxy_->setFilterFixedString(text);
    look();
    refresh();
  });
  connect(table_->selectionModel(), &QItemSelectionModel::selectionChanged, this, [this, look] {
    look();
    refresh();
    Q_EMIT rowsChosen(rowsText(chosen()));
  });
  connect(all, &QPushButton::clicked, table_, &QTableView::selectAll);
  connect(close, &QPushButton::clicked, this, &QDialog::close);
  connect(run_, &QPushButton::clicked, this, [this] { Q_EMIT runRequested(rowsText(chosen())); });
  connect(table_, &QTableView::doubleClicked, this, [this](const QModelIndex& at) {
    if (run_->isEnabled() && model_->usable(proxy_->mapToSource(at).row())) run_->click();
  });
}

void PromptsDialog::setFile(std::shared_ptr<const formats::PromptFile> file,
                            std::shared_ptr<const formats::Tokenizer> tokenizer) {
  const QString name = QString::fromStdString(file->path().filename().string());
  setWindowTitle("Prompts – " + name);
  title_->setText(QString("%1: %2 row%3, read as %4")
                      .arg(name, views::count(file->rows()), file->rows() == 1 ? "" : "s",
                           QString::fromUtf8(formats::prompt_format_name(file->format()).data())));
  title_->setToolTip(QString::fromStdString(file->path().string()));
  filter_->clear();
  model_->setFile(std::move(file), std::move(tokenizer));
  const Theme& t = Theme::current();
  table_->verticalHeader()->setDefaultSectionSize(QFontMetrics(t.fixed).lineSpacing() + 8);
  refresh();
}

void PromptsDialog::setTokenizer(std::shared_ptr<const formats::Tokenizer> tokenizer) {
  model_->setTokenizer(std::move(tokenizer));
  count_timer_->start();
}

void PromptsDialog::setWhyNot(const QString& why) {
  why_not_ = why;
  refresh();
}

void PromptsDialog::choose(const QString& rows) {
  std::vector<int64_t> wanted;
  try {
    wanted = formats::parse_rows(rows.toStdString(), model_->rowCount());
  } catch (const Error&) {
    return;  // while it is typed; the run says what is wrong
  }
  QItemSelection selection;
  for (size_t i = 0; i < wanted.size();) {
    size_t last = i;
    while (last + 1 < wanted.size() && wanted[last + 1] == wanted[last] + 1) ++last;
    const QModelIndex a = proxy_->mapFromSource(model_->index(int(wanted[i]), 0));
    const QModelIndex b =
        proxy_->mapFromSource(model_->index(int(wanted[last]), PromptRowsModel::ColumnCount - 1));
    if (a.isValid() && b.isValid()) selection.select(a, b);
    i = last + 1;
  }
  const QSignalBlocker block(this);  // what is chosen from outside is known there
  table_->selectionModel()->select(selection, QItemSelectionModel::ClearAndSelect);
  refresh();
}

std::vector<int64_t> PromptsDialog::chosen() const {
  std::vector<int64_t> rows;
  for (const QItemSelectionRange& range : table_->selectionModel()->selection())
    for (int i = range.top(); i <= range.bottom(); ++i) {
      const int row = proxy_->mapToSource(proxy_->index(i, 0)).row();
      if (model_->usable(row)) rows.push_back(row);
    }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

void PromptsDialog::refresh() {
  const auto rows = chosen();
  const int shown = proxy_->rowCount(), all = model_->rowCount();
  qint64 tokens = 0;
  bool counted = !rows.empty() && rows.size() <= 1000;
  for (size_t i = 0; counted && i < rows.size(); ++i) {
    const qint64 n = model_->tokens(int(rows[i]));
    counted = n >= 0;
    tokens += n;
  }
  QString text = rows.empty()
                     ? QString("Choose the rows to run")
                     : QString("%1 of %2 chosen").arg(views::count(qint64(rows.size())), views::count(all));
  if (counted) text += QString(", %1 tokens").arg(views::count(tokens));
  if (shown < all && !filter_->text().isEmpty())
    text = shown == 0 ? QString("No row holds “%1”").arg(filter_->text())
                      : text + QString(" · %1 shown").arg(views::count(shown));
  if (!model_->listed()) text += QStringLiteral(" · listing…");
  state_->setText(text);
  state_->setStyleSheet(QString("color: %1;").arg(Theme::current().text2.name()));
  run_->setText(rows.size() > 1 ? QString("Run %1 rows").arg(views::count(qint64(rows.size())))
                                : QString("Run row"));
  run_->setEnabled(!rows.empty() && why_not_.isEmpty());
  run_->setToolTip(why_not_);
}

void PromptsDialog::countVisible() {
  std::vector<int> rows;
  const int first = std::max(0, table_->rowAt(0));
  int last = table_->rowAt(table_->viewport()->height() - 1);
  if (last < 0) last = proxy_->rowCount() - 1;
  for (int i = first; i <= last && i < proxy_->rowCount(); ++i)
    rows.push_back(proxy_->mapToSource(proxy_->index(i, 0)).row());
  for (const int64_t row : chosen()) {
    if (rows.size() > 200) break;
    rows.push_back(int(row));
  }
  model_->countTokens(rows);
  refresh();
}

}  // namespace slotscope::app
