#include "app/window/run_panel.h"

#include <QButtonGroup>
#include <QComboBox>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QStandardItemModel>
#include <QToolButton>
#include <QVBoxLayout>
#include <cmath>

#include "app/window/icons.h"
#include "views/format.h"
#include "views/theme.h"

namespace slotscope::app {

using views::Theme;

namespace {

struct CapturePreset {
  const char *name, *fields, *tip;
};
// What the views need comes first; the others add to it.
constexpr CapturePreset capture_presets[] = {
    {"routes + reads", "route,log_decay,write_strength,read_weight,margin,ties,addresses,top_ids,top_logprob",
     "Routes, log decay and write strength of every token; the read softmax at the query and the answer"},
    {"routes only", "route,log_decay,write_strength,top_ids,top_logprob",
     "Routes, log decay and write strength of every token"},
    {"routes + reads + state",
     "route,log_decay,write_strength,read_weight,margin,ties,addresses,top_ids,top_logprob,state_k,state_v,slot_value",
     "As routes + reads, and what the slots hold at the end"},
    {"routes + reads + hidden",
     "route,log_decay,write_strength,read_weight,margin,ties,addresses,top_ids,top_logprob,hidden",
     "As routes + reads, and the residual stream after every block (large)"},
    {"routes + attribution", "route,attribution,margin,ties,addresses,top_ids,top_logprob",
     "As routes + reads, and query and key: read attribution of every family, matrix states too"},
    {"counters only", "esl,selected,ties", "Effective sequence lengths and selection counts; no heatmap"},
    {"fields…", "", "Names or patterns of fields, as in slotscope-cli run --capture"},
};
constexpr int custom_capture = int(std::size(capture_presets)) - 1;

QString sizeLine(const engine::ModelInfo& info, const QString& dtype) {
  int routed = 0;
  const engine::LayerInfo* first = nullptr;
  for (const auto& layer : info.layers)
    if (layer.route_kind == "sparse") {
      if (!first) first = &layer;
      ++routed;
    }
  QString text = QString("%1 layer%2").arg(info.layers.size()).arg(info.layers.size() == 1 ? "" : "s");
  if (first) {
    text +=
        QString(" × %1 heads × %2 slots, top-%3").arg(first->route_heads).arg(first->slots).arg(first->top_k);
    if (routed < int(info.layers.size()))
      text += QString("; %1 without routes").arg(int(info.layers.size()) - routed);
  } else if (!info.layers.empty()) {
    text += QString(" × %1 heads, %2")
                .arg(info.layers[0].heads)
                .arg(QString::fromStdString(info.layers[0].mixer));
  }
  const double p = double(info.parameters);
  const QString parameters = p >= 1e9   ? QString::number(p / 1e9, 'f', 2) + " G"
                             : p >= 1e6 ? QString::number(p / 1e6, 'f', 2) + " M"
                                        : views::count(info.parameters);
  return text + "\n" + parameters + " parameters · " + dtype;
}

QSpinBox* spin(int low, int high, int value, const QString& suffix, const QString& name) {
  auto* box = new QSpinBox;
  box->setRange(low, high);
  box->setValue(value);
  box->setSuffix(suffix);
  box->setAccessibleName(name);
  box->setMinimumWidth(40);
  box->setGroupSeparatorShown(false);
  return box;
}

// Wheel events scroll the panel unless the control has the focus: no value changes by accident.
class QuietWheel : public QObject {
 public:
  using QObject::QObject;
  bool eventFilter(QObject* object, QEvent* event) override {
    if (event->type() == QEvent::Wheel && !static_cast<QWidget*>(object)->hasFocus()) {
      event->ignore();
      return true;
    }
    return false;
  }
};

}  // namespace

QString RunSettings::jobName() const {
  if (mode == Mode::task) return QString("Run password · %1").arg(length);
  if (mode == Mode::text) return QStringLiteral("Run text");
  if (mode == Mode::file)
    return QString("Run %1 · %2")
        .arg(QFileInfo(prompts).fileName(), rows.trimmed().isEmpty() ? "all rows" : "rows " + rows.trimmed());
  return QStringLiteral("Run token ids");
}

RunPanel::RunPanel(QWidget* parent) : QWidget(parent) {
  setObjectName("runPanel");
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(11, 3, 11, 3);
  column->setSpacing(3);

  auto* head = new QHBoxLayout;
  name_ = new QLabel(this);
  name_->setTextFormat(Qt::PlainText);
  name_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  flavour_ = new QToolButton(this);
  flavour_->setProperty("ui", "quiet");
  flavour_->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  connect(flavour_, &QToolButton::clicked, this, &RunPanel::chooseFlavour);
  head->addWidget(name_, 1);
  head->addWidget(flavour_);
  column->addLayout(head);
  size_ = new QLabel(this);
  size_->setWordWrap(true);
  size_->setProperty("ui", "text2");
  size_->setTextFormat(Qt::PlainText);
  column->addWidget(size_);

  auto* segments = new QHBoxLayout;
  segments->setSpacing(0);
  segments->setContentsMargins(0, 2, 0, 0);
  mode_ = new QButtonGroup(this);
  const char* names[] = {"Text", "Task", "Token ids", "File"};
  for (int i = 0; i < 4; ++i) {
    auto* b = new QPushButton(names[i], this);
    b->setProperty("ui", "segment");
    b->setCheckable(true);
    mode_->addButton(b, i);
    segments->addWidget(b, i == 2 ? 14 : 12);
  }
  mode_->button(1)->setChecked(true);
  mode_->button(3)->hide();  // until a file was imported
  column->addLayout(segments);
  column->addWidget(buildForms());

  auto* foot = new QHBoxLayout;
  estimate_ = new QLabel(this);
  estimate_->setWordWrap(true);
  estimate_->setTextFormat(Qt::PlainText);
  shortcut_ = new QLabel("Ctrl+R", this);
  shortcut_->setProperty("ui", "text3");
  foot->addWidget(estimate_, 1);
  foot->addWidget(shortcut_, 0, Qt::AlignTop);
  column->addLayout(foot);
  column->addStretch(1);
  connect(mode_, &QButtonGroup::idToggled, this, [this](int, bool on) {
    if (!on) return;
    showMode();
    Q_EMIT settingsChanged();
  });
  setModel({});
  setDevices({{"cpu", "", 0, 0}}, {});
  setEstimate({});
  showMode();
  restyle();
}

QWidget* RunPanel::row(const QString& label, QWidget* field) {
  auto* box = new QWidget(this);
  auto* line = new QHBoxLayout(box);
  line->setContentsMargins(0, 0, 0, 0);
  line->setSpacing(6);
  auto* text = new QLabel(label, box);
  text->setProperty("ui", "text2");
  text->setObjectName("formLabel");
  text->setBuddy(field);
  line->addWidget(text);
  line->addWidget(field, 1);
  return box;
}

QWidget* RunPanel::buildForms() {
  auto* forms = new QWidget(this);
  auto* column = new QVBoxLayout(forms);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(4);

  task_ = new QComboBox;
  task_->addItem("Password (passkey)", "passkey");
  task_->setAccessibleName("Task");
  task_->setToolTip("A password hidden in a haystack, asked for at the end (--task passkey)");
  length_ = spin(32, 4'000'000, 512, " tokens", "Length");
  length_->setToolTip("Prompt tokens with <bos>, without the answer (--length)");
  length_->setSingleStep(256);
  depth_ = spin(-1, 100, 30, " %", "Depth");
  depth_->setSpecialValueText("drawn");
  depth_->setToolTip("Place of the password in the haystack; below 0 %: drawn from the seed (--depth)");
  depth_->setSingleStep(10);
  seed_ = spin(0, INT_MAX, 9, {}, "Seed");
  seed_->setToolTip("Same seed, same prompt on every machine (--seed)");
  haystack_ = new QComboBox;
  haystack_->setAccessibleName("Haystack");
  haystack_->addItem("noise", "noise");
  haystack_->addItem("file…", "");
  haystack_->setToolTip("What the password is hidden in: one sentence repeated, or a text file (--haystack)");

  auto* depth_and_seed = new QWidget;
  auto* pair = new QHBoxLayout(depth_and_seed);
  pair->setContentsMargins(0, 0, 0, 0);
  pair->setSpacing(6);
  auto* seed_label = new QLabel("Seed");
  seed_label->setProperty("ui", "text2");
  pair->addWidget(depth_, 58);
  pair->addWidget(seed_label);
  pair->addWidget(seed_, 49);

  text_box_ = new QWidget;
  auto* text_column = new QVBoxLayout(text_box_);
  text_column->setContentsMargins(0, 0, 0, 0);
  text_column->setSpacing(2);
  text_ = new QPlainTextEdit;
  text_->setAccessibleName("Prompt text");
  text_->setPlaceholderText("The prompt, exactly as the model gets it");
  text_->setTabChangesFocus(true);
  count_ = new QLabel;
  count_->setProperty("ui", "text3");
  text_column->addWidget(text_);
  text_column->addWidget(count_);
  ids_box_ = new QWidget;
  auto* ids_column = new QVBoxLayout(ids_box_);
  ids_column->setContentsMargins(0, 0, 0, 0);
  ids_ = new QPlainTextEdit;
  ids_->setAccessibleName("Token ids");
  ids_->setPlaceholderText("256, 84, 104, 101 …");
  ids_->setTabChangesFocus(true);
  ids_column->addWidget(ids_);
  file_box_ = new QWidget;
  auto* file_column = new QVBoxLayout(file_box_);
  file_column->setContentsMargins(0, 0, 0, 0);
  file_column->setSpacing(4);
  file_name_ = new QLabel;
  file_name_->setTextFormat(Qt::PlainText);
  file_name_->setWordWrap(true);
  file_name_->setProperty("ui", "text2");
  auto* file_buttons = new QHBoxLayout;
  file_buttons->setSpacing(6);
  auto* choose = new QPushButton("Choose rows…");
  auto* other = new QPushButton("Other file…");
  file_buttons->addWidget(choose, 1);
  file_buttons->addWidget(other, 1);
  rows_ = new QLineEdit;
  rows_->setAccessibleName("Rows");
  rows_->setPlaceholderText("all");
  rows_->setToolTip("Rows from 0: ranges without their end and single rows, such as 0:10,15 (--rows)");
  file_column->addWidget(file_name_);
  file_column->addWidget(row("Rows", rows_));
  file_column->addLayout(file_buttons);
  connect(choose, &QPushButton::clicked, this, &RunPanel::chooseRowsRequested);
  connect(other, &QPushButton::clicked, this, &RunPanel::importRequested);
  connect(rows_, &QLineEdit::textChanged, this, [this](const QString& text) {
    Q_EMIT rowsChanged(text);
    Q_EMIT settingsChanged();
  });
  file_generate_ = spin(-1, 100'000, -1, " tokens", "Generate");
  file_generate_->setSpecialValueText("as the task");
  file_generate_->setToolTip("Tokens to generate after each prompt: what its benchmark takes, or the answer's and one more (--generate)");
  generate_ = spin(0, 100'000, 16, " tokens", "Generate");
  generate_->setToolTip("Tokens to generate after the prompt, greedy (--generate)");

  device_ = new QComboBox;
  device_->setAccessibleName("Device");
  capture_ = new QComboBox;
  capture_->setAccessibleName("Capture");
  for (int i = 0; i < int(std::size(capture_presets)); ++i) {
    capture_->addItem(capture_presets[i].name, capture_presets[i].fields);
    capture_->setItemData(i, capture_presets[i].tip, Qt::ToolTipRole);
  }
  capture_->setToolTip("What goes into the trace (--capture)");
  fields_ = new QLineEdit(capture_presets[0].fields);
  fields_->setAccessibleName("Fields to capture");
  fields_->setVisible(false);

  column->addWidget(text_box_);
  column->addWidget(ids_box_);
  column->addWidget(file_box_);
  task_row_ = row("Task", task_);
  length_row_ = row("Length", length_);
  depth_row_ = row("Depth", depth_and_seed);
  haystack_row_ = row("Haystack", haystack_);
  generate_row_ = row("Generate", generate_);
  file_generate_row_ = row("Generate", file_generate_);
  for (QWidget* w : {task_row_, length_row_, depth_row_, haystack_row_, generate_row_, file_generate_row_}) column->addWidget(w);
  column->addWidget(row("Device", device_));
  column->addWidget(row("Capture", capture_));
  column->addWidget(fields_);

  auto* quiet = new QuietWheel(this);
  for (QWidget* w :
       {static_cast<QWidget*>(task_), static_cast<QWidget*>(length_), static_cast<QWidget*>(depth_),
        static_cast<QWidget*>(seed_), static_cast<QWidget*>(haystack_), static_cast<QWidget*>(generate_),
        static_cast<QWidget*>(file_generate_), static_cast<QWidget*>(device_), static_cast<QWidget*>(capture_)}) {
    w->installEventFilter(quiet);
    w->setFocusPolicy(Qt::StrongFocus);
  }
  for (QComboBox* w : {task_, haystack_, device_, capture_}) {
    w->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    w->setMinimumContentsLength(6);
  }
  for (QSpinBox* w : {length_, depth_, seed_, generate_, file_generate_})
    connect(w, &QSpinBox::valueChanged, this, &RunPanel::settingsChanged);
  connect(device_, &QComboBox::currentIndexChanged, this, [this] {
    if (model_.info) size_->setText(sizeLine(*model_.info, settings().dtype));
    Q_EMIT settingsChanged();
  });
  connect(capture_, &QComboBox::currentIndexChanged, this, [this](int i) {
    fields_->setVisible(i == custom_capture);
    Q_EMIT settingsChanged();
  });
  connect(fields_, &QLineEdit::textChanged, this, &RunPanel::settingsChanged);
  connect(haystack_, &QComboBox::activated, this, &RunPanel::chooseHaystack);
  connect(text_, &QPlainTextEdit::textChanged, this, [this] {
    Q_EMIT textChanged(text_->toPlainText());
    Q_EMIT settingsChanged();
  });
  connect(ids_, &QPlainTextEdit::textChanged, this, &RunPanel::settingsChanged);
  return forms;
}

void RunPanel::restyle() {
  const Theme& t = Theme::current();
  QFont name = t.semibold();
  name.setPixelSize(int(std::lround(t.base + 1)));
  name_->setFont(name);
  size_->setFont(t.label());
  estimate_->setFont(t.label());
  shortcut_->setFont(t.label());
  count_->setFont(t.label());
  file_name_->setFont(t.label());
  rows_->setFont(t.fixed);
  flavour_->setFont(t.label());
  text_->setFont(t.fixed);
  ids_->setFont(t.fixed);
  const int line = QFontMetrics(t.fixed).lineSpacing();
  text_->setFixedHeight(line * 4 + 12);
  ids_->setFixedHeight(line * 4 + 12);
  const int label_width = int(std::lround(54 * t.base / 12));
  for (QLabel* label : findChildren<QLabel*>("formLabel")) {
    label->setFont(t.label());
    label->setFixedWidth(std::max(label_width, QFontMetrics(t.label()).horizontalAdvance("Haystack") + 2));
  }
  const int height = int(std::lround(26 * t.base / 12));
  for (QWidget* w :
       {static_cast<QWidget*>(task_), static_cast<QWidget*>(length_), static_cast<QWidget*>(depth_),
        static_cast<QWidget*>(seed_), static_cast<QWidget*>(haystack_), static_cast<QWidget*>(generate_),
        static_cast<QWidget*>(file_generate_), static_cast<QWidget*>(rows_),
        static_cast<QWidget*>(device_), static_cast<QWidget*>(capture_), static_cast<QWidget*>(fields_)})
    w->setFixedHeight(height);
  setModel(model_);
}

void RunPanel::setModel(const ModelHead& model) {
  model_ = model;
  const Theme& t = Theme::current();
  name_->setText(model.name.isEmpty() ? "No model open" : model.name);
  name_->setToolTip(model.folder);
  if (model.info) {
    size_->setText(sizeLine(*model.info, settings().dtype));
    size_->setToolTip(QString::fromStdString(model.info->model_type));
  } else {
    size_->setText(model.name.isEmpty() ? "Open a checkpoint folder (Ctrl+O), or drop one here" : model.why);
    size_->setToolTip(model.why);
  }
  const bool has_flavour = model.info && !model.info->flavour.empty();
  flavour_->setVisible(has_flavour);
  if (has_flavour) {
    flavour_->setText(QString::fromStdString(model.info->flavour) + " flavour");
    const bool guessed = model.info->flavour_matters;
    flavour_->setIcon(guessed ? icon("warning", t.warn) : QIcon());
    flavour_->setStyleSheet(guessed ? QString("color: %1;").arg(t.warn.name()) : QString());
    flavour_->setToolTip(
        QString::fromStdString(model.info->flavour_reason) +
        (guessed ? "\nThis is a guess, and the other flavour would give other numbers. Click to choose."
                 : "\nClick to choose another."));
  }
}

void RunPanel::chooseFlavour() {
  auto* menu = new QMenu(this);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  const QString now = model_.info ? QString::fromStdString(model_.info->flavour) : QString();
  menu->addAction("Detect", this, [this] { Q_EMIT flavourRequested({}); });
  const bool transformer = model_.info && model_.info->model_type == "transformer";
  for (const char* name : {"fla", transformer ? "nope" : "goombalab"}) {
    QAction* action = menu->addAction(QString(transformer && name != QString("fla") ? "%1 flavour (no RoPE)" : "%1 flavour").arg(name), this,
                                      [this, name] { Q_EMIT flavourRequested(name); });
    action->setCheckable(true);
    action->setChecked(now == name);
  }
  menu->popup(flavour_->mapToGlobal(QPoint(0, flavour_->height())));
}

void RunPanel::setDevices(const std::vector<engine::DeviceInfo>& devices, const QString& why_no_cuda) {
  const QSignalBlocker block(device_);
  const QString kept = device_->currentText();
  device_->clear();
  bool has_cuda = false;
  const auto add = [&](const engine::DeviceInfo& d, const QString& label, const char* dtype) {
    device_->addItem(QString("%1, %2").arg(label, dtype), QStringList{QString::fromStdString(d.name), dtype});
    device_->setItemData(device_->count() - 1, QString::fromStdString(d.description), Qt::ToolTipRole);
  };
  for (const auto& d : devices) {
    if (d.name == "cpu") {
      add(d, "CPU", "float32");
      add(d, "CPU", "float64");
    } else {
      has_cuda = true;
      for (const char* dtype : {"float32", "bfloat16", "float64"})
        add(d, QString::fromStdString(d.name).toUpper(), dtype);
    }
  }
  if (!has_cuda) {
    // Shown, disabled, with its reason: no riddle why there is no GPU to choose.
    device_->addItem("CUDA: not available");
    const int at = device_->count() - 1;
    device_->setItemData(at, why_no_cuda.isEmpty() ? "Looked for when a checkpoint is opened" : why_no_cuda,
                         Qt::ToolTipRole);
    if (auto* items = qobject_cast<QStandardItemModel*>(device_->model())) items->item(at)->setEnabled(false);
  }
  device_->setCurrentIndex(std::max(0, device_->findText(kept)));
}

void RunPanel::setEstimate(const QString& text, bool fits) {
  estimate_->setText(text);
  estimate_->setProperty("ui", fits ? "text2" : "error");
  estimate_->setStyleSheet(
      QString("color: %1;").arg((fits ? Theme::current().text2 : Theme::current().error).name()));
}

QString RunPanel::estimateText() const { return estimate_->text(); }

void RunPanel::setTokenCount(qint64 count) {
  count_->setText(count < 0 ? QString() : views::count(count) + (count == 1 ? " token" : " tokens"));
}

void RunPanel::showMode() {
  const int mode = mode_->checkedId();
  text_box_->setVisible(mode == 0);
  ids_box_->setVisible(mode == 2);
  for (QWidget* w : {task_row_, length_row_, depth_row_, haystack_row_}) w->setVisible(mode == 1);
  generate_row_->setVisible(mode == 0 || mode == 2);
  file_box_->setVisible(mode == 3);
  file_generate_row_->setVisible(mode == 3);
}

void RunPanel::setPrompts(std::shared_ptr<const formats::PromptFile> file) {
  prompts_ = file ? QString::fromStdString(file->path().string()) : QString();
  mode_->button(3)->setVisible(file != nullptr);
  mode_->button(2)->setText(file ? "Ids" : "Token ids");  // four have to fit
  if (!file) {
    if (mode_->checkedId() == 3) mode_->button(1)->setChecked(true);
    return;
  }
  file_name_->setText(QString("%1\n%2 row%3, read as %4")
                          .arg(QFileInfo(prompts_).fileName(), views::count(file->rows()), file->rows() == 1 ? "" : "s",
                               QString::fromStdString(std::string(formats::prompt_format_name(file->format())))));
  file_name_->setToolTip(prompts_);
  mode_->button(3)->setChecked(true);
  showMode();
  Q_EMIT settingsChanged();
}

void RunPanel::setRows(const QString& rows) {
  if (rows == rows_->text()) return;
  const QSignalBlocker block(rows_);
  rows_->setText(rows);
}

void RunPanel::chooseHaystack(int index) {
  if (!haystack_->itemData(index).toString().isEmpty()) {
    haystack_before_ = index;
    Q_EMIT settingsChanged();
    return;
  }
  haystack_->setCurrentIndex(haystack_before_);
  auto* dialog = new QFileDialog(this, "Haystack: a text file", {}, "Text files (*.txt);;All files (*)");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setFileMode(QFileDialog::ExistingFile);
  connect(dialog, &QFileDialog::fileSelected, this, [this](const QString& file) {
    RunSettings s = settings();
    s.haystack = file;
    setSettings(s);
    Q_EMIT settingsChanged();
  });
  dialog->open();
}

RunSettings RunPanel::settings() const {
  RunSettings s;
  s.mode = RunSettings::Mode(mode_->checkedId());
  s.text = text_->toPlainText();
  s.ids = ids_->toPlainText();
  s.length = length_->value();
  s.depth = depth_->value() < 0 ? -1 : depth_->value() / 100.0;
  s.seed = quint64(seed_->value());
  s.haystack = haystack_->currentData().toString();
  s.generate = s.mode == RunSettings::Mode::task   ? -1
               : s.mode == RunSettings::Mode::file ? file_generate_->value()
                                                   : generate_->value();
  s.prompts = prompts_;
  s.rows = rows_->text();
  const QStringList device = device_->currentData().toStringList();
  if (device.size() == 2) s.device = device[0], s.dtype = device[1];
  s.capture =
      capture_->currentIndex() == custom_capture ? fields_->text() : capture_->currentData().toString();
  return s;
}

void RunPanel::setSettings(const RunSettings& s) {
  {
    const QSignalBlocker a(mode_), b(text_), c(ids_), d(length_), e(depth_), f(seed_), g(haystack_),
        h(device_), i(capture_);
    mode_->button(int(s.mode))->setChecked(true);
    if (s.text != text_->toPlainText()) text_->setPlainText(s.text);
    if (s.ids != ids_->toPlainText()) ids_->setPlainText(s.ids);
    length_->setValue(int(std::min<qint64>(s.length, length_->maximum())));
    depth_->setValue(s.depth < 0 ? -1 : int(std::lround(s.depth * 100)));
    seed_->setValue(int(std::min<quint64>(s.seed, INT_MAX)));
    int at = haystack_->findData(s.haystack);
    if (at < 0) {
      haystack_->insertItem(haystack_->count() - 1, QFileInfo(s.haystack).fileName(), s.haystack);
      at = haystack_->count() - 2;
      haystack_->setItemData(at, s.haystack, Qt::ToolTipRole);
    }
    haystack_->setCurrentIndex(at);
    haystack_before_ = at;
    if (s.generate >= 0 && s.mode != RunSettings::Mode::file) generate_->setValue(int(s.generate));
    const QSignalBlocker r(rows_), fg(file_generate_);
    file_generate_->setValue(s.mode == RunSettings::Mode::file ? int(s.generate) : -1);
    if (!s.prompts.isEmpty()) prompts_ = s.prompts;
    rows_->setText(s.rows);
    for (int k = 0; k < device_->count(); ++k)
      if (device_->itemData(k).toStringList() == QStringList{s.device, s.dtype}) device_->setCurrentIndex(k);
    int preset = custom_capture;
    for (int k = 0; k < custom_capture; ++k)
      if (s.capture == capture_presets[k].fields) preset = k;
    if (preset == custom_capture) fields_->setText(s.capture);
    capture_->setCurrentIndex(preset);
    fields_->setVisible(preset == custom_capture);
  }
  showMode();
  Q_EMIT settingsChanged();
}

}  // namespace slotscope::app
