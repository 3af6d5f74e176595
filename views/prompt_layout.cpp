#include "views/prompt_layout.h"

#include <QFontMetricsF>
#include <algorithm>

namespace slotscope::views {

PromptLayout::PromptLayout(const trace::RunInfo& run, const QFont& font) : run_(&run), font_(font) {
  const QFontMetricsF metrics(font);
  const double advance = metrics.horizontalAdvance(QLatin1Char('0'));
  step_ = (font.pixelSize() > 0 ? font.pixelSize() : 12) + 8;
  cells_.reserve(size_t(run.tokens));
  // In pieces, so that the text of a long run never exists as a whole.
  for (int64_t from = 0; from < run.tokens;) {
    int64_t next = from;
    for (const auto& cell : tokenCells(run, from, std::min(run.tokens, from + 4096))) {
      next = cell.first + cell.count;
      if (cell.first < from) continue;
      bool plain = true;
      for (const QChar c : cell.text) plain = plain && c.unicode() < 0x7F;
      double width = plain ? double(cell.text.size()) * advance : metrics.horizontalAdvance(cell.text);
      // Each token of a joined character keeps a place that can be clicked.
      width = std::max(width, cell.count > 1 ? cell.count * 6.0 : 4.0);
      const auto flags = uint8_t((cell.newline ? Newline : 0) | (cell.space_before ? Before : 0) |
                                 (cell.space_after ? After : 0));
      if (run.prompt_tokens > 0 && cell.first == run.prompt_tokens) answer_cell_ = int64_t(cells_.size());
      cells_.push_back({cell.first, float(width), flags});
    }
    from = std::max(next, from + 1);
  }
}

double PromptLayout::before(int64_t cell) const { return cell == answer_cell_ ? kDivider : 0; }

double PromptLayout::shown(int64_t cell, double room) const {
  return std::min(double(cells_[size_t(cell)].width), room - before(cell));
}

const std::vector<int64_t>& PromptLayout::breaks(double width, bool as_written) const {
  for (auto& w : wrapped_)
    if (w.width == width && w.as_written == as_written) return w.first;
  auto& w = wrapped_[oldest_];
  oldest_ = 1 - oldest_;
  w.width = width, w.as_written = as_written;
  w.first.clear();
  const double room = std::max(20.0, width - 2 * kPad);
  int64_t start = 0, may_break = 0;
  double x = 0;
  if (!cells_.empty()) w.first.push_back(0);
  const auto open_line = [&](int64_t at) {
    w.first.push_back(at);
    start = may_break = at;
    x = 0;
  };
  for (int64_t i = 0; i < int64_t(cells_.size()); ++i) {
    const auto& cell = cells_[size_t(i)];
    if (i > start && (cell.flags & Before)) may_break = i;
    if (i > start && i == answer_cell_) may_break = i;
    const double wide = shown(i, room) + before(i);
    if (i > start && x + wide > room + 0.01) {
      if (may_break > start) {
        const int64_t from = may_break;
        open_line(from);
        for (int64_t k = from; k < i; ++k) x += shown(k, room) + before(k);
        if (i > from && x + wide > room + 0.01) open_line(i);
      } else {
        open_line(i);
      }
    }
    x += wide;
    if (cell.flags & After) may_break = i + 1;
    if (as_written && (cell.flags & Newline) && i + 1 < int64_t(cells_.size())) open_line(i + 1);
  }
  return w.first;
}

int PromptLayout::lines(double width, bool as_written) const { return int(breaks(width, as_written).size()); }

QVector<PromptLayout::Placed> PromptLayout::line(double width, bool as_written, int index) const {
  QVector<Placed> placed;
  const auto& first = breaks(width, as_written);
  if (index < 0 || size_t(index) >= first.size()) return placed;
  const int64_t from = first[size_t(index)],
                to = size_t(index) + 1 < first.size() ? first[size_t(index) + 1] : int64_t(cells_.size());
  const int64_t last_token = to < int64_t(cells_.size()) ? cells_[size_t(to)].first : run_->tokens;
  const double room = std::max(20.0, width - 2 * kPad);
  double x = kPad;
  int64_t i = from;
  for (auto& cell : tokenCells(*run_, cells_[size_t(from)].first, last_token)) {
    if (i >= to) break;
    Placed p;
    x += before(i);
    p.divider = i == answer_cell_;
    p.left = x;
    p.width = shown(i, room);
    if (cells_[size_t(i)].width > p.width)
      cell.text = QFontMetricsF(font_).elidedText(cell.text, Qt::ElideRight, p.width);
    p.cell = std::move(cell);
    x += p.width;
    placed.push_back(std::move(p));
    ++i;
  }
  return placed;
}

int64_t PromptLayout::cellOf(int64_t token) const {
  if (token < 0 || token >= run_->tokens || cells_.empty()) return -1;
  const auto found = std::upper_bound(cells_.begin(), cells_.end(), token,
                                      [](int64_t t, const Cell& c) { return t < c.first; });
  return found - cells_.begin() - 1;
}

int PromptLayout::lineOf(double width, bool as_written, int64_t token) const {
  const int64_t cell = cellOf(token);
  if (cell < 0) return -1;
  const auto& first = breaks(width, as_written);
  return int(std::upper_bound(first.begin(), first.end(), cell) - first.begin()) - 1;
}

QRectF PromptLayout::rect(double width, bool as_written, int64_t token) const {
  const int index = lineOf(width, as_written, token);
  if (index < 0) return {};
  const auto& first = breaks(width, as_written);
  const double room = std::max(20.0, width - 2 * kPad);
  const int64_t cell = cellOf(token);
  double x = kPad;
  for (int64_t i = first[size_t(index)]; i < cell; ++i) x += before(i) + shown(i, room);
  x += before(cell);
  const int64_t next = cell + 1 < int64_t(cells_.size()) ? cells_[size_t(cell) + 1].first : run_->tokens;
  const int64_t parts = std::max<int64_t>(1, next - cells_[size_t(cell)].first);
  const double wide = shown(cell, room) / double(parts);
  return {x + double(token - cells_[size_t(cell)].first) * wide, kTop + index * step_, wide, step_};
}

int64_t PromptLayout::tokenAt(double width, bool as_written, const QPointF& position) const {
  const auto& first = breaks(width, as_written);
  const int index = int((position.y() - kTop) / step_);
  if (position.y() < kTop || size_t(index) >= first.size()) return -1;
  const int64_t to = size_t(index) + 1 < first.size() ? first[size_t(index) + 1] : int64_t(cells_.size());
  const double room = std::max(20.0, width - 2 * kPad);
  double x = kPad;
  if (position.x() < x) return -1;
  for (int64_t i = first[size_t(index)]; i < to; ++i) {
    x += before(i);
    const double wide = shown(i, room);
    if (position.x() < x) return -1;
    if (position.x() < x + wide) {
      const int64_t next = i + 1 < int64_t(cells_.size()) ? cells_[size_t(i) + 1].first : run_->tokens;
      const int64_t parts = std::max<int64_t>(1, next - cells_[size_t(i)].first);
      return cells_[size_t(i)].first +
             std::clamp<int64_t>(int64_t((position.x() - x) / wide * double(parts)), 0, parts - 1);
    }
    x += wide;
  }
  return -1;
}

}  // namespace slotscope::views
