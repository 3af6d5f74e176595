#include "core/analysis/overlap_result.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/divergence.h"
#include "core/analysis/trace_access.h"
#include "core/error.h"
#include "core/trace/result_file.h"

namespace slotscope::analysis {
namespace {

using Matrix = std::shared_ptr<const TokenMatrix>;

bool stopped(Progress* progress) { return progress && progress->cancel_requested(); }

const char* kind_name(OverlapKind kind) {
  return kind == OverlapKind::dot ? "dot" : kind == OverlapKind::min ? "min" : "write";
}

const char* kind_formula(OverlapKind kind, bool own_reads) {
  if (kind == OverlapKind::write) return "sum over slots of min(s_t, s_s) of the write strengths";
  if (kind == OverlapKind::min) return "sum over slots of min(r_t, r_s) of the routes";
  return own_reads ? "sum over slots of r_t(a) w_s(a), read address of t and write address of s" : "sum over slots of r_t r_s of the routes";
}

struct Named {
  std::string name, description;
  Matrix matrix;
};

class OverlapFile {
 public:
  OverlapFile(std::shared_ptr<const trace::Trace> trace, const OverlapOptions& options, Progress* progress)
      : trace_(std::move(trace)), o_(options), info_(run_info(*trace_, options.run)), progress_(progress) {}

  std::optional<OverlapReport> write(const std::filesystem::path& file, bool force) {
    window();
    if (!load()) return std::nullopt;
    if (o_.against) add_against();
    for (const auto& [a, b] : {std::pair{"overlap", "induced"}, std::pair{"overlap", "attention"}, std::pair{"induced", "attention"}})
      if (find(a) && find(b) && !compare(a, b)) return std::nullopt;
    describe();
    trace::ResultWriter writer(file, result_, force);
    for (const Named& m : matrices_)
      if (!(report_.whole ? put_whole(writer, m) : put_pixels(writer, m))) return std::nullopt;
    for (const auto& [name, values] : columns_) writer.write<double>(name, {0}, {int64_t(values.size())}, values.data());
    if (stopped(progress_)) return std::nullopt;
    writer.finish();
    return report_;
  }

 private:
  void window() {
    report_.tokens = info_.tokens;
    const auto [first, last] = o_.window.value_or(std::pair<int64_t, int64_t>{0, info_.tokens});
    if (first < 0 || first >= last || first >= info_.tokens)
      throw Error({.item = "tokens", .found = std::to_string(first) + ":" + std::to_string(last),
                   .expected = "a range within 0:" + std::to_string(info_.tokens)}, Error::Kind::usage);
    report_.t0 = first;
    report_.t1 = std::min(last, info_.tokens);
    report_.whole = report_.t1 - report_.t0 <= kMostWholeTokens;
  }

  bool load() {
    const auto data = load_head(*trace_, o_.run, o_.layer, o_.head, {}, {}, progress_);
    const auto captured = data ? load_addresses(*trace_, o_.run, o_.layer, o_.head, progress_, data) : nullptr;
    addresses_ = captured ? with_dials(captured, o_.dials, progress_) : nullptr;
    if (!addresses_ || stopped(progress_)) return false;
    report_.slots = addresses_->slots();
    report_.top_k = addresses_->write->top_k;
    report_.captured = addresses_->rows();
    matrices_.push_back({"overlap", kind_formula(o_.kind, addresses_->own_reads), overlap_matrix(addresses_, o_.kind)});
    try {
      // Captured read tokens know nothing of other dials.
      const auto reads = o_.dials.captured() ? data : nullptr;
      matrices_.push_back({"induced", "A[t,s], what the memory gives of token s's value at token t: sum_s A[t,s] v_s = o_t",
                           recurrent_matrix(addresses_, reads, data->read_heads.empty() ? o_.head : data->read_heads.front())});
    } catch (const Error& e) {
      report_.no_induced = e.parts().found;
    }
    return true;
  }

  void add_against() {
    const trace::RunInfo& other = run_info(*o_.against, o_.against_run);
    report_.common_tokens = common_tokens(info_, other);
    if (report_.common_tokens <= report_.t0)
      throw Error({.file = o_.against->path().string(), .item = "tokens",
                   .found = "only the first " + std::to_string(report_.common_tokens) + " tokens are those of " + trace_->path().string(),
                   .expected = "a trace of the same prompt"});
    Matrix m = trace_matrix(o_.against, o_.against_run, o_.against_layer, o_.against_head, progress_);
    const bool attention = m->name() == "attention";
    m = first_rows(std::move(m), info_.tokens, report_.common_tokens);
    matrices_.push_back({"attention", attention ? "softmax attention of the other trace" : "A[t,s] of the other trace", m});
    const Matrix student = find("induced") ? find("induced") : find("overlap");
    matrices_.push_back({"difference", std::string(find("induced") ? "induced" : "overlap") + " minus attention, each row divided by its sum",
                         difference(row_normalised(student), row_normalised(m))});
  }

  Matrix find(std::string_view name) const {
    for (const Named& m : matrices_)
      if (m.name == name) return m.matrix;
    return nullptr;
  }

  bool compare(const std::string& a, const std::string& b) {
    RowDivergences d = compare_rows(*find(a), *find(b), report_.t0, report_.t1, progress_);
    if (stopped(progress_)) return false;
    const std::string ends = a + "_" + b;
    add_column("js_" + ends, "Jensen-Shannon divergence of the rows of " + a + " and " + b + ", each divided by its sum; NaN where a row is all 0 or missing", "nats", d.js);
    add_column("kl_" + ends, "forward KL(" + b + " || " + a + ") of those rows", "nats", d.kl);
    report_.divergences.push_back({a, b, std::move(d)});
    return true;
  }

  void add_column(const std::string& name, const std::string& description, const std::string& unit, std::vector<double> values) {
    result_.datasets.push_back({.name = name, .shape = {int64_t(values.size())}, .axes = "t", .description = description, .unit = unit,
                                .values = std::vector<double>()});
    columns_.emplace_back(name, std::move(values));
  }

  void describe() {
    result_.kind = kOverlapKind;
    auto& p = result_.parameters;
    p = {{"trace", trace_->path().filename().string()}, {"run", int64_t(o_.run)}, {"layer", int64_t(o_.layer)}, {"head", int64_t(o_.head)},
         {"first_token", report_.t0}, {"last_token", report_.t1}, {"tokens", info_.tokens}, {"kind", std::string(kind_name(o_.kind))},
         {"slots", int64_t(report_.slots)}, {"top_k", int64_t(report_.top_k)}, {"temperature", o_.dials.temperature},
         {"cape_shift", addresses_->code.shift}, {"family", trace_->model().family}, {"checkpoint", trace_->model().checkpoint}};
    if (addresses_->code.known()) {
      p["order"] = int64_t(addresses_->code.factors);
      p["codes_per_factor"] = int64_t(addresses_->code.codes);
    }
    if (o_.against) {
      p["against"] = o_.against->path().filename().string();
      p["against_layer"] = int64_t(o_.against_layer);
      p["against_head"] = int64_t(o_.against_head);
      p["common_tokens"] = report_.common_tokens;
    }
    if (!report_.no_induced.empty()) p["no_induced"] = report_.no_induced;
    if (report_.whole) describe_whole();
    else describe_pixels();
  }

  void coordinates(const std::string& name, const std::string& description, int64_t count, int64_t step) {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(report_.t0 + i * step);
    result_.datasets.push_back({.name = name, .shape = {count}, .axes = name, .description = description, .values = std::move(values)});
  }

  void describe_whole() {
    const int64_t n = report_.t1 - report_.t0;
    coordinates("t", "the token that reads", n, 1);
    coordinates("s", "the token that wrote", n, 1);
    for (const Named& m : matrices_) {
      result_.datasets.push_back({.name = m.name, .shape = {n, n}, .axes = "t,s", .description = m.description + "; 0 where s > t, NaN where not captured",
                                  .values = std::vector<double>()});
      if (m.name != "difference")
        add_column(m.name + "_row_sum", "sum of the row of " + m.name + " over all tokens s <= t", "", row_sums(*m.matrix, report_.t0, report_.t1, progress_));
    }
  }

  void describe_pixels() {
    const int64_t n = report_.t1 - report_.t0, pixels = std::clamp(o_.pixels, 1, 4096);
    const int64_t step = (n + pixels - 1) / pixels, count = (n + step - 1) / step;
    result_.parameters["tokens_per_pixel"] = step;
    coordinates("t", "the token that reads (one by one)", n, 1);
    coordinates("row", "first token t of the pixel", count, step);
    coordinates("column", "first token s of the pixel", count, step);
    for (const Named& m : matrices_)
      for (const char* what : {"max", "mean"})
        result_.datasets.push_back({.name = m.name + "_" + what, .shape = {count, count}, .axes = "row,column",
                                    .description = std::string(what) + " over the known pairs s <= t of the pixel: " + m.description,
                                    .values = std::vector<float>()});
  }

  bool put_whole(trace::ResultWriter& writer, const Named& m) {
    const int64_t n = report_.t1 - report_.t0;
    const auto chunk = writer.chunk(m.name);
    const int64_t rows = std::max<int64_t>(chunk.empty() ? n : chunk[0], 1);
    if (progress_) progress_->begin_stage("writing " + m.name, n);
    double sum = 0, most = -std::numeric_limits<double>::infinity();
    int64_t known = 0;
    for (int64_t at = 0; at < n; at += rows) {
      const int64_t count = std::min(rows, n - at);
      const auto values = tile(*m.matrix, report_.t0 + at, report_.t0 + at + count, report_.t0, report_.t1, progress_);
      if (stopped(progress_)) return false;
      for (int64_t i = 0; i < count; ++i)
        for (int64_t s = 0; s <= at + i; ++s)
          if (const double v = values[size_t(i * n + s)]; !std::isnan(v)) sum += v, most = std::max(most, v), ++known;
      writer.write<double>(m.name, {at, 0}, {count, n}, values.data());
      if (progress_) progress_->add(count);
    }
    if (m.name == "overlap") note_overlap(known, known ? sum / double(known) : 0, most);
    return true;
  }

  bool put_pixels(trace::ResultWriter& writer, const Named& m) {
    const int pixels = std::clamp(o_.pixels, 1, 4096);
    const MatrixGrid g = analysis::pixels(*m.matrix, {.t0 = report_.t0, .t1 = report_.t1, .s0 = report_.t0, .s1 = report_.t1,
                                                      .max_rows = pixels, .max_columns = pixels}, progress_);
    if (g.max.rows == 0 || stopped(progress_)) return false;
    writer.write<float>(m.name + "_max", {0, 0}, {g.max.rows, g.max.columns}, g.max.value.data());
    writer.write<float>(m.name + "_mean", {0, 0}, {g.mean.rows, g.mean.columns}, g.mean.value.data());
    if (m.name == "overlap") note_overlap(g.max.finite_cells, g.cell_mean, g.max.max);
    return true;
  }

  void note_overlap(int64_t known, double mean, double most) {
    report_.mean_overlap = known ? mean : std::numeric_limits<double>::quiet_NaN();
    report_.largest_overlap = known ? most : std::numeric_limits<double>::quiet_NaN();
    const auto mean_of = [&](std::string_view name) {
      for (const auto& [column, values] : columns_)
        if (column == name) return mean_over_rows(values, 0).mean;
      return std::numeric_limits<double>::quiet_NaN();
    };
    report_.mean_overlap_sum = mean_of("overlap_row_sum");
    report_.mean_induced_sum = mean_of("induced_row_sum");
  }

  std::shared_ptr<const trace::Trace> trace_;
  const OverlapOptions& o_;
  const trace::RunInfo& info_;
  Progress* progress_;
  std::shared_ptr<const Addresses> addresses_;
  std::vector<Named> matrices_;
  trace::Result result_;
  std::vector<std::pair<std::string, std::vector<double>>> columns_;
  OverlapReport report_;
};

}  // namespace

std::optional<OverlapReport> write_overlap(std::shared_ptr<const trace::Trace> trace, const OverlapOptions& options,
                                           const std::filesystem::path& file, bool force, Progress* progress) {
  return OverlapFile(std::move(trace), options, progress).write(file, force);
}

}  // namespace slotscope::analysis
