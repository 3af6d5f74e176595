#include "app/window/checkpoint_panel.h"

#include <QClipboard>
#include <QGuiApplication>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QSortFilterProxyModel>
#include <QSplitter>
#include <QTableView>
#include <QTreeView>
#include <QVBoxLayout>

#include "app/window/tensor_model.h"
#include "views/format.h"
#include "views/theme.h"

namespace slotscope::app {

using views::Theme;

namespace {

QLabel* textLabel(const char* ui, QWidget* parent) {
  auto* label = new QLabel(parent);
  label->setProperty("ui", ui);
  label->setWordWrap(true);
  label->setTextFormat(Qt::PlainText);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  return label;
}

void copyMenu(QAbstractItemView* view, const QString& label,
              const std::function<QString(const QModelIndex&)>& text) {
  view->setContextMenuPolicy(Qt::CustomContextMenu);
  QObject::connect(view, &QWidget::customContextMenuRequested, view, [=](const QPoint& at) {
    const QModelIndex index = view->indexAt(at);
    if (!index.isValid()) return;
    auto* menu = new QMenu(view);
    menu->setAttribute(Qt::WA_DeleteOnClose);
    menu->addAction(label, view, [=] { QGuiApplication::clipboard()->setText(text(index)); });
    menu->popup(view->viewport()->mapToGlobal(at));
  });
}

}  // namespace

CheckpointPanel::CheckpointPanel(QWidget* parent) : QWidget(parent) {
  setObjectName("checkpointPanel");
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(10, 8, 10, 8);
  column->setSpacing(4);
  folder_ = textLabel("text2", this);
  card_ = textLabel("text2", this);
  notes_ = textLabel("warn", this);
  filter_ = new QLineEdit(this);
  filter_->setPlaceholderText("Filter keys and tensors, * and ? allowed");
  filter_->setClearButtonEnabled(true);
  filter_->setAccessibleName("Filter keys and tensors");
  count_ = textLabel("text3", this);

  config_ = new ConfigModel(this);
  config_filter_ = new QSortFilterProxyModel(this);
  config_filter_->setSourceModel(config_);
  config_filter_->setFilterKeyColumn(-1);
  config_filter_->setFilterCaseSensitivity(Qt::CaseInsensitive);
  config_view_ = new QTableView(this);
  config_view_->setModel(config_filter_);
  config_view_->setAccessibleName("Configuration");
  config_view_->verticalHeader()->hide();
  config_view_->setShowGrid(false);
  config_view_->setFrameShape(QFrame::NoFrame);
  config_view_->setSelectionBehavior(QAbstractItemView::SelectRows);
  config_view_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  config_view_->horizontalHeader()->setStretchLastSection(true);
  config_view_->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  copyMenu(config_view_, "Copy value",
           [this](const QModelIndex& i) { return i.siblingAtColumn(1).data().toString(); });

  tensors_ = new TensorModel(this);
  tree_ = new QTreeView(this);
  tree_->setModel(tensors_);
  tree_->setAccessibleName("Tensors");
  tree_->setUniformRowHeights(true);  // 100,000 rows without measuring each
  tree_->setFrameShape(QFrame::NoFrame);
  tree_->setIndentation(12);
  tree_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  copyMenu(tree_, "Copy name", [this](const QModelIndex& i) { return tensors_->fullName(i); });

  tree_->setMinimumHeight(150);  // the panel scrolls before these become too low to use
  config_view_->setMinimumHeight(110);
  auto* split = new QSplitter(Qt::Vertical, this);
  split->addWidget(tree_);
  split->addWidget(config_view_);
  split->setChildrenCollapsible(false);
  column->addWidget(folder_);
  column->addWidget(card_);
  column->addWidget(notes_);
  column->addWidget(filter_);
  column->addWidget(count_);
  column->addWidget(split, 1);
  connect(filter_, &QLineEdit::textChanged, this, [this](const QString& text) {
    tensors_->setFilter(text);
    if (text.contains('*') || text.contains('?'))
      config_filter_->setFilterWildcard(text);
    else
      config_filter_->setFilterFixedString(text);
    count_->setText(QString("%1 tensors").arg(views::count(tensors_->shownTensors())));
  });
  setCheckpoint(nullptr, nullptr, {});
  restyle();
}

void CheckpointPanel::restyle() {
  const Theme& t = Theme::current();
  for (QLabel* label : {folder_, card_, notes_, count_}) label->setFont(t.label());
  tree_->setFont(t.label());
  config_view_->setFont(t.label());
  config_view_->verticalHeader()->setDefaultSectionSize(QFontMetrics(t.label()).lineSpacing() + 6);
}

void CheckpointPanel::setCheckpoint(std::shared_ptr<const formats::Checkpoint> checkpoint,
                                    std::shared_ptr<const engine::ModelInfo> info, const QString& why) {
  tensors_->setCheckpoint(checkpoint);
  config_->setRows(info ? info->config : std::vector<engine::ModelInfo::ConfigRow>{});
  folder_->setText(checkpoint ? QString::fromStdString(checkpoint->folder().string()) : "No checkpoint open");
  QStringList card, notes;
  if (info) {
    card << (info->family == info->model_type
                 ? QString("Family %1").arg(QString::fromStdString(info->family))
                 : QString("Family %1, model_type %2")
                       .arg(QString::fromStdString(info->family), QString::fromStdString(info->model_type)));
    const auto line = [&](const char* name, const std::string& value) {
      if (!value.empty())
        card << QString("%1: %2").arg(QString::fromLatin1(name), QString::fromStdString(value));
    };
    line("Router", info->card.router);
    line("Content", info->card.content);
    line("Decay", info->card.decay);
    line("Readout", info->card.readout);
    for (const auto& n : info->notes) card << QString::fromStdString(n);
    for (const auto& w : info->warnings) notes << QString::fromStdString(w);
  }
  if (!why.isEmpty()) notes << why;
  if (checkpoint) {
    for (const auto& w : checkpoint->warnings()) notes << QString::fromStdString(w);
    count_->setText(QString("%1 tensors, %2")
                        .arg(views::count(qint64(checkpoint->tensors().size())),
                             views::bytes(qint64(checkpoint->total_bytes()))));
  } else {
    count_->clear();
  }
  card_->setText(card.join('\n'));
  card_->setVisible(!card.isEmpty());
  notes_->setText(notes.join('\n'));
  notes_->setVisible(!notes.isEmpty());
  if (checkpoint && tensors_->rowCount() <= 4) tree_->expandToDepth(0);
  for (int c = 0; c < TensorModel::ColumnCount; ++c) tree_->resizeColumnToContents(c);
  tree_->setColumnWidth(0, std::clamp(tree_->columnWidth(0), 110, 260));
  config_view_->resizeColumnToContents(0);
}

}  // namespace slotscope::app
