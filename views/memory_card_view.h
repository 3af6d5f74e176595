// Routing-slot card of a checkpoint: its row of the table of memories (router, content, decay, readout), its slots and their
// size, and where it lies between FIFO and dense (spec: model-zoo 17, raven-analysis "Routing Slot Memory").
#pragma once

#include <vector>

#include "views/painted_view.h"

namespace slotscope::views {

struct MemoryCardRow {  // layers that are alike
  struct Cell {
    QString formula, words;  // formula: math_text.h
  };
  QString layers;      // "0–3"
  int layer_count = 0;
  QString mixer;       // "raven", "attention"
  QString route_kind;  // sparse, dense, ring, append
  Cell router, content, decay, readout;
  qint64 heads = 0, route_heads = 0, slots = 0, top_k = 0, d_k = 0, d_v = 0;
  qint64 state_bytes = 0;  // float32, one layer, one prompt; append: of one token
};

struct MemoryCardData {
  QString model, facts;  // "raven-passkey", "raven · 4 layers · 3.2 M parameters"
  std::vector<MemoryCardRow> rows;
};

class MemoryCardView : public PaintedView {
  Q_OBJECT
 public:
  explicit MemoryCardView(QWidget* parent = nullptr);

  // Nothing to show: `why` says so.
  void setCard(const MemoryCardData& card, const QString& why = {});
  const MemoryCardData& card() const { return card_; }

  // It follows the checkpoint, not the open trace, whose messages and loading are none of its.
  void setRun(std::shared_ptr<const RunData>) override {}
  void setHead(std::shared_ptr<const analysis::HeadData>) override {}
  void setMessage(const QString&, const QString&) override {}
  void setLoading(bool, const QString&) override {}

  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override;
  QString csv() const override;
  QString figureKind() const override { return QStringLiteral("card"); }

  // "1.05 MB for one prompt, however long" or "8.2 kB for each token ..."
  QString stateText() const;

 protected:
  bool needsHead() const override { return false; }
  QString emptyText() const override;
  void paintContent(QPainter&, const QSizeF&, const Theme&) override;
  double contentHeight(double width) const override;
  QString accessibleText() const override;

 private:
  // Draws, or with a null painter measures; returns the height.
  double paintCard(QPainter*, double width, const Theme&) const;
  double paintTable(QPainter*, double top, double width, const Theme&) const;
  double paintSizes(QPainter*, double top, double width, const Theme&) const;
  double paintAxis(QPainter*, double top, double width, const Theme&) const;
  MemoryCardData card_;
  QString why_;
};

}  // namespace slotscope::views
