#include "views/tensor_view.h"

#include <QClipboard>
#include <QGuiApplication>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QSplitter>
#include <QStandardItemModel>
#include <QTableView>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "views/format.h"
#include "views/list_widgets.h"

namespace slotscope::views {

namespace {

// Ctrl+C copies the selected block, tabs between columns.
class ValueTable : public QTableView {
 public:
  using QTableView::QTableView;

 protected:
  bool event(QEvent* event) override {
    if (event->type() == QEvent::ShortcutOverride &&
        static_cast<QKeyEvent*>(event)->matches(QKeySequence::Copy))
      event->accept();
    return QTableView::event(event);
  }
  void keyPressEvent(QKeyEvent* event) override {
    if (event->matches(QKeySequence::Copy)) {
      copy();
      return event->accept();
    }
    QTableView::keyPressEvent(event);
    switch (event->key()) {  // at its edges too: arrows of a list move nothing else
      case Qt::Key_Up:
      case Qt::Key_Down:
      case Qt::Key_Left:
      case Qt::Key_Right:
      case Qt::Key_Home:
      case Qt::Key_End:
        event->accept();
    }
  }

 private:
  void copy() const {
    QModelIndexList cells = selectionModel()->selectedIndexes();
    std::sort(cells.begin(), cells.end());
    QString text;
    for (qsizetype i = 0; i < cells.size(); ++i) {
      if (i > 0) text += cells[i].row() == cells[i - 1].row() ? '\t' : '\n';
      text += cells[i].data().toString();
    }
    QGuiApplication::clipboard()->setText(text);
  }
};

}  // namespace

TensorView::TensorView(QWidget* parent) : View(nullptr, parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  head_ = new QWidget(this);
  auto* head = new QVBoxLayout(head_);
  head->setContentsMargins(12, 8, 12, 8);
  head->setSpacing(2);
  name_ = new ElidedLabel(head_);
  lines_ = new QLabel(head_);
  lines_->setProperty("ui", "text2");
  lines_->setTextFormat(Qt::PlainText);
  lines_->setWordWrap(true);
  lines_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  shares_ = new QToolButton(head_);
  shares_->setProperty("ui", "quiet");
  shares_->setSizePolicy(QSizePolicy::Maximum, QSizePolicy::Fixed);
  connect(shares_, &QToolButton::clicked, this, [this] { Q_EMIT tensorRequested(facts_.shares_with); });
  progress_row_ = new QWidget(head_);
  auto* row = new QHBoxLayout(progress_row_);
  row->setContentsMargins(0, 4, 0, 0);
  row->setSpacing(8);
  progress_ = new QProgressBar(progress_row_);
  progress_->setTextVisible(false);
  progress_->setFixedHeight(6);
  progress_->setRange(0, 1000);
  progress_->setAccessibleName(QStringLiteral("Reading the tensor"));
  stage_ = new QLabel(progress_row_);
  stage_->setProperty("ui", "text2");
  stage_->setTextFormat(Qt::PlainText);
  stage_->setWordWrap(true);
  stage_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  cancel_ = new QPushButton(QStringLiteral("Cancel"), progress_row_);
  again_ = new QPushButton(progress_row_);
  connect(cancel_, &QPushButton::clicked, this, &TensorView::cancelRequested);
  connect(again_, &QPushButton::clicked, this, [this] {
    if (facts_.name.isEmpty())
      Q_EMIT chooseRequested();
    else
      Q_EMIT readRequested();
  });
  row->addWidget(stage_, 1);
  row->addWidget(progress_, 1);
  row->addWidget(cancel_);
  row->addWidget(again_);
  for (QWidget* w : std::initializer_list<QWidget*>{name_, lines_, shares_, progress_row_})
    head->addWidget(w);

  histogram_ = new TensorHistogramView(this);
  connect(histogram_, &TensorHistogramView::scaleRequested, this, &TensorView::scaleRequested);
  connect(histogram_, &View::statusText, this, &View::statusText);
  preview_ = new QWidget(this);
  auto* box = new QVBoxLayout(preview_);
  box->setContentsMargins(12, 6, 12, 8);
  box->setSpacing(4);
  preview_note_ = new QLabel(preview_);
  preview_note_->setProperty("ui", "text2");
  preview_note_->setTextFormat(Qt::PlainText);
  preview_note_->setWordWrap(true);
  table_ = new ValueTable(preview_);
  model_ = new QStandardItemModel(this);
  table_->setModel(model_);
  table_->setAccessibleName(QStringLiteral("Values"));
  table_->setFrameShape(QFrame::NoFrame);
  table_->setShowGrid(false);
  table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  table_->setSelectionMode(QAbstractItemView::ContiguousSelection);
  table_->setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);
  table_->horizontalHeader()->setHighlightSections(false);
  table_->verticalHeader()->setHighlightSections(false);
  table_->horizontalHeader()->setDefaultAlignment(Qt::AlignRight | Qt::AlignVCenter);
  table_->setTabKeyNavigation(false);
  box->addWidget(preview_note_);
  box->addWidget(table_, 1);
  split_ = new QSplitter(Qt::Vertical, this);
  split_->addWidget(histogram_);
  split_->addWidget(preview_);
  split_->setStretchFactor(0, 3);
  split_->setStretchFactor(1, 2);
  split_->setChildrenCollapsible(false);
  histogram_->setMinimumHeight(190);
  table_->setMinimumHeight(60);
  column->addWidget(head_);
  column->addWidget(split_, 1);
  restyle();
  clear();
}

void TensorView::restyle() {
  const Theme& t = Theme::current();
  name_->setFont(t.semibold());
  for (QWidget* w : std::initializer_list<QWidget*>{lines_, stage_, preview_note_, shares_,
                                                    table_->horizontalHeader(), table_->verticalHeader()})
    w->setFont(t.label());
  QFont fixed = t.fixed;
  fixed.setPixelSize(t.label().pixelSize());
  table_->setFont(fixed);
  table_->verticalHeader()->setDefaultSectionSize(QFontMetrics(fixed).lineSpacing() + 4);
  progress_->setStyleSheet(QStringLiteral("QProgressBar { background: %1; border: none; border-radius: 3px; }"
                                          "QProgressBar::chunk { background: %2; border-radius: 3px; }")
                               .arg(t.line.name(), t.text2.name()));
}

void TensorView::changeEvent(QEvent* event) {
  View::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) restyle();
}

void TensorView::setFacts(const TensorFacts& facts) {
  facts_ = facts;
  name_->setFullText(facts.name);
  lines_->setText(facts.lines.join('\n'));
  lines_->setVisible(!facts.lines.isEmpty());
  shares_->setVisible(!facts.shares_with.isEmpty());
  const QString other = oneLine(facts.shares_with);
  shares_->setText(facts.sharing + ' ' +
                   (other.size() > 90 ? other.left(45) + QChar(0x2026) + other.right(44) : other));
  shares_->setToolTip(QStringLiteral("Show ") + wrappedTip(other));
  shares_->setAccessibleName(facts.sharing + ' ' + other);
  name_->setVisible(!facts.name.isEmpty());
  progress_row_->hide();
  reading_ = false;
  histogram_->clear(QStringLiteral("Not read yet."));
  setPreviewMessage({});
  split_->setVisible(!facts.name.isEmpty());
  setAccessibleName(facts.name.isEmpty() ? QStringLiteral("Tensor, none chosen")
                                         : QStringLiteral("Tensor ") + facts.name);
}

void TensorView::clear() {
  setFacts({});
  setStopped(QStringLiteral("Choose a tensor in the Checkpoint panel to see its values."),
             QStringLiteral("Show the Checkpoint panel"));
}

QString TensorView::factsText() const { return lines_->text(); }
QString TensorView::message() const { return progress_row_->isVisibleTo(this) ? stage_->text() : QString(); }
bool TensorView::reading() const { return reading_; }

void TensorView::setProgress(double fraction, const QString& stage) {
  reading_ = true;
  progress_row_->show();
  progress_->show();
  cancel_->show();
  again_->hide();
  if (fraction < 0)
    progress_->setRange(0, 0);
  else
    progress_->setRange(0, 1000), progress_->setValue(int(std::lround(fraction * 1000)));
  stage_->setText(stage);
}

void TensorView::setStopped(const QString& why, const QString& button) {
  reading_ = false;
  histogram_->clear(QStringLiteral("No numbers: it was not read."));
  progress_row_->setVisible(!why.isEmpty());
  progress_->hide();
  cancel_->hide();
  stage_->setText(why);
  again_->setText(button);
  again_->setVisible(!button.isEmpty());
}

void TensorView::setHistogram(TensorHistogram histogram) {
  reading_ = false;
  progress_row_->hide();
  histogram_->setHistogram(std::move(histogram));
}

void TensorView::setPreviewMessage(const QString& why) {
  model_->clear();
  table_->hide();
  preview_note_->setText(why);
  preview_->setVisible(!why.isEmpty());
}

void TensorView::setPreview(const TensorPreview& preview) {
  if (preview.cells.isEmpty()) return setPreviewMessage({});
  preview_note_->setText(QStringLiteral("Values, exact"));
  const bool first = split_->sizes().value(1) == 0;
  preview_->show();
  table_->show();
  fillTable(preview);
  if (first) split_->setSizes({split_->height() * 3 / 5, split_->height() * 2 / 5});
}

void TensorView::fillTable(const TensorPreview& preview) {
  model_->clear();
  model_->setHorizontalHeaderLabels(preview.columns);
  model_->setVerticalHeaderLabels(preview.rows);
  for (int r = 0; r < preview.cells.size(); ++r)
    for (int c = 0; c < preview.cells[r].size(); ++c) {
      auto* item = new QStandardItem(preview.cells[r][c]);
      item->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
      item->setEditable(false);
      model_->setItem(r, c, item);
    }
  table_->resizeColumnsToContents();
  for (int c = 0; c < model_->columnCount(); ++c)
    table_->setColumnWidth(c, std::min(table_->columnWidth(c) + 8, 320));
}

}  // namespace slotscope::views
