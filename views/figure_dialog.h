// "Figure…": choose a figure, look at it, write it (design: sections 4, 14, 15).
#pragma once

#include <QDialog>
#include <QVector>

#include "views/export.h"

class QCheckBox;
class QComboBox;
class QDoubleSpinBox;
class QLabel;
class QLineEdit;
class QPushButton;
class QSpinBox;

namespace slotscope::views {

class FigureDialog : public QDialog {
  Q_OBJECT
 public:
  // `views` are offered by their title; the pair's first is the name shown ("Heatmap · L3·H0"). They must
  // outlive the dialog.
  FigureDialog(QVector<std::pair<QString, View*>> views, View* current, QWidget* parent = nullptr);

  ExportOptions options() const;
  QString path() const;
  View* view() const;
  void setFolder(const QString& folder);  // where the proposed name goes

 Q_SIGNALS:
  void exported(const QStringList& files);

 private:
  void viewChosen();
  void unitChanged();
  void updatePreview();
  void chooseFile();
  void save();
  void copyPicture();
  void showError(const QString& text);
  QVector<std::pair<QString, View*>> views_;
  QString folder_;
  bool own_name_ = false;
  class Preview;
  Preview* preview_ = nullptr;
  QComboBox *kind_ = nullptr, *format_ = nullptr, *theme_ = nullptr, *unit_ = nullptr;
  QDoubleSpinBox *width_ = nullptr, *height_ = nullptr;
  QSpinBox* dpi_ = nullptr;
  QDoubleSpinBox* scale_ = nullptr;
  QCheckBox *selection_ = nullptr, *caption_ = nullptr, *from_one_ = nullptr, *csv_ = nullptr;
  QLineEdit* file_ = nullptr;
  QLabel *pixels_ = nullptr, *error_ = nullptr;
  QPushButton* save_ = nullptr;
};

}  // namespace slotscope::views
