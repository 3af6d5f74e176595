// The controls of the theory lab: every field and slider of its state.
#pragma once

#include <QWidget>

#include "views/theory_state.h"

class QCheckBox;
class QComboBox;
class QDoubleSpinBox;
class QFormLayout;
class QLabel;
class QLineEdit;
class QPushButton;
class QSlider;
class QSpinBox;
class QVBoxLayout;

namespace slotscope::views {

class TheoryControls : public QWidget {
  Q_OBJECT
 public:
  explicit TheoryControls(QWidget* parent = nullptr);

  // Shows a state; emits nothing.
  void setState(const TheoryState& state);
  const TheoryState& state() const { return state_; }
  // A sentence below the buttons: what was saved, opened or refused.
  void say(const QString& text, bool error = false);

 Q_SIGNALS:
  void changed(const TheoryState& state);
  void saveRequested();
  void openRequested();

 protected:
  void changeEvent(QEvent*) override;

 private:
  void restyle();
  void buildCode(QVBoxLayout* column);
  void buildBetas(QVBoxLayout* column);
  void buildVectors(QVBoxLayout* column);
  void buildPairs(QVBoxLayout* column);
  QFormLayout* section(QVBoxLayout* column, const QString& title);
  QDoubleSpinBox* number(double low, double high, double step, int decimals, const QString& name);
  QSpinBox* whole(int low, int high, const QString& name);
  QWidget* beta(QFormLayout* form, const QString& label, bool read);
  void setBeta(bool read, double multiple);
  // Changes the state, shows it and tells everybody.
  template <class Change>
  void apply(Change change);

  TheoryState state_;
  bool showing_ = false;
  QComboBox *presets_ = nullptr, *factor_ = nullptr, *pair_kind_ = nullptr;
  QSpinBox *codes_ = nullptr, *factors_ = nullptr, *pairs_ = nullptr, *keys_ = nullptr;
  QLineEdit* seed_ = nullptr;
  QDoubleSpinBox *beta_[2] = {}, *angle_[2] = {}, *length_[2] = {};
  QSlider* slider_[2] = {};
  QCheckBox* linked_ = nullptr;
  QLabel *slots_label_ = nullptr, *star_ = nullptr, *note_ = nullptr;
};

}  // namespace slotscope::views
