// What the heatmap asks core to reduce, and which picture is drawn meanwhile (design: section 6 "Reduction").
#include <algorithm>
#include <cmath>

#include "views/format.h"
#include "views/heatmap_plot.h"
#include "views/heatmap_view.h"

namespace slotscope::views {

namespace {

// Up to this many tokens a reduction is quicker than a round trip through the worker.
constexpr int64_t kAtOnceTokens = 4096;
// Up to this many rows all of them are fetched, so that moving through rows needs nothing new.
constexpr int64_t kAllRows = 4096;
constexpr int kOverviewColumns = 2048, kOverviewRows = 1024;

bool covers(CellRange outer, CellRange inner) {
  return outer.first <= inner.first && outer.second >= inner.second;
}

}  // namespace

GridJob HeatmapView::job(CellRange range, CellRange rows, int max_columns, int max_rows) const {
  GridJob j;
  j.head = head_;
  j.quantity = quantity_;
  j.pooling = pooling_;
  const auto n = int64_t(rows_.slot.size());
  j.rows.assign(rows_.slot.begin() + std::clamp<int64_t>(rows.first, 0, n),
                rows_.slot.begin() + std::clamp<int64_t>(rows.second, 0, n));
  j.tokens = range;
  j.max_columns = std::max(1, max_columns);
  j.max_rows = std::max(1, max_rows);
  j.reference = reference();
  return j;
}

// Pictures made before this are out of date. They stay on screen until the new ones come.
void HeatmapView::invalidate() {
  ++state_;
  picture_.per_column = 0;
  overview_.per_column = 0;
}

HeatmapView::Picture HeatmapView::drawn(const std::shared_ptr<const CellSource>& cells, const GridJob& request) {
  Picture p;
  p.grid = std::make_shared<const SlotGrid>(cells ? cells->grid(request) : makeGrid(request));
  if (cells && cells->over) p.over = std::make_shared<const SlotGrid>(cells->over(request));
  return p;
}

void HeatmapView::requestGrid() {
  if (!head_ || rows_.slot.empty() || tokens() <= 0) return showPicture();
  const HeatmapGeometry g = plotGeometry();
  const double ratio = plot_->devicePixels();
  const int width = std::max(1, int(g.plot.width() * ratio)),
            height = std::max(1, int(g.plot.height() * ratio));
  const CellRange visible = tokenRange();
  const int64_t per_column = tokensPerColumn(visible.second - visible.first, width);
  const int64_t rows_visible = row_range_.second - row_range_.first, all_rows = int64_t(rows_.slot.size());
  const int64_t per_row = tokensPerColumn(rows_visible, height);
  CellRange whole = wholeColumns(visible, per_column);
  whole.second = std::min(whole.second, tokens());
  const bool fits = picture_.grid && picture_.per_column == per_column && picture_.per_row == per_row &&
                    covers({picture_.grid->first, picture_.grid->last}, whole) &&
                    covers(picture_.rows, row_range_);
  if (fits) return showPicture();
  const CellRange fetch = fetchRange(wholeColumns(visible, per_column), per_column, tokens());
  const CellRange rows = per_row == 1 && all_rows <= kAllRows ? CellRange{0, all_rows} : row_range_;
  const int columns = int((fetch.second - fetch.first + per_column - 1) / per_column);
  const int lines = int((rows.second - rows.first + per_row - 1) / per_row);
  GridJob request = job(fetch, rows, columns, lines);
  request.per_column = per_column;
  if (!worker_ || fetch.second - fetch.first <= kAtOnceTokens) {
    Picture made = drawn(cells_, request);
    made.rows = rows, made.per_column = per_column, made.per_row = per_row;
    adopt(std::move(made), false);
    return;
  }
  if (waiting_++ == 0) loading_timer_.start();
  showPicture();  // what there is, scaled
  worker_->post(
      tag_, this,
      [this, request = std::move(request), cells = cells_, rows, per_column, per_row, state = state_]() -> Worker::Done {
        Picture made = drawn(cells, request);
        made.rows = rows, made.per_column = per_column, made.per_row = per_row;
        return [this, made, state] {
          if (state == state_) adopt(made, false);
          waiting_ = 0;
          updateStates();
        };
      });
}

// All tokens at screen size: what is seen while something better is on its way.
void HeatmapView::requestOverview() {
  if (!head_ || rows_.slot.empty() || tokens() <= kAtOnceTokens) return;
  const CellRange rows{0, int64_t(rows_.slot.size())};
  const int64_t per_column = tokensPerColumn(tokens(), kOverviewColumns);
  GridJob request = job({0, tokens()}, rows, kOverviewColumns, kOverviewRows);
  if (!worker_) return;  // everything is made at once anyway
  worker_->post(tag_ + QStringLiteral(".overview"), this,
                [this, request = std::move(request), cells = cells_, rows, per_column, state = state_]() -> Worker::Done {
                  Picture made = drawn(cells, request);
                  made.rows = rows, made.per_column = per_column, made.per_row = 1;
                  return [this, made, state] {
                    if (state == state_) adopt(made, true);
                  };
                });
}

void HeatmapView::requestSamples() {
  if (!head_) {
    samples_ = nullptr;
    return colourChanged();
  }
  if (!worker_ || tokens() <= kAtOnceTokens) {
    samples_ = std::make_shared<const SlotGrid>(cells_ ? cells_->samples() : valueSamples(*head_, quantity_, reference()));
    return colourChanged();
  }
  worker_->post(tag_ + QStringLiteral(".samples"), this,
                [this, head = head_, cells = cells_, q = quantity_, at = reference(), state = state_]() -> Worker::Done {
                  auto samples = std::make_shared<const SlotGrid>(cells ? cells->samples() : valueSamples(*head, q, at));
                  return [this, samples, state] {
                    if (state != state_) return;
                    samples_ = samples;
                    colourChanged();
                  };
                });
}

void HeatmapView::adopt(Picture picture, bool overview) {
  (overview ? overview_ : picture_) = std::move(picture);
  showPicture();
}

const HeatmapView::Picture& HeatmapView::pictureFor(CellRange range, CellRange rows) const {
  const auto fits = [&](const Picture& p) {
    return p.grid && p.per_column > 0 && covers({p.grid->first, p.grid->last}, range) && covers(p.rows, rows);
  };
  if (fits(picture_) || !fits(overview_)) return picture_;
  return overview_;
}

void HeatmapView::showPicture(bool recolour) {
  CellRange visible = tokenRange();
  visible.second = std::min(visible.second, tokens());
  const Picture& picture = pictureFor(visible, row_range_);
  if (picture.grid.get() != shown_ || recolour) {
    const bool other = picture.grid.get() != shown_;
    shown_ = picture.grid.get();
    // "Visible" limits follow what is on screen.
    if (other && colours_.mode == RangeMode::visible && samples_ && !recolour) return colourChanged();
    if (const auto s = scene(QRectF(plot_->rect()), Theme::current()))
      plot_->setGrid(*s);
    else
      plot_->clearGrid();
  }
  QString text;
  if (picture.grid && picture.grid->columns > 0) {
    const CellRange range = tokenRange();
    if (picture.grid->tokens_per_column <= 1 && picture.grid->slots_per_row <= 1)
      text = range.second - range.first >= tokens()
                 ? QStringLiteral("all %1 tokens drawn, no reduction").arg(count(tokens()))
                 : QStringLiteral("all cells drawn, no reduction");
    else
      text = QString::fromStdString(picture.grid->reduction);
  }
  if (text != reduction_) {
    reduction_ = text;
    Q_EMIT reductionText(text);
  }
  plot_->refresh();
}

}  // namespace slotscope::views
