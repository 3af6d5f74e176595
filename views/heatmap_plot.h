// The plot of a slot heatmap on the screen: one QCPColorMap under the shared paint functions, selection and
// hover on buffered layers of their own (design: section 15). Keeps no data but what is drawn.
#pragma once

#include <QWidget>
#include <functional>
#include <memory>

#include "views/heatmap_paint.h"

namespace slotscope::views {

class HeatmapPlot : public QWidget {
  Q_OBJECT
 public:
  explicit HeatmapPlot(QWidget* parent);
  ~HeatmapPlot() override;

  // Describes what to draw; called at every repaint. Nothing: only the background is drawn.
  using SceneSource = std::function<std::optional<HeatmapScene>()>;
  void setScene(SceneSource source);

  // The scene's grid, colour scale or colours changed: fills the colour map.
  void setGrid(const HeatmapScene& scene);
  void clearGrid();
  void refresh();           // everything, coalesced
  void refreshSelection();  // that layer only
  void refreshHover();
  void applyTheme(const Theme& theme);
  double devicePixels() const { return devicePixelRatioF(); }
  // Draws at once what refresh() would draw later; for measurements and tests.
  void replotNow();

 protected:
  void resizeEvent(QResizeEvent*) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slotscope::views
