// The controls of the value-field lab: keys, temperature, memory, and the values at the cross (design: section 12).
#pragma once

#include <QWidget>

#include "views/value_field_state.h"

class QCheckBox;
class QComboBox;
class QDoubleSpinBox;
class QGridLayout;
class QLabel;
class QPushButton;
class QSlider;
class QSpinBox;
class QVBoxLayout;

namespace slotscope::views {

class ValueFieldView;

// A line of the theme's colour, as thick as its widget.
class FieldRule : public QWidget {
 public:
  explicit FieldRule(QWidget* parent) : QWidget(parent) {}

 protected:
  void paintEvent(QPaintEvent*) override;
};

class ValueFieldControls : public QWidget {
  Q_OBJECT
 public:
  explicit ValueFieldControls(ValueFieldView* view);
  void showState();  // shows the view's state; changes nothing
  void showCross();  // and the values at the cross
  QString crossText() const;  // its lines, for the clipboard and for tests

 protected:
  void changeEvent(QEvent*) override;

 private:
  void restyle();
  QGridLayout* section(QVBoxLayout* column, const QString& title);
  void row(QGridLayout* grid, const QString& name, QWidget* field, const QString& tip);
  void buildKeys(QVBoxLayout* column);
  void buildTemperature(QVBoxLayout* column);
  void buildMemory(QVBoxLayout* column);
  void layKeys(const std::function<void(FieldState&)>& change);
  void changeMemories(const std::function<void(analysis::FieldPanel&)>& change);
  void chooseColour();

  ValueFieldView* view_;
  bool showing_ = false;
  QSpinBox *count_ = nullptr, *factors_ = nullptr;
  QComboBox *layout_ = nullptr, *values_ = nullptr, *update_ = nullptr, *readout_ = nullptr, *order_ = nullptr;
  QLabel *key_name_ = nullptr, *star_ = nullptr, *gamma_name_ = nullptr, *order_name_ = nullptr, *origin_ = nullptr;
  QDoubleSpinBox *key_value_ = nullptr, *tau_ = nullptr, *gamma_ = nullptr;
  QPushButton* key_colour_ = nullptr;
  QSlider* slider_ = nullptr;
  QCheckBox* divide_ = nullptr;
  class CrossList;
  CrossList* cross_ = nullptr;
};

}  // namespace slotscope::views
