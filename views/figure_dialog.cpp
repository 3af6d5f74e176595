#include "views/figure_dialog.h"

#include <QCheckBox>
#include <QClipboard>
#include <QComboBox>
#include <QDir>
#include <QDoubleSpinBox>
#include <QFileDialog>
#include <QFileInfo>
#include <QFormLayout>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QMessageBox>
#include <QPainter>
#include <QPushButton>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "views/format.h"

namespace slotscope::views {

// The figure itself on a grey ground, as large as there is room for.
class FigureDialog::Preview : public QWidget {
 public:
  explicit Preview(FigureDialog* dialog) : QWidget(dialog), dialog_(dialog) {
    setMinimumSize(420, 320);
    setAccessibleName(QStringLiteral("Preview of the figure"));
    later_ = new QTimer(this);
    later_->setSingleShot(true);
    later_->setInterval(60);
    connect(later_, &QTimer::timeout, this, [this] { render(); });
  }
  void renew() { later_->start(); }
  const QImage& image() const { return image_; }

 protected:
  void resizeEvent(QResizeEvent*) override { renew(); }
  void paintEvent(QPaintEvent*) override {
    const auto& theme = Theme::current();
    QPainter painter(this);
    painter.fillRect(rect(), theme.window);
    if (image_.isNull()) return;
    const QSizeF shown = QSizeF(image_.size()) / image_.devicePixelRatio();
    const QRectF box(std::round((width() - shown.width()) / 2), std::round((height() - shown.height()) / 2),
                     shown.width(), shown.height());
    painter.drawImage(box.topLeft(), image_);
    painter.setPen(QPen(theme.line, 1));
    painter.drawRect(box.adjusted(-0.5, -0.5, 0.5, 0.5));
  }

 private:
  void render() {
    View* view = dialog_->view();
    image_ = {};
    if (view) {
      const auto options = dialog_->options();
      const QSizeF size = options.size.isEmpty() ? view->figureSize() : options.size;
      const double fit = std::min((width() - 24) / size.width(), (height() - 24) / size.height());
      const double ratio = devicePixelRatioF();
      try {
        image_ = renderFigure(figureOf(*view), options, (size * fit * ratio).toSize());
        image_.setDevicePixelRatio(ratio);
      } catch (const Error&) {  // the size is wrong; the line under the fields says so
      }
    }
    update();
  }
  FigureDialog* dialog_;
  QTimer* later_;
  QImage image_;
};

FigureDialog::FigureDialog(QVector<std::pair<QString, View*>> views, View* current, QWidget* parent)
    : QDialog(parent), views_(std::move(views)) {
  setWindowTitle(QStringLiteral("Figure"));
  resize(980, 600);
  folder_ = QDir::currentPath();
  preview_ = new Preview(this);

  auto* form = new QFormLayout;
  form->setLabelAlignment(Qt::AlignLeft);
  form->setVerticalSpacing(4);
  kind_ = new QComboBox(this);
  for (const auto& [name, view] : views_) kind_->addItem(name);
  form->addRow(QStringLiteral("Figure"), kind_);
  format_ = new QComboBox(this);
  format_->addItem(QStringLiteral("PDF, vector text"), QStringLiteral("pdf"));
  format_->addItem(QStringLiteral("SVG, vector text"), QStringLiteral("svg"));
  format_->addItem(QStringLiteral("PNG picture"), QStringLiteral("png"));
  format_->addItem(QStringLiteral("CSV, data only"), QStringLiteral("csv"));
  form->addRow(QStringLiteral("Format"), format_);
  const auto length = [&] {
    auto* box = new QDoubleSpinBox(this);
    box->setRange(1, 100000);
    box->setDecimals(0);
    return box;
  };
  width_ = length();
  height_ = length();
  unit_ = new QComboBox(this);
  unit_->addItems({QStringLiteral("px"), QStringLiteral("mm")});
  auto* size_row = new QHBoxLayout;
  size_row->addWidget(width_, 1);
  size_row->addWidget(new QLabel(QStringLiteral("×"), this));
  size_row->addWidget(height_, 1);
  size_row->addWidget(unit_);
  form->addRow(QStringLiteral("Size"), size_row);
  dpi_ = new QSpinBox(this);
  dpi_->setRange(36, 2400);
  dpi_->setValue(300);
  dpi_->setSuffix(QStringLiteral(" dpi"));
  form->addRow(QStringLiteral("Resolution"), dpi_);
  scale_ = new QDoubleSpinBox(this);
  scale_->setRange(0.8, 2);
  scale_->setSingleStep(0.1);
  scale_->setDecimals(1);
  scale_->setValue(1);
  form->addRow(QStringLiteral("Text scale"), scale_);
  theme_ = new QComboBox(this);
  theme_->addItems({QStringLiteral("light"), QStringLiteral("dark")});
  form->addRow(QStringLiteral("Theme"), theme_);
  caption_ = new QCheckBox(QStringLiteral("Caption under the figure"), this);
  caption_->setChecked(true);
  selection_ = new QCheckBox(QStringLiteral("Keep the selection marks"), this);
  from_one_ = new QCheckBox(QStringLiteral("Count from 1 (as printed in the paper)"), this);
  csv_ = new QCheckBox(QStringLiteral("Data beside it as CSV"), this);
  csv_->setChecked(true);
  for (auto* box : {caption_, selection_, from_one_, csv_}) form->addRow(box);
  file_ = new QLineEdit(this);
  auto* browse = new QPushButton(QStringLiteral("Choose…"), this);
  auto* file_row = new QHBoxLayout;
  file_row->addWidget(file_);
  file_row->addWidget(browse);
  form->addRow(QStringLiteral("File"), file_row);
  pixels_ = new QLabel(this);
  pixels_->setProperty("ui", "text2");
  pixels_->setWordWrap(true);
  form->addRow(pixels_);
  error_ = new QLabel(this);
  error_->setProperty("ui", "error");
  error_->setWordWrap(true);
  error_->hide();

  kind_->setAccessibleName(QStringLiteral("Figure"));
  format_->setAccessibleName(QStringLiteral("Format"));
  width_->setAccessibleName(QStringLiteral("Width"));
  height_->setAccessibleName(QStringLiteral("Height"));
  unit_->setAccessibleName(QStringLiteral("Unit"));
  file_->setAccessibleName(QStringLiteral("File"));
  theme_->setAccessibleName(QStringLiteral("Theme"));

  auto* copy = new QPushButton(QStringLiteral("Copy picture"), this);
  auto* cancel = new QPushButton(QStringLiteral("Close"), this);
  save_ = new QPushButton(QStringLiteral("Save"), this);
  save_->setProperty("ui", "primary");
  save_->setDefault(true);
  auto* buttons = new QHBoxLayout;
  buttons->addWidget(copy);
  buttons->addStretch(1);
  buttons->addWidget(cancel);
  buttons->addWidget(save_);
  auto* right = new QVBoxLayout;
  right->addLayout(form);
  right->addWidget(error_);
  right->addStretch(1);
  right->addLayout(buttons);
  auto* side = new QWidget(this);
  side->setLayout(right);
  side->setFixedWidth(380);
  auto* row = new QHBoxLayout(this);
  row->addWidget(preview_, 1);
  row->addWidget(side);

  const auto changed = [this] { updatePreview(); };
  connect(kind_, &QComboBox::activated, this, &FigureDialog::viewChosen);
  connect(format_, &QComboBox::currentIndexChanged, this, changed);
  connect(theme_, &QComboBox::currentIndexChanged, this, changed);
  connect(unit_, &QComboBox::activated, this, &FigureDialog::unitChanged);
  for (auto* box : {width_, height_, scale_}) connect(box, &QDoubleSpinBox::valueChanged, this, changed);
  connect(dpi_, &QSpinBox::valueChanged, this, changed);
  for (auto* box : {caption_, selection_, from_one_, csv_}) connect(box, &QCheckBox::toggled, this, changed);
  connect(file_, &QLineEdit::textEdited, this, [this] {
    own_name_ = true;
    error_->hide();
  });
  connect(browse, &QPushButton::clicked, this, &FigureDialog::chooseFile);
  connect(copy, &QPushButton::clicked, this, &FigureDialog::copyPicture);
  connect(cancel, &QPushButton::clicked, this, &QDialog::reject);
  connect(save_, &QPushButton::clicked, this, &FigureDialog::save);

  for (int i = 0; i < views_.size(); ++i)
    if (views_[i].second == current) kind_->setCurrentIndex(i);
  viewChosen();
}

View* FigureDialog::view() const {
  const int at = kind_->currentIndex();
  return at >= 0 && at < views_.size() ? views_[at].second : nullptr;
}

void FigureDialog::setFolder(const QString& folder) {
  folder_ = folder;
  own_name_ = false;
  updatePreview();
}

void FigureDialog::viewChosen() {
  if (View* v = view()) {
    const QSignalBlocker a(width_), b(height_);
    const double factor = unit_->currentIndex() == 1 ? 25.4 / 96 : 1;
    width_->setValue(v->figureSize().width() * factor);
    height_->setValue(v->figureSize().height() * factor);
  }
  save_->setEnabled(view() != nullptr);
  updatePreview();
}

void FigureDialog::unitChanged() {
  const bool mm = unit_->currentIndex() == 1;
  const bool was_mm = width_->decimals() == 1;
  if (mm == was_mm) return;
  const QSignalBlocker a(width_), b(height_);
  const double factor = mm ? 25.4 / 96 : 96 / 25.4;
  const double width = width_->value() * factor, height = height_->value() * factor;
  for (auto* box : {width_, height_}) box->setDecimals(mm ? 1 : 0);
  width_->setValue(width);
  height_->setValue(height);
  updatePreview();
}

ExportOptions FigureDialog::options() const {
  ExportOptions options;
  const double factor = unit_->currentIndex() == 1 ? 96 / 25.4 : 1;
  options.size = {width_->value() * factor, height_->value() * factor};
  options.dpi = dpi_->value();
  options.dark = theme_->currentIndex() == 1;
  options.csv = csv_->isChecked();
  options.figure.caption = caption_->isChecked();
  options.figure.selection = selection_->isChecked();
  options.figure.countFromOne = from_one_->isChecked();
  options.figure.scale = scale_->value();
  return options;
}

QString FigureDialog::path() const { return QDir::fromNativeSeparators(file_->text().trimmed()); }

void FigureDialog::updatePreview() {
  const QString suffix = format_->currentData().toString();
  dpi_->setEnabled(suffix == QLatin1String("png"));
  csv_->setEnabled(suffix != QLatin1String("csv"));
  error_->hide();
  View* v = view();
  if (!own_name_ && v) {
    QStringList name{v->runData() ? v->runData()->model_name : QStringLiteral("slotscope"), v->figureKind()};
    if (v->headData()) name << QStringLiteral("L%1H%2").arg(v->headData()->layer).arg(v->headData()->head);
    QString plain = name.join(QLatin1Char('-'));
    for (QChar& c : plain)
      if (!c.isLetterOrNumber() && c != QLatin1Char('-') && c != QLatin1Char('_') && c != QLatin1Char('.'))
        c = QLatin1Char('_');
    file_->setText(QDir::toNativeSeparators(QDir(folder_).filePath(plain + QLatin1Char('.') + suffix)));
  } else if (!file_->text().isEmpty()) {
    const QFileInfo info(path());
    if (info.suffix() != suffix && QStringList{QStringLiteral("png"), QStringLiteral("svg"),
                                               QStringLiteral("pdf"), QStringLiteral("csv")}
                                       .contains(info.suffix().toLower()))
      file_->setText(
          QDir::toNativeSeparators(info.dir().filePath(info.completeBaseName() + QLatin1Char('.') + suffix)));
  }
  if (v) {
    const auto o = options();
    QString text = QStringLiteral("%1 × %2 mm")
                       .arg(o.size.width() * 25.4 / 96, 0, 'f', 1)
                       .arg(o.size.height() * 25.4 / 96, 0, 'f', 1);
    try {
      const QSize pixels = pngSize(figureOf(*v), o);
      if (suffix == QLatin1String("png"))
        text += QStringLiteral(", %1 × %2 pixels").arg(count(pixels.width()), count(pixels.height()));
    } catch (const Error& e) {
      if (suffix == QLatin1String("png")) showError(QString::fromStdString(e.what()));
    }
    pixels_->setText(text);
  }
  preview_->renew();
}

void FigureDialog::chooseFile() {
  const QString suffix = format_->currentData().toString();
  const QString chosen = QFileDialog::getSaveFileName(
      this, QStringLiteral("Save figure"), path(), QStringLiteral("%1 (*.%2)").arg(suffix.toUpper(), suffix),
      nullptr, QFileDialog::DontConfirmOverwrite);
  if (chosen.isEmpty()) return;
  own_name_ = true;
  file_->setText(QDir::toNativeSeparators(
      QFileInfo(chosen).suffix().isEmpty() ? chosen + QLatin1Char('.') + suffix : chosen));
}

void FigureDialog::showError(const QString& text) {
  error_->setText(QStringLiteral("⚠ ") + text);
  error_->show();
}

void FigureDialog::save() {
  View* v = view();
  if (!v) return;
  auto chosen = options();
  const QFileInfo info(path());
  const QString beside = info.dir().filePath(info.completeBaseName() + QStringLiteral(".csv"));
  QStringList existing;
  if (info.exists()) existing << info.fileName();
  if (chosen.csv && info.suffix() != QLatin1String("csv") && QFileInfo::exists(beside))
    existing << QFileInfo(beside).fileName();
  if (!existing.isEmpty()) {
    QMessageBox box(QMessageBox::Question, QStringLiteral("Replace the file?"),
                    QStringLiteral("%1 exists already.").arg(existing.join(QStringLiteral(" and "))),
                    QMessageBox::NoButton, this);
    auto* replace = box.addButton(QStringLiteral("Replace"), QMessageBox::AcceptRole);
    box.addButton(QStringLiteral("Keep"), QMessageBox::RejectRole);
    box.exec();
    if (box.clickedButton() != replace) return;
    chosen.force = true;
  }
  try {
    const QStringList files = exportFigure(*v, path(), chosen);
    Q_EMIT exported(files);
    accept();
  } catch (const Error& e) {
    showError(QString::fromStdString(e.what()));
  }
}

void FigureDialog::copyPicture() {
  View* v = view();
  if (!v) return;
  try {
    const Figure figure = figureOf(*v);
    const auto o = options();
    QGuiApplication::clipboard()->setImage(renderFigure(figure, o, pngSize(figure, o)));
  } catch (const Error& e) {
    showError(QString::fromStdString(e.what()));
  }
}

}  // namespace slotscope::views
