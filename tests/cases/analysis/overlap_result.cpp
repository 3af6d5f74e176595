// The file of "ramnet-overlap": what it holds is what the matrices say; what it refuses.
#include "core/analysis/overlap_result.h"

#include <cmath>
#include <random>

#include "core/error.h"
#include "core/trace/result_file.h"
#include "tests/cases/analysis/overlap_problem.h"
#include "tests/cases/case.h"

namespace slotscope::testing {
namespace {

namespace fs = std::filesystem;

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))) return false;
  return true;
}

SLOTSCOPE_CASE(the_file_holds_the_matrices) {
  const AddressProblem p = make_problem(2, 3, 4, 30, 1, 21);
  const std::vector<int64_t> reads = {0, 4, 11, 29};
  const std::shared_ptr<const trace::Trace> trace =
      TraceMaker::make(t.temp() / "a.h5", made_run(p, reads, attention_rows(reads, 30)));
  const fs::path out = t.temp() / "o.h5";
  const auto report = analysis::write_overlap(trace, {.layer = 0, .head = 1, .window = {{2, 28}}, .against = trace, .against_layer = 1, .against_head = 1}, out, false);
  CHECK(report && report->whole && report->no_induced.empty());
  CHECK_EQ(report->common_tokens, int64_t(30));
  const auto a = analysis::load_addresses(*trace, 0, 0, 1);
  const auto overlap = analysis::overlap_matrix(a), induced = analysis::induced_matrix(a), teacher = analysis::attention_matrix(trace, 0, 1, 1);
  const trace::Result r = trace::read_result(out, "ramnet-overlap");
  const auto values = [&](const char* name) { return trace::as_doubles(r.at(name).values); };
  CHECK_EQ(r.at("overlap").shape, (std::vector<int64_t>{26, 26}));
  CHECK_EQ(r.at("overlap").axes, std::string("t,s"));
  CHECK(same(values("overlap"), analysis::tile(*overlap, 2, 28, 2, 28)));
  CHECK(same(values("induced"), analysis::tile(*induced, 2, 28, 2, 28)));
  CHECK(same(values("attention"), analysis::tile(*teacher, 2, 28, 2, 28)));
  CHECK(same(values("difference"), analysis::tile(*analysis::difference(analysis::row_normalised(induced), analysis::row_normalised(teacher)), 2, 28, 2, 28)));
  CHECK(same(values("js_overlap_induced"), analysis::compare_rows(*overlap, *induced, 2, 28).js));
  CHECK(same(values("kl_induced_attention"), analysis::compare_rows(*induced, *teacher, 2, 28).kl));
  CHECK(same(values("overlap_row_sum"), analysis::row_sums(*overlap, 2, 28)));
  std::vector<double> tokens;
  for (int i = 2; i < 28; ++i) tokens.push_back(i);
  CHECK(same(values("t"), tokens));
  CHECK_EQ(r.integer("layer"), int64_t(0));
  CHECK_EQ(r.integer("cape_shift"), int64_t(1));
  CHECK_EQ(r.integer("codes_per_factor"), int64_t(3));
  CHECK_EQ(report->divergences.size(), size_t(3));
  CHECK_EQ(report->divergences[0].rows.mean_js, analysis::compare_rows(*overlap, *induced, 2, 28).mean_js);
  double sum = 0, most = 0;
  const auto all = values("overlap");
  for (size_t i = 0; i < 26; ++i)
    for (size_t s = 0; s <= i; ++s) sum += all[i * 26 + s], most = std::max(most, all[i * 26 + s]);
  CHECK_CLOSE(report->mean_overlap, sum / (26 * 27 / 2), 1e-15);
  CHECK_EQ(report->largest_overlap, most);
}

SLOTSCOPE_CASE(long_windows_are_stored_as_pixels) {
  const AddressProblem p = make_problem(2, 2, 2, 4200, 0, 3);
  const std::shared_ptr<const trace::Trace> trace =
      TraceMaker::make(t.temp() / "long.h5", made_run(p, {0}, std::vector<double>(8400, 0)));
  const fs::path out = t.temp() / "o.h5";
  const auto report = analysis::write_overlap(trace, {.pixels = 100}, out, false);
  CHECK(report && !report->whole);
  const auto a = analysis::load_addresses(*trace, 0, 0, 0);
  const trace::Result r = trace::read_result(out);
  const auto g = analysis::pixels(*analysis::overlap_matrix(a), {.t0 = 0, .t1 = 4200, .s0 = 0, .s1 = 4200, .max_rows = 100, .max_columns = 100, .threads = 1});
  CHECK_EQ(r.integer("tokens_per_pixel"), int64_t(42));
  CHECK_EQ(r.at("overlap_max").shape, (std::vector<int64_t>{100, 100}));
  CHECK(same(trace::as_doubles(r.at("overlap_max").values), std::vector<double>(g.max.value.begin(), g.max.value.end())));
  CHECK(same(trace::as_doubles(r.at("overlap_mean").values), std::vector<double>(g.mean.value.begin(), g.mean.value.end())));
  CHECK_EQ(report->mean_overlap, g.cell_mean);
  CHECK_EQ(trace::as_doubles(r.at("row").values)[3], 126.0);
  CHECK(!r.find("overlap"));
}

SLOTSCOPE_CASE(what_a_result_is_refused_for) {
  const AddressProblem p = make_problem(2, 3, 4, 30, 1, 21);
  const std::shared_ptr<const trace::Trace> trace = TraceMaker::make(t.temp() / "a.h5", made_run(p, {3}, attention_rows({3}, 30)));
  const fs::path out = t.temp() / "o.h5";
  const auto write = [&](const analysis::OverlapOptions& o) { analysis::write_overlap(trace, o, out, false); };
  CHECK_ERROR(write({.window = {{30, 40}}}), "30:40", "0:30");
  CHECK_ERROR(write({.dials = {.temperature = 2}}), "Top-4 of 9 slots");
  CHECK_ERROR(write({.kind = analysis::OverlapKind::min}), "r_t(a) w_s(a)");
  CHECK_ERROR(write({.layer = 5}), "layer 5");
  CHECK_ERROR(write({.against = trace, .against_layer = 1, .against_head = 7}), "no such head");
  CHECK(!fs::exists(out));
  Progress cancelled;
  cancelled.request_cancel();
  CHECK(!analysis::write_overlap(trace, {}, out, false, &cancelled));
  CHECK(!fs::exists(out) && !fs::exists(out.string() + ".part"));
  // The other trace ends earlier: only its rows are there.
  const auto longer = [&] {
    const AddressProblem q = make_problem(2, 3, 4, 12, 1, 22);
    return TraceMaker::make(t.temp() / "b.h5", made_run(q, {2, 9}, attention_rows({2, 9}, 12)));
  }();
  const auto report = analysis::write_overlap(trace, {.against = longer, .against_layer = 1}, out, false);
  CHECK_EQ(report->common_tokens, int64_t(12));
  const trace::Result r = trace::read_result(out);
  const auto attention = trace::as_doubles(r.at("attention").values);
  CHECK(attention[9 * 30 + 4] > 0 && std::isnan(attention[8 * 30 + 4]) && std::isnan(attention[20 * 30 + 4]));
  CHECK_ERROR(write({}), "o.h5");
}

}  // namespace
}  // namespace slotscope::testing
