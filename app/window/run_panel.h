// The Run panel: what model, what prompt, what to capture, what it will cost (design: section 11).
#pragma once

#include <QWidget>
#include <memory>

#include "app/window/run_settings.h"
#include "core/engine/session.h"
#include "core/formats/prompt_import.h"

class QButtonGroup;
class QComboBox;
class QDoubleSpinBox;
class QGridLayout;
class QLabel;
class QLineEdit;
class QPlainTextEdit;
class QPushButton;
class QSpinBox;
class QStackedWidget;
class QToolButton;

namespace slotscope::app {

// What is known of the opened checkpoint, for the head of the panel.
struct ModelHead {
  QString name;  // "raven-passkey"
  QString folder;
  std::shared_ptr<const engine::ModelInfo> info;  // null: cannot be run, `why` says why
  QString why;
  bool has_tokenizer = false;
};

class RunPanel : public QWidget {
  Q_OBJECT
 public:
  explicit RunPanel(QWidget* parent = nullptr);

  void setModel(const ModelHead& model);
  void setDevices(const std::vector<engine::DeviceInfo>& devices, const QString& why_no_cuda);
  // "about 6 MB, 4 s"; fits = false: error colour.
  void setEstimate(const QString& text, bool fits = true);
  void setTokenCount(qint64 count);  // of the text editor; < 0: unknown
  RunSettings settings() const;
  void setSettings(const RunSettings& settings);
  QString estimateText() const;
  // A file of prompts to choose rows of; the panel changes to it. Null: none.
  void setPrompts(std::shared_ptr<const formats::PromptFile> file);
  // The rows to run, as "0:10,15"; changes nothing else and tells nobody.
  void setRows(const QString& rows);
  QComboBox* device() { return device_; }
  void restyle();

 Q_SIGNALS:
  void settingsChanged();  // anything that changes the estimate
  void textChanged(const QString& text);
  void chooseRowsRequested();  // open the list of rows
  void importRequested();      // another file
  void rowsChanged(const QString& rows);
  void flavourRequested(const QString& flavour);  // "", fla, goombalab
  void problem(const QString& text);

 private:
  QWidget* buildForms();
  QWidget* row(const QString& label, QWidget* field);
  void showMode();
  void chooseHaystack(int index);
  void fillCapture();
  void chooseFlavour();
  ModelHead model_;
  QLabel *name_, *size_, *estimate_, *shortcut_, *count_;
  QToolButton* flavour_;
  QButtonGroup* mode_;
  QWidget *task_row_, *length_row_, *depth_row_, *haystack_row_, *text_box_, *ids_box_, *generate_row_;
  QWidget *file_box_, *file_generate_row_;
  QLabel* file_name_;
  QLineEdit* rows_;
  QSpinBox* file_generate_;
  QString prompts_;
  QPlainTextEdit *text_, *ids_;
  QComboBox *task_, *haystack_, *device_, *capture_;
  QLineEdit* fields_;
  QSpinBox *length_, *depth_, *seed_, *generate_;
  int haystack_before_ = 0;
};

}  // namespace slotscope::app
