#include "views/overlap_data.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "views/format.h"

namespace slotscope::views {

namespace {

using analysis::MatrixGrid;
using Matrix = std::shared_ptr<const analysis::TokenMatrix>;

// What an Error says without the name of the file, which the window shows.
QString reason(const Error& e, bool with_item = false) {
  const auto& p = e.parts();
  QString text = QString::fromStdString(p.found.empty() ? std::string(e.what()) : p.found);
  if (with_item && !p.item.empty()) text = QStringLiteral("B: %1: %2").arg(QString::fromStdString(p.item), text);
  if (!p.advice.empty()) text += QStringLiteral(". ") + QString::fromStdString(p.advice);
  return text;
}

template <class Make>
Matrix attempt(QString& why, Make make, bool with_item = false) {
  try {
    return make();
  } catch (const Error& e) {
    why = reason(e, with_item);
    return nullptr;
  }
}

bool stopped(const OverlapJob& job) { return job.progress && job.progress->cancel_requested(); }

Matrix shownMatrix(const Matrix& m, MatrixKind kind, bool by_row_sum) {
  return m && by_row_sum && kind != MatrixKind::difference ? analysis::row_normalised(m) : m;
}

// One row of every row of pixels.
void divergences(const OverlapJob& job, OverlapPicture& p) {
  const bool teacher = p.matrix[size_t(MatrixKind::against)] != nullptr;
  const auto to = p.matrix[size_t(teacher ? MatrixKind::against : MatrixKind::induced)];
  const bool induced = teacher && p.matrix[size_t(MatrixKind::induced)];
  const auto of = p.matrix[size_t(induced ? MatrixKind::induced : MatrixKind::overlap)];
  if (!to || !of) return;
  p.js_name = QStringLiteral("JS(%1, %2)").arg(induced ? QStringLiteral("A") : QStringLiteral("O"),
                                               teacher ? QStringLiteral("B") : QStringLiteral("A"));
  if (!job.sides) return;
  const int64_t step = std::max<int64_t>(1, int64_t(p.grid.max.slots_per_row));
  for (int row = 0; row < p.grid.max.rows && !stopped(job); ++row) {
    double js = std::numeric_limits<double>::quiet_NaN();
    int64_t token = p.grid.t0 + row * step;
    for (int64_t t = token; t < std::min(token + step, p.grid.t1); ++t)
      if (of->has_row(t) && to->has_row(t)) {
        const auto d = analysis::compare_rows(*of, *to, t, t + 1, nullptr);
        js = d.js.empty() ? js : d.js[0];
        p.missing_mass += d.zero_a + d.zero_b;
        token = t;
        break;
      }
    p.js.push_back(js);
    p.js_token.push_back(token);
  }
}

}  // namespace

void OverlapSource::load(const OverlapJob& job) {
  if (head_ == job.head && captured_) return;
  head_ = nullptr;
  captured_ = dialled_ = nullptr;
  if (!job.run->trace) throw Error({.item = "addresses", .found = "there is no trace behind this picture"});
  auto loaded = analysis::load_addresses(*job.run->trace, job.run->run, job.head->layer, job.head->head, job.progress.get(), job.head);
  if (!loaded) return;
  head_ = job.head;
  captured_ = std::move(loaded);
}

void OverlapSource::matrices(const OverlapJob& job, OverlapPicture& p) {
  if (!dialled_ || !(dials_ == job.dials)) {
    dialled_ = nullptr;
    dials_ = job.dials;
    const std::string why = analysis::why_not(*captured_, job.dials);
    if (!why.empty()) p.dial_failed = QString::fromStdString(why);
    dialled_ = why.empty() ? analysis::with_dials(captured_, job.dials, job.progress.get()) : captured_;
    if (!why.empty()) dials_ = {};
    if (!dialled_) return;
  }
  p.captured = captured_;
  p.addresses = dialled_;
  const auto set = [&](MatrixKind kind, auto make) { p.matrix[size_t(kind)] = attempt(p.why[size_t(kind)], make); };
  set(MatrixKind::overlap, [&] {
    return analysis::overlap_matrix(dialled_, dialled_->own_reads || dialled_->rule.known ? analysis::OverlapKind::dot : job.kind);
  });
  const int query = job.head->read_heads.empty() ? job.head->head : job.head->read_heads.front();
  set(MatrixKind::induced, [&] { return analysis::recurrent_matrix(dialled_, dials_.captured() ? job.head : nullptr, query); });
  if (job.other != other_ || job.other_layer != other_layer_ || job.other_head != other_head_) {
    other_ = job.other, other_layer_ = job.other_layer, other_head_ = job.other_head;
    against_ = nullptr;
    why_against_.clear();
    if (other_)
      against_ = attempt(why_against_, [&]() -> Matrix {
        const int64_t common = analysis::common_tokens(job.run->info(), other_->info());
        if (common == 0) throw Error({.item = "B", .found = "the second trace has other tokens from the first one on"});
        return analysis::first_rows(analysis::trace_matrix(other_->trace, other_->run, other_layer_, other_head_, job.progress.get()),
                                    job.run->info().tokens, common);
      }, true);
  }
  p.matrix[size_t(MatrixKind::against)] = against_;
  p.why[size_t(MatrixKind::against)] =
      !other_ ? QStringLiteral("No second trace is open: open an attention model's trace of the same prompt to see its rows.") : why_against_;
  const Matrix student = p.matrix[size_t(MatrixKind::induced)] ? p.matrix[size_t(MatrixKind::induced)] : p.matrix[size_t(MatrixKind::overlap)];
  const Matrix teacher = against_ ? against_ : p.matrix[size_t(MatrixKind::induced)] ? p.matrix[size_t(MatrixKind::overlap)] : nullptr;
  if (student && teacher)
    set(MatrixKind::difference, [&] { return analysis::difference(analysis::row_normalised(student), analysis::row_normalised(teacher)); });
  else
    p.why[size_t(MatrixKind::difference)] = QStringLiteral("There is nothing to subtract: neither induced weights nor a second trace.");
}

OverlapPicture OverlapSource::make(const OverlapJob& job) {
  OverlapPicture p;
  const std::lock_guard lock(mutex_);
  try {
    load(job);
    if (captured_) matrices(job, p);
  } catch (const Error& e) {
    p.failed = reason(e);
    return p;
  }
  p.cancelled = !p.addresses || stopped(job);
  if (p.cancelled) return p;
  const auto grid = [&](MatrixKind kind, int rows, int columns) {
    const Matrix m = shownMatrix(p.matrix[size_t(kind)], kind, job.by_row_sum);
    if (!m) return MatrixGrid{};
    return analysis::pixels(*m, {.t0 = job.rows.first, .t1 = job.rows.second, .s0 = job.columns.first, .s1 = job.columns.second,
                                 .max_rows = rows, .max_columns = columns}, job.progress.get());
  };
  p.grid = job.main ? job.main->grid : grid(job.show, job.pixel_rows, job.pixel_columns);
  for (int kind = 0; kind < kMatrixKinds && job.sides; ++kind)
    if (MatrixKind(kind) != job.show && p.matrix[size_t(kind)] && !stopped(job))
      p.side.push_back({MatrixKind(kind), grid(MatrixKind(kind), job.side_pixels, job.side_pixels)});
  divergences(job, p);
  p.cancelled = stopped(job);
  return p;
}

QString matrixName(MatrixKind kind, const OverlapPicture* p, bool by_row_sum) {
  const QString rows = by_row_sum ? QStringLiteral(" ÷ row sum") : QString();
  switch (kind) {
    case MatrixKind::overlap:
      return (p && p->addresses && !p->addresses->own_reads ? QStringLiteral("Route overlap") : QStringLiteral("Address overlap")) + rows;
    case MatrixKind::induced:
      return QStringLiteral("Induced weights A") + rows;
    case MatrixKind::against:
      return (p && p->matrix[size_t(kind)] && p->matrix[size_t(kind)]->name() == "attention" ? QStringLiteral("Attention of B")
                                                                                           : QStringLiteral("Weights of B")) + rows;
    case MatrixKind::difference: {
      const bool induced = p && p->matrix[size_t(MatrixKind::induced)], other = p && p->matrix[size_t(MatrixKind::against)];
      return (induced ? QStringLiteral("A") : QStringLiteral("Overlap")) + QStringLiteral(" − ") +
             (other ? QStringLiteral("B") : QStringLiteral("overlap")) + QStringLiteral(", rows ÷ sum");
    }
  }
  return {};
}

QString matrixFormula(MatrixKind kind, const OverlapPicture& p) {
  const bool own = p.addresses && p.addresses->own_reads;
  switch (kind) {
    case MatrixKind::overlap:
      if (own) return QStringLiteral("O[t,s] = Σₐ r_t(a) w_s(a), read address of t, write address of s");
      if (const auto& m = p.matrix[size_t(kind)]; m && m->name() == "overlap (min)") return QStringLiteral("Σᵢ min(r_t[i], r_s[i]) (ours)");
      else if (m && m->name() == "write overlap") return QStringLiteral("Σᵢ min(s_t[i], s_s[i]) (ours)");
      return QStringLiteral("Σᵢ r_t[i] r_s[i] (ours)");
    case MatrixKind::induced:
      return QStringLiteral("A[t,s] = Σₐ p_t(a) · s_s(a) · exp(Σ f) over later tokens; Σₛ A[t,s] v_s = o_t (ours)");
    case MatrixKind::against:
      return QStringLiteral("token-to-token weights of the second trace");
    case MatrixKind::difference:
      return QStringLiteral("difference of the rows, each divided by its sum");
  }
  return {};
}

QVector<std::pair<QString, QString>> addressRows(const analysis::Addresses& a, int64_t row, bool write, int most) {
  QVector<std::pair<QString, QString>> out;
  const int k = write ? a.write->top_k : a.reads();
  for (int i = 0; i < std::min(k, most); ++i) {
    const int64_t slot = write ? a.write->slot_at(row, i) : a.read_slot_at(row, i);
    const double weight = write ? a.write->weight_at(row, i) : a.read_weight_at(row, i);
    out.push_back({QString::fromStdString(analysis::slot_name(a.code, slot)), strength(weight, 4)});
  }
  if (k > most) out.push_back({QStringLiteral("%1 more").arg(k - most), {}});
  return out;
}

}  // namespace slotscope::views
