#include "views/theory_lab_view.h"

#include <QClipboard>
#include <QEvent>
#include <QFileDialog>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QScrollArea>
#include <QSplitter>
#include <QTableWidget>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "views/list_widgets.h"
#include "views/theory_controls.h"

namespace slotscope::views {

namespace {

constexpr int kControls = 236, kTable = 292, kWideFrom = 1010, kIdle = 350;  // ms

QScrollArea* scrolled(QWidget* body, QWidget* parent) {
  auto* area = new QScrollArea(parent);
  area->setFrameShape(QFrame::NoFrame);
  area->setWidgetResizable(true);
  area->setWidget(body);
  area->setFocusPolicy(Qt::NoFocus);
  return area;
}

}  // namespace

TheoryLabView::TheoryLabView(Worker* worker, QWidget* parent) : View(nullptr, parent), worker_(worker) {
  controls_ = new TheoryControls;
  canvas_ = new TheoryCanvas;
  controls_scroll_ = scrolled(controls_, this);
  controls_scroll_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  canvas_scroll_ = scrolled(canvas_, this);
  canvas_scroll_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  table_ = new QTableWidget(0, 2, this);
  table_->setAccessibleName(QStringLiteral("Numbers of the theory"));
  table_->horizontalHeader()->hide();
  table_->horizontalHeader()->setSectionResizeMode(0, QHeaderView::ResizeToContents);
  table_->horizontalHeader()->setSectionResizeMode(1, QHeaderView::Stretch);
  table_->verticalHeader()->hide();
  table_->setShowGrid(false);
  table_->setFrameShape(QFrame::NoFrame);
  table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  makeCopyable(table_, QStringLiteral("Copy numbers"), [this](const QModelIndex& index) {
    const auto rows = theoryRows(data_);
    const TheoryRow& row = rows[std::clamp<qsizetype>(index.row(), 0, rows.size() - 1)];
    return row.section.isEmpty() ? row.name + QLatin1Char('\t') + row.exact() : row.section;
  });
  connect(table_, &QTableWidget::cellClicked, this, [this](int row, int) { copyRow(row); });
  split_ = new QSplitter(this);
  split_->setChildrenCollapsible(false);
  split_->addWidget(canvas_scroll_);
  auto* numbers = new QWidget(this);  // the table's own margins
  auto* inside = new QVBoxLayout(numbers);
  inside->setContentsMargins(10, 6, 0, 0);
  inside->addWidget(table_);
  numbers->setAutoFillBackground(true);
  numbers->setBackgroundRole(QPalette::Base);
  split_->addWidget(numbers);
  split_->setStretchFactor(0, 1);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(0);
  row->addWidget(controls_scroll_);
  row->addWidget(split_, 1);
  idle_ = new QTimer(this);
  idle_->setSingleShot(true);
  idle_->setInterval(kIdle);
  connect(idle_, &QTimer::timeout, this, [this] {
    tell();
    if (!worker_ || data_.log_brute_force) return;
    worker_->post(QStringLiteral("theory"), this, [this, state = data_.state] {
      auto data = std::make_shared<TheoryData>(theoryData(state, kIdleBruteForce));
      return [this, data] {
        if (data->state == data_.state && data->log_brute_force) take(std::move(*data));
      };
    });
  });
  const auto change = [this](const TheoryState& state) {
    setState(state);
    untold_ = true;  // told once the hand rests
  };
  connect(controls_, &TheoryControls::changed, this, change);
  connect(canvas_, &TheoryCanvas::changed, this, change);
  connect(canvas_, &TheoryCanvas::status, this, &View::statusText);
  connect(canvas_, &TheoryCanvas::copyRequested, this, [this] {
    QGuiApplication::clipboard()->setText(numbersText());
    Q_EMIT statusText(QStringLiteral("copied every number"));
  });
  connect(controls_, &TheoryControls::openRequested, this, [this] {
    auto* dialog = new QFileDialog(this, QStringLiteral("Open a state of the theory lab"), {},
                                   QStringLiteral("States and results (*.json *.h5);;All files (*)"));
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setFileMode(QFileDialog::ExistingFile);
    connect(dialog, &QFileDialog::fileSelected, this, &TheoryLabView::openFile);
    dialog->open();
  });
  connect(controls_, &TheoryControls::saveRequested, this, [this] {
    auto* dialog = new QFileDialog(this, QStringLiteral("Save the state of the theory lab"), {}, QStringLiteral("States (*.json)"));
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setAcceptMode(QFileDialog::AcceptSave);
    dialog->setDefaultSuffix(QStringLiteral("json"));
    dialog->selectFile(QStringLiteral("theory.json"));
    connect(dialog, &QFileDialog::fileSelected, this, &TheoryLabView::saveFile);
    dialog->open();
  });
  setFocusProxy(canvas_);
  setState({});
}

void TheoryLabView::setState(const TheoryState& state) {
  take(theoryData(state));
  controls_->setState(state);
  idle_->start();
}

void TheoryLabView::tell() {
  if (untold_) Q_EMIT stateChanged(saved());
  untold_ = false;
}

void TheoryLabView::hideEvent(QHideEvent* event) {
  tell();
  View::hideEvent(event);
}

void TheoryLabView::take(TheoryData data) {
  data_ = std::move(data);
  canvas_->setData(&data_);
  setAccessibleName(canvas_->accessibleName());
  fillTable();
}

void TheoryLabView::fillTable() {
  const auto rows = theoryRows(data_);
  const Theme& theme = Theme::current();
  table_->setRowCount(int(rows.size()));
  const int height = int(std::lround(21 * theme.base / 12));
  for (int i = 0; i < rows.size(); ++i) {
    const TheoryRow& row = rows[i];
    const bool heading = !row.section.isEmpty();
    const auto cell = [&](int column) {
      if (!table_->item(i, column)) table_->setItem(i, column, new QTableWidgetItem);
      return table_->item(i, column);
    };
    cell(0)->setText(heading ? row.section : row.name);
    cell(0)->setFont(heading ? theme.labelSemibold() : theme.label());
    cell(0)->setForeground(heading ? theme.text : theme.text2);
    cell(1)->setText(row.shown());
    cell(1)->setFont(theme.label());
    cell(1)->setForeground(row.value || heading ? theme.text : theme.text2);
    cell(1)->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
    const QString tip = heading ? QString() : row.explanation + QLatin1Char('\n') + row.exact() + QStringLiteral("\nClick or Ctrl+C copies every digit");
    cell(0)->setToolTip(tip);
    cell(1)->setToolTip(tip);
    table_->setRowHeight(i, heading ? height + 6 : height);
  }
}

void TheoryLabView::copyRow(int at) {
  const auto rows = theoryRows(data_);
  if (at < 0 || at >= rows.size() || !rows[at].section.isEmpty()) return;
  QGuiApplication::clipboard()->setText(rows[at].exact());
  Q_EMIT statusText(QStringLiteral("copied %1 = %2").arg(rows[at].name, rows[at].exact()));
}

QString TheoryLabView::numbersText() const {
  QString text;
  for (const TheoryRow& row : theoryRows(data_))
    if (row.section.isEmpty()) text += row.name + QLatin1Char('\t') + row.exact() + QLatin1Char('\n');
  return text;
}

bool TheoryLabView::restore(const QByteArray& json) {
  try {
    setState(parseTheory(json, QString()));
    return true;
  } catch (const Error&) {  // settings of another version: the state stays
    return false;
  }
}

bool TheoryLabView::openFile(const QString& path) {
  try {
    setState(readTheory(path));
    controls_->say(QStringLiteral("Opened ") + path);
    untold_ = true;
    return true;
  } catch (const Error& e) {
    controls_->say(QString::fromStdString(e.what()), true);
    return false;
  }
}

bool TheoryLabView::saveFile(const QString& path) {
  try {
    writeTheory(data_.state, path);
    controls_->say(QStringLiteral("Saved ") + path);
    return true;
  } catch (const Error& e) {
    controls_->say(QString::fromStdString(e.what()), true);
    return false;
  }
}

void TheoryLabView::arrange() {
  const Theme& theme = Theme::current();
  const double s = theme.base / 12;
  controls_scroll_->setFixedWidth(int(kControls * s));
  const bool wide = width() >= kWideFrom * s;
  const auto orientation = wide ? Qt::Horizontal : Qt::Vertical;
  const int room = width() - controls_scroll_->width();
  if (split_->orientation() != orientation || split_->property("arranged").toBool() != true) {
    split_->setOrientation(orientation);
    split_->setProperty("arranged", true);
    split_->setSizes(wide ? QList<int>{room - int(kTable * s), int(kTable * s)} : QList<int>{std::max(10, height() - int(150 * s)), int(150 * s)});
  }
  canvas_->setMinimumHeight(int(theoryHeight(wide ? room - kTable * s : room, theme)));
}

void TheoryLabView::resizeEvent(QResizeEvent* event) {
  View::resizeEvent(event);
  arrange();
}

void TheoryLabView::changeEvent(QEvent* event) {
  View::changeEvent(event);
  if (event->type() != QEvent::PaletteChange || !canvas_) return;
  arrange();
  fillTable();
  canvas_->update();
}

void TheoryLabView::paintFigure(QPainter& painter, const QRectF& area, const Theme& theme, const FigureOptions& options) {
  paintTheoryFigure(painter, data_, area, theme, options);
}

}  // namespace slotscope::views
