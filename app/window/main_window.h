// The main window: menus, selection bar, docked panels and views, status line (design: sections 2, 3, 11, 13,
// 14).
#pragma once

#include <QPointer>
#include <QWidget>
#include <memory>

#include "app/window/controller.h"
#include "views/selection.h"

class QMenu;
class QMenuBar;

namespace slotscope::views {
class CompareModel;
class CompareView;
class OverlapView;
class MemoryCardView;
class TensorView;
}

namespace slotscope::app {

class BannerArea;
class CheckpointPanel;
class Dock;
class DockHost;
class JobsPanel;
class PinnedSelection;
class PromptsDialog;
class LogPanel;
class QuietNote;
class RunPanel;
class SecondTrace;
class SelectionBar;
class StatusLine;

enum class ThemeChoice { light, dark, system };

class MainWindow : public QWidget {
  Q_OBJECT
 public:
  explicit MainWindow(QWidget* parent = nullptr);
  ~MainWindow() override;

  Controller* controller() { return controller_.get(); }
  views::SelectionModel* selection() { return &selection_; }
  SelectionBar* bar() { return bar_; }
  BannerArea* banners() { return banners_; }
  RunPanel* runPanel() { return run_panel_; }
  CheckpointPanel* checkpointPanel() { return checkpoint_panel_; }
  PromptsDialog* promptsDialog() { return prompts_dialog_; }  // null until a file was imported
  StatusLine* status() { return status_; }
  DockHost* panels() { return panels_; }
  DockHost* viewArea() { return view_area_; }
  QMenuBar* menus() { return menus_; }
  LogPanel* log() { return log_; }
  QList<views::View*> allViews() const;
  views::View* currentView() const;
  // The first view of a kind, or null.
  views::View* findView(const QString& kind) const;

  void openPath(const QString& path);
  // The bundled checkpoint with the password prompt run.
  void openBundled();
  void setThemeChoice(ThemeChoice choice);
  void setTextScale(double factor);  // 0.8 .. 2
  void setPrintRoles(bool on);
  void restoreDefaultLayout();
  // Adds a view as a tab beside the current one and shows it.
  Dock* addView(const QString& kind);
  // Shows the lab of this kind (view_factory.h), a new one when there is none. While a lab is in front and short of room the panels
  // are away; they come back with the next other view.
  void openLab(const QString& kind);
  // Freezes the view's layer and head; another view of the same kind takes its place in the dock.
  void pinView(Dock* dock, int layer, int head);
  void unpinView(Dock* dock);
  void goToView(int index);
  void showPanel(const QString& id);
  QByteArray layoutState() const;
  bool restoreLayout(const QByteArray& state);
  void saveSettings() const;
  bool defaultLayoutIsWide() const;
  // Comparison (main_compare.cpp): the window's run is A, a second trace B.
  views::CompareModel* compareModel() { return compare_model_.get(); }
  SecondTrace* secondTrace() { return second_.get(); }
  // Opens the trace as B and shows the comparison.
  void compareWith(const QString& path, int run = 0);
  // Shows the comparison and its differences, or puts back what was there before.
  void setComparing(bool on);
  bool comparing() const;

 Q_SIGNALS:
  void settled();  // nothing runs, nothing waits

 protected:
  void closeEvent(QCloseEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void showEvent(QShowEvent*) override;
  void dragEnterEvent(QDragEnterEvent*) override;
  void dropEvent(QDropEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  bool eventFilter(QObject*, QEvent*) override;

 private:
  void buildPanels();
  void buildMenus();
  void buildCompare();
  void connectCompareView(views::CompareView* view);
  void connectOverlapView(views::OverlapView* view);
  void fillCompareMenu(QMenu* menu);
  void askForSecond();
  void placeDifferences();
  void refreshComparing();
  QStringList secondAt(const QPoint& position, const QStringList& paths) const;
  void buildFileMenu(QMenu*);
  void buildViewMenu(QMenu*);
  void buildMoveMenu(QMenu*);
  void connectController();
  void connectView(views::View* view, Dock* dock);
  void fillRecent();
  void fillLayouts();
  void fillViewMenu(QMenu* menu);
  void showAddMenu(const QPoint& global);
  void applyTheme();
  void restyle();
  void placePanels(bool wide);
  void placeViews(bool wide);
  void sizeDocks(bool wide);
  void adaptToSize();
  void updateEmptyHint();
  void runOrCancel();
  void askForCheckpoint();
  void askForPrompts();
  void connectPrompts();
  void showPrompts(std::shared_ptr<const formats::PromptFile> file);
  void tellPromptsDialog();
  void showReduction();
  void exportFigure();
  void copyPicture();
  void copyValue();
  void saveTraceAs();
  void saveLayoutAs();
  void remember(const QString& path, const QString& kind);
  void showRun(std::shared_ptr<const views::RunData> run);
  void showHead(std::shared_ptr<const analysis::HeadData> head, const QString& message,
                const QString& button);
  void showNothingOpen(views::View* view);
  void showRoles(views::View* view);
  void fillPinned(views::View* view);
  void replaceView(Dock* dock, views::SelectionModel* selection);
  void checkpointOpened();
  void connectTensors();
  void connectTensorView(views::TensorView* view);
  void fillCard(views::MemoryCardView* view);
  void openInLab(const QString& path, const QString& lab);
  void adaptToLabs();
  void bringPanelsBack();
  void chooseTensor(int tensor, bool open);
  void refreshTitle();
  void refreshBrush();
  void cyclePanels(int step);
  void toggleFullView();
  void zoomTokens(double factor);
  void zoomAll();
  void jumpToSpan(const QString& name);
  void stepSlot(int steps, bool merge);
  void stepSameRole(int direction);
  bool handleKey(QKeyEvent*);
  bool passToHeatmap(QKeyEvent*);
  void passToPrompt(int key, Qt::KeyboardModifiers modifiers);
  void useBrushAsRoles(bool retrieval);
  void noteSettled();
  QStringList dropPaths(const class QMimeData*) const;

  views::SelectionModel selection_;
  std::unique_ptr<Controller> controller_;
  std::unique_ptr<views::CompareModel> compare_model_;
  std::unique_ptr<SecondTrace> second_;
  QMenuBar* menus_ = nullptr;
  SelectionBar* bar_ = nullptr;
  BannerArea* banners_ = nullptr;
  StatusLine* status_ = nullptr;
  QuietNote* note_ = nullptr;
  DockHost *panels_ = nullptr, *view_area_ = nullptr;
  RunPanel* run_panel_ = nullptr;
  CheckpointPanel* checkpoint_panel_ = nullptr;
  PromptsDialog* prompts_dialog_ = nullptr;
  JobsPanel* jobs_panel_ = nullptr;
  LogPanel* log_ = nullptr;
  QMenu *recent_menu_ = nullptr, *layouts_menu_ = nullptr, *view_list_menu_ = nullptr;
  QWidget* empty_hint_ = nullptr;
  QList<QPointer<views::View>> panel_views_;
  QPointer<Dock> current_dock_;
  ThemeChoice theme_choice_ = ThemeChoice::system;
  double text_scale_ = 1;
  bool print_roles_ = false, wide_ = false, narrow_ = false, adapting_ = false, placed_ = false,
       settle_pending_ = false, devices_known_ = false, passing_ = false, switching_ = false;
  QByteArray before_full_, before_compare_;
  QList<QPointer<Dock>> lab_hidden_, lab_raised_;  // panels that a lab sent away; those of them that were in front
  QByteArray loading_layout_;
  QPointer<views::View> last_statused_;
};

}  // namespace slotscope::app
