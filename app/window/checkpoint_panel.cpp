#include "app/window/checkpoint_panel.h"

#include <QButtonGroup>
#include <QComboBox>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QListView>
#include <QMenu>
#include <QPushButton>
#include <QSortFilterProxyModel>
#include <QStackedWidget>
#include <QStringListModel>
#include <QTableView>
#include <QTimer>
#include <QTreeView>
#include <QVBoxLayout>
#include <algorithm>

#include "app/window/details_model.h"
#include "app/window/tensor_model.h"
#include "app/window/wrap_delegate.h"
#include "views/format.h"
#include "views/list_widgets.h"
#include "views/theme.h"

namespace slotscope::app {

using views::Theme;

// Warnings, one row each, with the sign that says so.
class MessageModel : public QStringListModel {
 public:
  using QStringListModel::QStringListModel;
  QVariant data(const QModelIndex& index, int role) const override {
    if (role == Qt::DecorationRole) return QStringLiteral("warning");
    if (role == Qt::UserRole) return Theme::current().warn;
    if (role == Qt::ToolTipRole)
      return views::wrappedTip(QStringListModel::data(index, Qt::DisplayRole).toString());
    if (role == Qt::AccessibleTextRole)
      return "Warning: " + QStringListModel::data(index, Qt::DisplayRole).toString();
    return QStringListModel::data(index, role);
  }
  Qt::ItemFlags flags(const QModelIndex&) const override { return Qt::ItemIsEnabled | Qt::ItemIsSelectable; }
};

namespace {

QLabel* textLabel(const char* ui, QWidget* parent) {
  auto* label = new QLabel(parent);
  label->setProperty("ui", ui);
  label->setWordWrap(true);
  label->setTextFormat(Qt::PlainText);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  return label;
}

template <class ItemView>
ItemView* itemView(const QString& name, QAbstractItemModel* model, QWidget* parent) {
  auto* view = new ItemView(parent);
  view->setModel(model);
  view->setAccessibleName(name);
  view->setFrameShape(QFrame::NoFrame);
  view->setEditTriggers(QAbstractItemView::NoEditTriggers);
  view->setSelectionBehavior(QAbstractItemView::SelectRows);
  view->setTextElideMode(Qt::ElideMiddle);
  return view;
}

}  // namespace

CheckpointPanel::CheckpointPanel(QWidget* parent) : QWidget(parent) {
  setObjectName("checkpointPanel");
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(10, 8, 10, 8);
  column->setSpacing(4);
  folder_ = new views::ElidedLabel(this);
  line_ = textLabel("text2", this);
  candidate_row_ = new QWidget(this);
  auto* candidate = new QHBoxLayout(candidate_row_);
  candidate->setContentsMargins(0, 0, 0, 0);
  candidate->setSpacing(6);
  auto* weights = new QLabel("Weights", candidate_row_);
  weights->setProperty("ui", "text2");
  candidates_ = new QComboBox(candidate_row_);
  candidates_->setAccessibleName("Which weights of the file");
  candidates_->setToolTip("The file holds more than one set of weights: choose which one is shown and run");
  candidates_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  candidates_->setMinimumContentsLength(8);
  candidate->addWidget(weights);
  candidate->addWidget(candidates_, 1);
  connect(candidates_, &QComboBox::activated, this, [this](int at) {
    if (at == 0) return;
    const QString name = candidates_->itemData(at).toString();
    candidates_->setCurrentIndex(0);  // what is open, until the other one is
    Q_EMIT weightsChosen(name);
  });

  message_model_ = new MessageModel(this);
  messages_ = itemView<QListView>("Warnings", message_model_, this);
  messages_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  messages_->setItemDelegate(new WrapDelegate(messages_, 30));
  messages_->viewport()->installEventFilter(this);
  messages_->setResizeMode(QListView::Adjust);
  messages_->setVerticalScrollMode(QAbstractItemView::ScrollPerPixel);
  messages_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  views::makeCopyable(messages_, "Copy", [](const QModelIndex& i) { return i.data().toString(); });

  auto* segments = new QHBoxLayout;
  segments->setSpacing(0);
  pages_ = new QButtonGroup(this);
  for (const auto& [page, name] : {std::pair{Tensors, "Tensors"}, {Config, "Config"}, {Details, "Details"}}) {
    auto* button = new QPushButton(name, this);
    button->setProperty("ui", "segment");
    button->setCheckable(true);
    pages_->addButton(button, page);
    segments->addWidget(button, 1);
  }
  filter_ = new QLineEdit(this);
  filter_->setPlaceholderText("Filter, * and ? allowed");
  filter_->setClearButtonEnabled(true);
  count_ = textLabel("text3", this);
  for (QLabel* label : {line_, count_})
    label->setMinimumHeight(12);  // wrapped labels ask for lines they do not need
  stack_ = new QStackedWidget(this);
  stack_->addWidget(buildTensors());
  stack_->addWidget(buildConfig());
  stack_->addWidget(buildDetails());
  stack_->setMinimumHeight(96);  // the panel scrolls before the pages become too low to use
  column->addWidget(folder_);
  column->addWidget(line_);
  column->addWidget(candidate_row_);
  column->addWidget(messages_);
  column->addLayout(segments);
  column->addWidget(filter_);
  column->addWidget(count_);
  column->addWidget(stack_, 1);
  connect(pages_, &QButtonGroup::idClicked, this, [this](int page) { showPage(Page(page)); });
  connect(filter_, &QLineEdit::textChanged, this, &CheckpointPanel::applyFilter);
  showPage(Tensors);
  setCheckpoint(nullptr);
  restyle();
}

QWidget* CheckpointPanel::buildTensors() {
  tensors_ = new TensorModel(this);
  tree_ = itemView<QTreeView>("Tensors", tensors_, this);
  tree_->setUniformRowHeights(true);  // 100,000 rows without measuring each
  tree_->setIndentation(12);
  tree_->setTextElideMode(Qt::ElideRight);
  tree_->setMouseTracking(true);
  views::makeCopyable(
      tree_, "Copy name", [this](const QModelIndex& i) { return tensors_->fullName(i); },
      [this](QMenu* menu, const QModelIndex& i) {
        if (const int tensor = tensors_->tensorAt(i); tensor >= 0)
          menu->addAction("Show values and histogram", this,
                          [this, tensor] { Q_EMIT tensorChosen(tensor, true); });
      });
  connect(tree_->selectionModel(), &QItemSelectionModel::currentChanged, this, [this](const QModelIndex& i) {
    if (const int tensor = tensors_->tensorAt(i); tensor >= 0 && !selecting_)
      Q_EMIT tensorChosen(tensor, false);
  });
  connect(tree_->header(), &QHeaderView::sectionResized, this,
          [this] { own_columns_ = own_columns_ || QGuiApplication::mouseButtons() & Qt::LeftButton; });
  const auto open = [this](const QModelIndex& i) {
    if (const int tensor = tensors_->tensorAt(i); tensor >= 0) Q_EMIT tensorChosen(tensor, true);
  };
  connect(tree_, &QTreeView::clicked, this, open);
  connect(tree_, &QTreeView::activated, this, open);
  return tree_;
}

QWidget* CheckpointPanel::buildConfig() {
  config_ = new ConfigModel(this);
  config_filter_ = new QSortFilterProxyModel(this);
  config_filter_->setSourceModel(config_);
  config_filter_->setFilterKeyColumn(-1);
  config_filter_->setFilterCaseSensitivity(Qt::CaseInsensitive);
  config_view_ = itemView<QTableView>("Configuration", config_filter_, this);
  config_view_->verticalHeader()->hide();
  config_view_->setShowGrid(false);
  config_view_->horizontalHeader()->setStretchLastSection(true);
  config_view_->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  config_view_->horizontalHeader()->setHighlightSections(false);
  views::makeCopyable(config_view_, "Copy value",
                      [](const QModelIndex& i) { return i.siblingAtColumn(1).data().toString(); });
  return config_view_;
}

QWidget* CheckpointPanel::buildDetails() {
  details_ = new DetailsModel(this);
  details_view_ = itemView<QTreeView>("Details", details_, this);
  details_view_->setHeaderHidden(true);
  details_view_->setIndentation(8);
  details_view_->setUniformRowHeights(false);
  details_view_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  details_view_->setItemDelegate(new WrapDelegate(details_view_, 4));
  details_view_->setVerticalScrollMode(QAbstractItemView::ScrollPerPixel);
  details_view_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  details_view_->header()->setStretchLastSection(true);
  views::makeCopyable(details_view_, "Copy",
                      [this](const QModelIndex& i) { return details_->text(i.siblingAtColumn(0)); });
  return details_view_;
}

void CheckpointPanel::restyle() {
  const Theme& t = Theme::current();
  folder_->setFont(t.labelSemibold());
  for (QLabel* label : {line_, count_}) label->setFont(t.label());
  for (QWidget* view : std::initializer_list<QWidget*>{tree_, config_view_, details_view_, messages_})
    view->setFont(t.label());
  candidates_->setFont(t.label());
  config_view_->verticalHeader()->setDefaultSectionSize(QFontMetrics(t.label()).lineSpacing() + 6);
  fitMessages();
}

void CheckpointPanel::showPage(Page page) {
  pages_->button(page)->setChecked(true);
  stack_->setCurrentIndex(page);
  filter_->setVisible(page != Details);
  filter_->setAccessibleName(page == Tensors ? "Filter tensors" : "Filter configuration");
  updateCount();
}

void CheckpointPanel::applyFilter() {
  const QString text = filter_->text();
  const int current = currentTensor();
  selecting_ = true;
  tensors_->setFilter(text);
  // The chosen tensor stays chosen while its row is there.
  if (const QModelIndex at = tensors_->indexOf(current); at.isValid()) {
    tree_->setCurrentIndex(at);
    tree_->scrollTo(at);
  }
  selecting_ = false;
  if (text.contains('*') || text.contains('?'))
    config_filter_->setFilterWildcard(text);
  else
    config_filter_->setFilterFixedString(text);
  updateCount();
}

void CheckpointPanel::updateCount() {
  const bool any =
      open_ && open_->checkpoint && stack_->currentIndex() != Details && !filter_->text().isEmpty();
  count_->setVisible(any);
  if (!any) return;
  const bool on_tensors = stack_->currentIndex() == Tensors;
  const qint64 all = on_tensors ? qint64(open_->checkpoint->tensors().size()) : config_->rowCount();
  const qint64 shown = on_tensors ? tensors_->shownTensors() : config_filter_->rowCount();
  count_->setText(
      QString("%1 of %2 %3").arg(views::count(shown), views::count(all), on_tensors ? "tensors" : "keys"));
}

int CheckpointPanel::currentTensor() const { return tensors_->tensorAt(tree_->currentIndex()); }

void CheckpointPanel::selectTensor(int tensor) {
  if (tensor == currentTensor()) return;
  QModelIndex at = tensors_->indexOf(tensor);
  if (!at.isValid() && !filter_->text().isEmpty()) {
    filter_->clear();
    at = tensors_->indexOf(tensor);
  }
  if (!at.isValid()) return;
  selecting_ = true;
  tree_->setCurrentIndex(at);
  tree_->scrollTo(at);
  selecting_ = false;
}

QStringList CheckpointPanel::messages() const { return message_model_->stringList(); }

void CheckpointPanel::setCheckpoint(std::shared_ptr<const OpenCheckpoint> open) {
  open_ = std::move(open);
  const bool any = open_ && open_->checkpoint;
  tensors_->setCheckpoint(any ? open_->checkpoint : nullptr);
  config_->setRows(any ? configRows(*open_) : std::vector<engine::ModelInfo::ConfigRow>{});
  details_->setSections(any ? describeCheckpoint(*open_) : std::vector<DetailsSection>{});
  folder_->setFullText(any ? QString::fromStdString(open_->checkpoint->folder().string())
                           : "No checkpoint open");
  line_->setText(any ? checkpointLine(*open_) : "Open a folder or a weights file, or drop one here.");
  message_model_->setStringList(any ? checkpointMessages(*open_) : QStringList());
  pages_->button(Config)->setEnabled(config_->rowCount() > 0);
  pages_->button(Config)->setToolTip(any && config_->rowCount() == 0 ? "There is no config.json here"
                                                                     : QString());
  pages_->button(Details)->setEnabled(any);
  pages_->button(Tensors)->setEnabled(any);
  if (!pages_->checkedButton()->isEnabled()) showPage(Tensors);
  for (int s = 0; s < details_->rowCount(); ++s) {
    const QModelIndex section = details_->index(s, 0);
    for (int r = 0; r < details_->rowCount(section); ++r)
      if (details_->sections()[size_t(s)].rows[size_t(r)].value.isEmpty())
        details_view_->setFirstColumnSpanned(r, section, true);
    details_view_->setFirstColumnSpanned(s, {}, true);
    details_view_->setExpanded(section, details_->rowCount(section) <= 60);
  }
  fillCandidates();
  fitMessages();
  updateCount();
  if (any && tensors_->rowCount() <= 4) tree_->expandToDepth(0);
  for (int c = 0; c < TensorModel::ColumnCount; ++c) tree_->resizeColumnToContents(c);
  config_view_->resizeColumnToContents(0);
  fitColumns();
}

// Names give way to shapes in a narrow panel; a width that was dragged stays.
void CheckpointPanel::fitColumns() {
  const int width = stack_->width();
  if (!own_columns_) tree_->setColumnWidth(0, std::clamp(width * 72 / 100, 110, 260));
  details_view_->setColumnWidth(0, std::clamp(width * 46 / 100, 60, 180));
}

void CheckpointPanel::fillCandidates() {
  candidates_->clear();
  const auto names = open_ && open_->checkpoint ? formats::weight_candidates(*open_->checkpoint)
                                                : std::vector<std::string>{};
  candidate_row_->setVisible(names.size() > 1);
  for (size_t i = 0; i < names.size(); ++i) {
    const QString name = QString::fromStdString(names[i]);
    const QString shown = name.isEmpty() ? QString("top level") : views::oneLine(name);
    candidates_->addItem(i == 0 ? QString("%1, 1 of %2 choices").arg(shown).arg(names.size()) : shown,
                         name);
  }
}

// As high as its rows, up to a third of the panel: then it scrolls.
void CheckpointPanel::fitMessages() {
  messages_->setVisible(message_model_->rowCount() > 0);
  if (message_model_->rowCount() == 0) return;
  QStyleOptionViewItem option;
  option.font = messages_->font();
  int height = 2;
  const int most = std::max(96, this->height() / 3);
  for (int row = 0; row < message_model_->rowCount() && height < most; ++row)
    height += messages_->itemDelegate()->sizeHint(option, message_model_->index(row)).height();
  messages_->setFixedHeight(std::min(height, most));
}

// How high the rows are depends on how wide the list became.
bool CheckpointPanel::eventFilter(QObject* object, QEvent* event) {
  if (object == messages_->viewport() && event->type() == QEvent::Resize &&
      messages_->width() != message_width_) {
    message_width_ = messages_->width();
    QTimer::singleShot(0, this, &CheckpointPanel::fitMessages);
  }
  return QWidget::eventFilter(object, event);
}

void CheckpointPanel::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  fitMessages();
  fitColumns();
}

}  // namespace slotscope::app
