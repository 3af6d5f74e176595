#include "views/value_field_view.h"

#include <QAbstractItemView>
#include <QComboBox>
#include <QEvent>
#include <QFile>
#include <QFileInfo>
#include <QFrame>
#include <QHBoxLayout>
#include <QInputDialog>
#include <QLabel>
#include <QMenu>
#include <QPainter>
#include <QSaveFile>
#include <QScrollArea>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>
#include <chrono>

#include "core/analysis/value_field_file.h"
#include "core/analysis/value_field_json.h"
#include "core/error.h"
#include "core/trace/sweep_file.h"
#include "views/caption.h"
#include "views/format.h"
#include "views/value_field_canvas.h"
#include "views/value_field_controls.h"

namespace slotscope::views {

using analysis::FieldKind;
using analysis::FieldPanel;

namespace {

constexpr size_t kMostUndo = 100;
// Up to this many slot updates the values at the cross are computed for that very query, beyond it taken from its cell.
constexpr double kExactCross = 400'000;

class FieldLegend : public QWidget {
 public:
  explicit FieldLegend(ValueFieldView* view) : QWidget(view), view_(view) { setAccessibleName(QStringLiteral("Colours of values")); }
  QSize sizeHint() const override { return {int(200 * Theme::current().base / 12), 26}; }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    paintFieldLegend(painter, width() - 2, height() / 2.0, view_->state().settings, Theme::current());
  }

 private:
  ValueFieldView* view_;
};

QString rowsText(const std::vector<double>& rows) {
  QStringList parts;
  for (const double r : rows) parts << (std::isinf(r) ? QStringLiteral("∞") : QString::number(r, 'g', 4));
  return QStringLiteral("β / β*: ") + parts.join(QStringLiteral(", "));
}

// "0.5, 1, 2" or "∞"; empty when it is not a list of numbers.
std::vector<double> rowsOf(const QString& text) {
  std::vector<double> rows;
  for (const QString& part : text.split(QLatin1Char(','))) {
    bool good = false;
    const QString word = part.trimmed();
    const double v = word == QStringLiteral("∞") || word == QStringLiteral("inf") ? std::numeric_limits<double>::infinity() : word.toDouble(&good);
    if (!good && !std::isinf(v)) return {};
    rows.push_back(v);
  }
  return rows;
}

const std::vector<std::vector<double>>& usualRows() {
  static const std::vector<std::vector<double>> rows = {{0.5, 1, 2}, {1}, {0.25, 0.5, 1, 2, 4}, {1, 1.58, 2.51}, {0, 0.5, 1, std::numeric_limits<double>::infinity()}};
  return rows;
}

}  // namespace

ValueFieldView::ValueFieldView(Worker* worker, QWidget* parent)
    : View(nullptr, parent), worker_(worker), state_(firstFieldState()), cache_(std::make_shared<analysis::FieldCache>()),
      quick_cache_(std::make_shared<analysis::FieldCache>()), rest_(new QTimer(this)) {
  auto* across = new QHBoxLayout(this);
  across->setContentsMargins(0, 0, 0, 0);
  across->setSpacing(0);
  controls_ = new ValueFieldControls(this);
  auto* panel = new QScrollArea(this);
  panel->setWidget(controls_);
  panel->setWidgetResizable(true);
  panel->setFrameShape(QFrame::NoFrame);
  panel->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  panel->setFixedWidth(232);
  controls_->setAutoFillBackground(false);  // the surface of the scroll area shows through
  panel->viewport()->setAutoFillBackground(false);
  across->addWidget(panel);
  auto* rule = new FieldRule(this);
  rule->setFixedWidth(1);
  across->addWidget(rule);

  auto* column = new QVBoxLayout;
  column->setSpacing(0);
  auto* bar = new QFrame(this);
  bar->setProperty("ui", "bar");
  bar->setFixedHeight(36);
  buildBar(bar);
  column->addWidget(bar);
  note_ = new QLabel(this);
  note_->setWordWrap(true);
  note_->setMargin(6);
  note_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  note_->hide();
  column->addWidget(note_);
  canvas_ = new ValueFieldCanvas(this);
  scroll_ = new QScrollArea(this);
  scroll_->setWidget(canvas_);
  scroll_->setWidgetResizable(true);
  scroll_->setFrameShape(QFrame::NoFrame);
  scroll_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  column->addWidget(scroll_, 1);
  across->addLayout(column, 1);
  setFocusProxy(canvas_);

  rest_->setSingleShot(true);
  rest_->setInterval(400);
  connect(rest_, &QTimer::timeout, this, [this] { Q_EMIT stateChanged(saved()); });
  showState();
  request(false);
}

ValueFieldView::~ValueFieldView() {
  if (running_) running_->request_cancel();
}

void ValueFieldView::buildBar(QFrame* bar) {
  auto* row = new QHBoxLayout(bar);
  row->setContentsMargins(10, 0, 10, 0);
  row->setSpacing(6);
  const auto label = [&](const QString& text) {
    auto* name = new QLabel(text, bar);
    name->setProperty("ui", "text2");
    name->setFont(Theme::current().label());
    row->addWidget(name);
  };
  label(QStringLiteral("Rows"));
  rows_ = new QComboBox(bar);
  rows_->setAccessibleName(QStringLiteral("Rows: beta over beta star"));
  rows_->setToolTip(QStringLiteral("β of each row in units of β*. The wheel over a panel changes its row's"));
  connect(rows_, &QComboBox::activated, this, [this](int index) {
    if (index + 1 == rows_->count()) {
      bool good = false;
      QStringList now;
      for (const double r : state_.settings.rows) now << QString::number(r, 'g', 6);
      const QString text = QInputDialog::getText(this, QStringLiteral("Rows"), QStringLiteral("β / β* of each row, separated by commas (inf: the nearest code alone)"), QLineEdit::Normal, now.join(QStringLiteral(", ")), &good);
      if (!good) return refreshBar();
      const auto rows = rowsOf(text);
      if (rows.empty()) {
        refreshBar();
        return say(QStringLiteral("Rows: “%1” is no list of numbers such as 0.5, 1, 2").arg(text.left(60)), true);
      }
      return change([&](FieldState& state) { state.settings.rows = rows; });
    }
    const auto text = rows_->itemData(index).toString();
    change([&](FieldState& state) { state.settings.rows = rowsOf(text); });
  });
  rows_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  rows_->setMinimumContentsLength(15);
  rows_->setMinimumWidth(70);
  rows_->view()->setMinimumWidth(190);
  row->addWidget(rows_);
  label(QStringLiteral("Columns"));
  columns_ = new QComboBox(bar);
  columns_->setAccessibleName(QStringLiteral("Columns"));
  columns_->setToolTip(QStringLiteral("Which memories are compared. A panel's menu changes its column"));
  connect(columns_, &QComboBox::activated, this, [this](int index) {
    const auto* set = analysis::find_field_columns(columns_->itemData(index).toString().toStdString());
    if (!set) return;
    change([set](FieldState& state) {
      state.settings.columns = set->make(state.settings.space);
      state.columns = QString::fromLatin1(set->name);
      state.large = -1;
    });
  });
  columns_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  columns_->setMinimumContentsLength(12);
  columns_->setMinimumWidth(70);
  columns_->view()->setMinimumWidth(170);
  row->addWidget(columns_);
  presets_ = new QToolButton(bar);
  presets_->setText(QStringLiteral("Presets"));
  presets_->setProperty("ui", "button");
  presets_->setPopupMode(QToolButton::InstantPopup);
  presets_->setToolTip(QStringLiteral("Figures to begin with"));
  auto* menu = new QMenu(presets_);
  menu->setToolTipsVisible(true);
  for (const auto& preset : analysis::field_presets())
    menu->addAction(QString::fromUtf8(preset.title), this, [this, &preset] {
          change([&](FieldState& state) { state = fieldStateOf(preset); });
        })->setToolTip(QString::fromUtf8(preset.tip));
  presets_->setMenu(menu);
  row->addWidget(presets_);
  back_ = new QToolButton(bar);
  back_->setText(QStringLiteral("All panels"));
  back_->setProperty("ui", "button");
  back_->setToolTip(QStringLiteral("Back to all panels (Esc)"));
  connect(back_, &QToolButton::clicked, this, [this] { setLarge(-1); });
  row->addWidget(back_);
  row->addStretch(1);
  row->addWidget(new FieldLegend(this));
}

void ValueFieldView::refreshBar() {
  rows_->clear();
  auto rows = usualRows();
  int current = -1;
  for (const auto& r : rows) {
    if (r == state_.settings.rows) current = rows_->count();
    rows_->addItem(rowsText(r), rowsText(r).section(QLatin1Char(':'), 1));
  }
  if (current < 0) {
    rows_->insertItem(0, rowsText(state_.settings.rows), rowsText(state_.settings.rows).section(QLatin1Char(':'), 1));
    current = 0;
  }
  rows_->addItem(QStringLiteral("other…"));
  rows_->setCurrentIndex(current);
  columns_->clear();
  const int count = int(state_.settings.columns.size());
  if (state_.columns.isEmpty()) columns_->addItem(QStringLiteral("by hand (%1)").arg(count));
  for (const auto& set : analysis::field_column_sets()) {
    const bool now = state_.columns == QLatin1String(set.name);
    columns_->addItem(QStringLiteral("%1 (%2)").arg(QString::fromUtf8(set.title)).arg(now ? count : int(set.make(state_.settings.space).size())), QString::fromLatin1(set.name));
    columns_->setItemData(columns_->count() - 1, QString::fromUtf8(set.tip), Qt::ToolTipRole);
    if (now) columns_->setCurrentIndex(columns_->count() - 1);
  }
  back_->setVisible(state_.large >= 0);
}

void ValueFieldView::setState(FieldState state) {
  change([&](FieldState& now) { now = std::move(state); });
}

void ValueFieldView::showState() {
  refreshBar();
  controls_->showState();
  canvas_->contentChanged();
  setAccessibleName(accessibleText());
  canvas_->setAccessibleName(accessibleText());
  for (QWidget* child : findChildren<QWidget*>(QString(), Qt::FindDirectChildrenOnly)) child->update();
}

void ValueFieldView::change(const std::function<void(FieldState&)>& how, bool quick) {
  FieldState next = state_;
  try {
    how(next);
  } catch (const Error& e) {
    say(QString::fromUtf8(e.what()), true);
    return showState();
  }
  if (const std::string problem = analysis::field_problem(next.settings); !problem.empty()) {
    say(QString::fromStdString(problem), true);
    return showState();
  }
  if (!(quick && dragging_)) {  // one step of undo per drag
    undo_.push_back(state_);
    if (undo_.size() > kMostUndo) undo_.erase(undo_.begin());
  }
  dragging_ = quick;
  const int panels = int(next.settings.rows.size() * next.settings.columns.size());
  if (next.large >= panels) next.large = -1;
  if (next.selected >= int(next.settings.keys.size())) next.selected = -1;
  state_ = std::move(next);
  shown_row_ = std::clamp(shown_row_, 0, int(state_.settings.rows.size()) - 1);
  say({});
  renewCross();
  showState();
  request(quick);
  rest_->start();
}

void ValueFieldView::finishQuick() {
  if (!dragging_) return;
  dragging_ = false;
  request(false);
}

void ValueFieldView::request(bool quick) {
  analysis::FieldSettings settings = state_.settings;
  if (quick) settings.grid = std::min(settings.grid, kQuickGrid);
  const quint64 serial = ++asked_;
  if (running_) running_->request_cancel();  // of a fine field that nobody will see
  running_ = quick ? nullptr : std::make_shared<Progress>();
  const auto compute = [settings, progress = running_, cache = quick ? quick_cache_ : cache_](double* seconds) {
    const auto start = std::chrono::steady_clock::now();
    auto field = analysis::value_field(settings, progress.get(), cache.get(), analysis::FieldPlace::automatic);
    *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return field;
  };
  if (!worker_) {
    double seconds = 0;
    auto field = compute(&seconds);
    return take(std::move(field), seconds, serial, quick);
  }
  worker_->post(QStringLiteral("value-field.%1").arg(quintptr(this), 0, 16), this, [this, compute, serial, quick]() -> Worker::Done {
    double seconds = 0;
    auto field = compute(&seconds);
    return [this, field = std::move(field), seconds, serial, quick] { take(field, seconds, serial, quick); };
  });
}

void ValueFieldView::take(std::shared_ptr<const analysis::ValueField> field, double seconds, quint64 serial, bool quick) {
  if (!field || serial < shown_) return;
  shown_ = serial;
  field_ = std::move(field);
  field_quick_ = quick;
  Q_EMIT reductionText(QStringLiteral("%1 × %1 queries, computed in %2 · %3 · float64").arg(field_->settings.grid).arg(seconds < 0.0095 ? QStringLiteral("%1 ms").arg(seconds * 1000, 0, 'f', 1) : QStringLiteral("%1 s").arg(seconds, 0, 'f', 2), field_->on_gpu ? QStringLiteral("GPU") : QStringLiteral("CPU")));
  if (cross_values_.empty()) renewCross();
  canvas_->contentChanged();
  setAccessibleName(accessibleText());
  canvas_->setAccessibleName(accessibleText());
  Q_EMIT fieldChanged();
}

bool ValueFieldView::settled() const { return field_ && shown_ == asked_ && !field_quick_; }

void ValueFieldView::moveKey(int key, const QPointF& query, bool quick) {
  if (key < 0 || key >= int(state_.settings.keys.size())) return;
  change(
      [&](FieldState& state) {
        auto& k = state.settings.keys[size_t(key)];
        k.x = query.x(), k.y = query.y();
        state.edited = true, state.selected = key;
      },
      quick);
}

void ValueFieldView::addKey(const QPointF& query) {
  change([&](FieldState& state) {
    analysis::FieldKey key;
    key.x = query.x(), key.y = query.y();
    key.value = analysis::spare_value(state.settings.keys, state.settings.channels);
    state.settings.keys.push_back(key);
    state.edited = true, state.selected = int(state.settings.keys.size()) - 1;
  });
}

void ValueFieldView::removeKey(int key) {
  if (key < 0 || key >= int(state_.settings.keys.size())) return;
  if (state_.settings.keys.size() == 1) return say(QStringLiteral("The last key stays: without keys there is no field"));
  change([&](FieldState& state) {
    state.settings.keys.erase(state.settings.keys.begin() + key);
    state.edited = true, state.selected = -1;
  });
}

void ValueFieldView::selectKey(int key) {
  if (key == state_.selected) return;
  state_.selected = key >= 0 && key < int(state_.settings.keys.size()) ? key : -1;
  controls_->showState();
  canvas_->update();
  rest_->start();
}

void ValueFieldView::setCross(std::optional<QPointF> query) {
  if (query == state_.cross) return;
  state_.cross = query;
  renewCross();
  controls_->showCross();
  canvas_->update();
  rest_->start();
}

void ValueFieldView::setLarge(int panel) {
  const int panels = int(state_.settings.rows.size() * state_.settings.columns.size());
  state_.large = panel >= 0 && panel < panels ? panel : -1;
  if (state_.large >= 0) shown_row_ = state_.large / int(state_.settings.columns.size());
  showState();
  rest_->start();
}

void ValueFieldView::setHoveredRow(int row) {
  if (row == shown_row_) return;
  shown_row_ = row;
  controls_->showCross();
}

void ValueFieldView::renewCross() {
  cross_values_.clear();
  if (!state_.cross) return;
  const auto& s = state_.settings;
  double work = 0;
  for (const FieldPanel& p : s.columns)
    if (p.kind == FieldKind::ramnet) work += double(s.keys.size()) * double(analysis::field_slots(s.space, p.codes));
    else if (p.kind == FieldKind::linear_features) work += double(s.keys.size()) * p.features;
  if (work * double(s.rows.size()) <= kExactCross) {
    cross_values_ = analysis::value_field_at(s, state_.cross->x(), state_.cross->y());
    return;
  }
  if (!field_ || field_->settings.columns.size() != s.columns.size() || field_->settings.rows.size() != s.rows.size() || field_->settings.channels != s.channels) return;
  const auto cell = [&](const std::vector<double>& at, double v) {
    const double step = at.size() > 1 ? at[1] - at[0] : 1;
    return size_t(std::clamp(std::lround((v - at[0]) / step), 0L, long(at.size()) - 1));
  };
  const size_t C = size_t(s.channels), at = (cell(field_->y, state_.cross->y()) * field_->x.size() + cell(field_->x, state_.cross->x())) * C;
  const auto put = [&](const analysis::FieldResult& f) { cross_values_.insert(cross_values_.end(), f.value.begin() + std::ptrdiff_t(at), f.value.begin() + std::ptrdiff_t(at + C)); };
  put(*field_->reference);
  for (const auto& panel : field_->panels) put(*panel);
}

void ValueFieldView::takeHead(const FieldCapture& capture) {
  if (!run_ || !run_->trace) return say(QStringLiteral("No trace is open"), true);
  struct Taken {
    std::shared_ptr<const analysis::FieldHead> head;
    std::string why;
  };
  const auto read = [trace = run_->trace, run = run_->run, capture] {
    Taken taken;
    try {
      taken.head = std::make_shared<analysis::FieldHead>(analysis::load_field_head(*trace, run, capture.layer, capture.head));
    } catch (const std::exception& e) {
      taken.why = e.what();
    }
    return taken;
  };
  const auto show = [this, capture](const Taken& taken) {
    if (!taken.head) return say(QString::fromStdString(taken.why), true);
    change([&](FieldState& state) {
      const auto space = state.settings.space;
      state.settings = analysis::project_head(*taken.head, capture.projection, state.settings).settings;
      state.edited = true, state.selected = -1, state.large = -1, state.cross.reset();
      state.layout.rgb = state.settings.channels == 3;
      if (const auto* set = analysis::find_field_columns(state.columns.toStdString()); set && space != state.settings.space)
        state.settings.columns = set->make(state.settings.space);
    });
  };
  if (!worker_) return show(read());
  worker_->post(QStringLiteral("value-field-head.%1").arg(quintptr(this), 0, 16), this, [read, show]() -> Worker::Done {
    return [show, taken = read()] { show(taken); };
  });
}

void ValueFieldView::undo() {
  if (undo_.empty()) return;
  FieldState before = std::move(undo_.back());
  undo_.pop_back();
  const auto rest = undo_;
  setState(std::move(before));
  undo_ = rest;  // going back is no step of its own
}

void ValueFieldView::say(const QString& text, bool error) {
  if (text == note_->text() && note_->isVisibleTo(this) != text.isEmpty()) return;
  note_->setText(text);
  note_->setProperty("ui", error ? "error" : "text2");
  note_->setStyleSheet(QStringLiteral("color: %1").arg((error ? Theme::current().error : Theme::current().text2).name()));
  note_->setVisible(!text.isEmpty());
}

bool ValueFieldView::restore(const QByteArray& json) {
  try {
    FieldState state = parseFieldState(json);
    setState(std::move(state));
    undo_.clear();
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool ValueFieldView::openFile(const QString& path) {
  try {
    QFile file(path);
    if (!file.open(QIODevice::ReadOnly)) throw Error({.file = path.toStdString(), .item = "file", .found = file.errorString().toStdString()});
    if (file.peek(8) == QByteArray("\x89HDF\r\n\x1a\n", 8)) {
      const auto description = trace::ResultFile::open(path.toStdString(), analysis::kValueFieldKind)->description();
      FieldState state = parseFieldState(QByteArray::fromStdString(description.text("settings")));
      setState(std::move(state));
    } else {
      if (file.size() > (16 << 20)) throw Error({.file = path.toStdString(), .item = "size", .found = std::to_string(file.size()) + " bytes", .expected = "at most 16 MiB"});
      setState(parseFieldState(file.readAll()));
    }
    say(QStringLiteral("Opened %1").arg(QFileInfo(path).fileName()));
    return true;
  } catch (const Error& e) {
    say(QString::fromUtf8(e.what()), true);
    return false;
  }
}

bool ValueFieldView::saveFile(const QString& path) {
  QSaveFile file(path);
  const QByteArray text = saved();
  if (!file.open(QIODevice::WriteOnly) || file.write(text) != text.size() || !file.commit()) {
    say(QStringLiteral("%1: %2").arg(path, file.errorString()), true);
    return false;
  }
  say(QStringLiteral("Saved %1").arg(QFileInfo(path).fileName()));
  return true;
}

void ValueFieldView::setRun(std::shared_ptr<const RunData> run) { run_ = std::move(run); }

void ValueFieldView::changeEvent(QEvent* event) {
  View::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && canvas_) canvas_->update();
}

void ValueFieldView::resizeEvent(QResizeEvent* event) {
  View::resizeEvent(event);
  canvas_->contentChanged();
}

QString ValueFieldView::accessibleText() const {
  const auto& s = state_.settings;
  QString text = QStringLiteral("Value fields, %1 rows of %2 panels, %3 keys").arg(s.rows.size()).arg(s.columns.size()).arg(s.keys.size());
  if (!field_ || field_->settings.columns.size() != s.columns.size() || field_->settings.rows.size() != s.rows.size()) return text;
  for (size_t row = 0; row < s.rows.size(); ++row)
    for (size_t column = 0; column < s.columns.size(); ++column) {
      if (s.columns[column].kind == FieldKind::full_attention) continue;
      text += QStringLiteral("; %1, %2: %3").arg(fieldRowText(s.rows[row]), fieldTitle(s, column), fieldCaption(s, field_->at(row, column), column).simplified());
    }
  return text;
}

// A figure has the full grid, whatever is on screen at the moment.
const analysis::ValueField& ValueFieldView::exportedField() const {
  if (settled() && field_->settings == state_.settings) return *field_;
  if (!exported_ || !(exported_->settings == state_.settings)) exported_ = analysis::value_field(state_.settings);
  return *exported_;
}

QSizeF ValueFieldView::figureSize() const { return state_.large >= 0 ? QSizeF(760, 500) : fieldFigureSize(state_.settings); }

void ValueFieldView::paintFigure(QPainter& painter, const QRectF& area, const Theme& theme, const FigureOptions& options) {
  const auto& field = exportedField();
  FieldMarks marks;
  if (options.selection) marks.cross = state_.cross, marks.selected = state_.selected;
  if (state_.large < 0) return paintFieldFigure(painter, area, theme, options, field, marks);
  painter.save();
  painter.fillRect(area, theme.surface);
  QRectF rest = options.caption ? paintCaption(painter, area, fieldFacts(field.settings), theme) : area;
  if (options.legend) paintFieldLegend(painter, rest.right() - 12, rest.bottom() - 16, field.settings, theme);
  FieldImages images;
  paintLargeField(painter, rest, field, state_.large, theme, marks, images);
  painter.restore();
}

QString ValueFieldView::csv() const { return fieldCsv(exportedField()); }

}  // namespace slotscope::views
