// Two runs side by side: A is what the window shows, B a second trace. Holds what the comparison's views share:
// which tokens and slots correspond, and the selections of both (design: section 12). The window's selection
// stays the one selection; those of A and B here follow it, on the axis that both share.
#pragma once

#include <QObject>
#include <QString>
#include <functional>
#include <memory>

#include "core/analysis/compare.h"
#include "views/heatmap_data.h"
#include "views/selection.h"
#include "views/view.h"
#include "views/worker.h"

namespace slotscope::views {

// One of the two. `why` says what is missing while head is null.
struct CompareSide {
  std::shared_ptr<const RunData> run;
  std::shared_ptr<const analysis::HeadData> head;
  QString why;
  analysis::KeyCurve key;
};

// Rows that show a slot of A and one of B: matched ones in A's order, then those without a partner. Where nothing can be
// matched, row by row in the order of each, and `matched` is false.
struct PairedRows {
  std::vector<analysis::DifferenceRequest::Row> pair;
  HeatmapRows rows;  // slot = position in `pair`
  QVector<QString> names;
  std::vector<analysis::SlotClass> classes;
  std::vector<int> of_a, of_b;  // [M]: positions in `pair`
  bool matched = false;
};
PairedRows pairRows(const analysis::HeadData& a, const analysis::HeadData& b, const analysis::RowMatch& match);

class CompareModel : public QObject {
  Q_OBJECT
 public:
  // Without a worker everything is computed at once (figures, tests).
  explicit CompareModel(SelectionModel* window, Worker* worker = nullptr, QObject* parent = nullptr);

  // A: the window's run and head.
  void setRun(std::shared_ptr<const RunData> run);
  void setHead(std::shared_ptr<const analysis::HeadData> head, const QString& why = {});
  // B. Null: nothing open, or loading; `why` says which. A new run comes with its best head selected, and
  // otherHeadWanted() asks for it.
  void setOtherRun(std::shared_ptr<const RunData> run, const QString& why = {});
  void setOtherHead(std::shared_ptr<const analysis::HeadData> head, const QString& why = {});

  const CompareSide& a() const { return a_; }
  const CompareSide& b() const { return b_; }
  bool complete() const { return a_.run && b_.run; }
  const analysis::TokenAlignment& tokens() const { return tokens_; }
  const analysis::RowMatch& match() const { return match_; }
  // Positions on the shared axis; of A's tokens, and B's where they are the same.
  qint64 axisTokens() const;
  qint64 otherAxisTokens() const;
  SelectionModel* selectionA() { return &in_a_; }
  SelectionModel* selectionB() { return &in_b_; }
  SelectionModel* selectionPair() { return &in_pair_; }  // slot = position in paired().pair
  const PairedRows& paired() const { return paired_; }
  bool otherTokenMarked() const { return other_marked_; }
  bool linked() const { return linked_; }
  bool familiesDiffer() const;
  // Whether A − B exists; else why not.
  QString whyNoDifference() const;

  void setLinked(bool linked);  // zoom, hover and slots
  void chooseOther(int layer, int head);
  void sameIndex();  // B on the layer and head of A, as far as it has them
  void bestOther();  // B on its best head
  // (layer, head) of B with the highest retrieval score; where no head has one (dense families write everything
  // everywhere), the one that reads most of the key at the query.
  std::pair<int, int> bestHead() const;
  // The route heads of a layer of B.
  int otherHeads(int layer) const;

 Q_SIGNALS:
  void changed();                              // runs, heads or what was computed from them
  void linkedChanged(bool linked);
  void otherTokenMarkedChanged(bool marked);
  void otherHeadWanted(int layer, int head);   // setOtherHead() is the answer

 private:
  void connectSelections();
  void runsChanged();
  void headsChanged();
  void limitSelections();
  void followWindow(int parts);
  void movedInA(int parts);
  void movedInB(int parts);
  void movedInPair(int parts);
  void followPair();
  void markOther();
  void rangeFrom(SelectionModel* source);
  void hoverFrom(SelectionModel* source);
  template <class Tell>
  void once(Tell tell);

  SelectionModel* window_;
  Worker* worker_;
  SelectionModel in_a_, in_b_, in_pair_;
  PairedRows paired_;
  CompareSide a_, b_;
  analysis::TokenAlignment tokens_;
  analysis::RowMatch match_;
  bool linked_ = true, other_marked_ = true, telling_ = false;
  uint64_t state_ = 0;  // counts runs and heads: late results are dropped
};

}  // namespace slotscope::views
