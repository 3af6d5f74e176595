// Heads (design: section 8): layers x heads as small pictures over a retrieval-score bar, and the list of
// heads ranked by a score.
#pragma once

#include <QSet>
#include <vector>

#include "views/view.h"

class QLabel;
class QMenu;
class QScrollArea;

namespace slotscope::views {

class HeadsGrid;
class HeadsRanks;

class HeadsView : public View {
  Q_OBJECT
 public:
  enum class Picture { allocation, esl_curve, mean_strength, read_mass_on_key, entropy };
  enum class Score { retrieval, key_survival, read_mass_on_key, gini };

  HeadsView(SelectionModel* selection, QWidget* parent = nullptr);
  void setRun(std::shared_ptr<const RunData> run) override;
  void setHead(std::shared_ptr<const analysis::HeadData> head) override;
  void setMessage(const QString& text, const QString& button = {}) override;
  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override;
  QString csv() const override;
  QString figureKind() const override { return QStringLiteral("heads"); }

  Picture picture() const { return picture_; }
  Score score() const { return score_; }
  QString choiceText() const;  // "allocation", for the panel's title bar
  QMenu* choiceMenu();         // owned by the view
  // Positions in RunSummary::head_list, best score first; heads without the score last.
  const std::vector<int>& ranking() const { return ranking_; }
  double scoreOf(int position) const;  // NaN: undefined
  // Heads marked with Ctrl+click, as positions in head_list.
  const QSet<int>& kept() const { return kept_; }
  void setRankRows(int rows);  // 0: as many as there is room for

 public Q_SLOTS:
  void setPicture(slotscope::views::HeadsView::Picture picture);
  void setScore(slotscope::views::HeadsView::Score score);

 Q_SIGNALS:
  void choiceTextChanged(const QString& text);
  void keptChanged();
  void headPreview(int layer, int head);             // hovered for 150 ms; -1, -1 ends it
  void pinnedHeatmapRequested(int layer, int head);  // double click

 protected:
  void changeEvent(QEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void paintEvent(QPaintEvent*) override;
  void keyPressEvent(QKeyEvent*) override;

 private:
  friend class HeadsGrid;
  friend class HeadsRanks;
  void rank();
  void place();
  void select(int position, bool merge = false);
  int positionOf(int layer, int head) const;  // -1: none
  void toggleKept(int position);

  Picture picture_ = Picture::allocation;
  Score score_ = Score::retrieval;
  std::vector<int> ranking_;
  QSet<int> kept_;
  int rank_rows_ = 0;
  QMenu* menu_ = nullptr;
  QScrollArea* grid_area_ = nullptr;
  QLabel* heading_ = nullptr;
  bool placing_ = false;
  int last_best_ = -1;
  HeadsGrid* grid_ = nullptr;
  HeadsRanks* ranks_ = nullptr;
};

}  // namespace slotscope::views
