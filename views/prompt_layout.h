// Running text of a run wrapped into lines of a given width; cheap enough for 131,072 tokens at every resize.
#pragma once

#include <QFont>
#include <QRectF>
#include <QVector>
#include <vector>

#include "core/trace/trace.h"
#include "views/token_cells.h"

namespace slotscope::views {

class PromptLayout {
 public:
  static constexpr double kPad = 10, kTop = 5, kBottom = 2, kDivider = 11;

  // `font`: the fixed font. The layout keeps widths only; text is made again for the lines that are drawn.
  PromptLayout(const trace::RunInfo& run, const QFont& font);

  struct Placed {
    TokenCell cell;
    double left = 0, width = 0;
    bool divider = false;  // the prompt ends before this cell: a bar is drawn left of it
  };
  double step() const { return step_; }  // height of a line
  int lines(double width, bool as_written) const;
  double height(double width, bool as_written) const {
    return kTop + kBottom + lines(width, as_written) * step_;
  }
  QVector<Placed> line(double width, bool as_written, int index) const;
  int lineOf(double width, bool as_written, int64_t token) const;
  QRectF rect(double width, bool as_written,
              int64_t token) const;  // null rectangle when there is no such token
  int64_t tokenAt(double width, bool as_written, const QPointF& position) const;

 private:
  enum Flag : uint8_t { Newline = 1, Before = 2, After = 4 };
  struct Cell {
    int64_t first;
    float width;
    uint8_t flags;
  };
  const std::vector<int64_t>& breaks(double width, bool as_written) const;  // first cell of each line
  int64_t cellOf(int64_t token) const;
  double shown(int64_t cell, double room) const;  // width as drawn: a cell wider than the line is elided
  double before(int64_t cell) const;              // extra room left of a cell for the divider
  const trace::RunInfo* run_;
  QFont font_;
  double step_ = 20;
  std::vector<Cell> cells_;
  int64_t answer_cell_ = -1;
  // Two widths at hand: the panel and a figure of it.
  struct Wrapped {
    double width = -1;
    bool as_written = false;
    std::vector<int64_t> first;
  };
  mutable Wrapped wrapped_[2];
  mutable int oldest_ = 0;
};

}  // namespace slotscope::views
