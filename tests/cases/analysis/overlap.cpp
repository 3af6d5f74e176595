// Token-to-token matrices against brute force over all slots, against the reference's numbers, and as tiles and pixels.
#include "core/analysis/overlap.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <random>

#include <nlohmann/json.hpp>

#include "core/analysis/divergence.h"
#include "core/error.h"
#include "tests/cases/analysis/overlap_problem.h"
#include "tests/cases/analysis/twin.h"
#include "tests/cases/case.h"

namespace slotscope::testing {
namespace {

using analysis::Addresses;
using analysis::OverlapKind;
using nlohmann::json;

double log_logistic(double x) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); }
double retention(double w, double gamma) {  // sigma(logit(1 - w) - gamma), as written
  return w <= 0 ? 1 : w >= 1 ? 0 : std::exp(log_logistic(std::log((1 - w) / w) - gamma));
}

double brute_overlap(const AddressProblem& p, int64_t t, int64_t s) {
  double sum = 0;
  for (int a = 0; a < p.slots; ++a) sum += p.r[size_t(t)][size_t(a)] * p.w[size_t(s)][size_t(a)];
  return sum;
}

// A of 1.7, standard: sum_a r eta prod (1 - eta); and of the mass-aware readout with eps 0: sum_a r w prod rho, normalised.
std::vector<std::vector<double>> brute_induced(const AddressProblem& p, double eps, bool mass_aware) {
  std::vector<std::vector<double>> out;
  std::vector<double> mass(size_t(p.slots), 0);
  std::vector<std::vector<double>> eta(size_t(p.tokens), mass), keep = eta, rho = eta;
  for (int64_t t = 0; t < p.tokens; ++t)
    for (size_t a = 0; a < mass.size(); ++a) {
      const double w = p.w[size_t(t)][a];
      rho[size_t(t)][a] = retention(w, p.gamma[size_t(t)]);
      const double before = rho[size_t(t)][a] * mass[a];
      mass[a] = before + w;
      eta[size_t(t)][a] = w == 0 ? 0 : w / (mass[a] + eps);
      keep[size_t(t)][a] = w == 0 ? 1 : (before + eps) / (mass[a] + eps);
    }
  for (int64_t t = 0; t < p.tokens; ++t) {
    std::vector<double> row(size_t(t + 1), 0);
    double total = 0;
    for (size_t a = 0; a < mass.size(); ++a) {
      double left = 1;
      for (int64_t s = t; s >= 0; --s) {
        const double wrote = mass_aware ? p.w[size_t(s)][a] : eta[size_t(s)][a];
        row[size_t(s)] += p.r[size_t(t)][a] * wrote * left;
        left *= mass_aware ? rho[size_t(s)][a] : keep[size_t(s)][a];
      }
    }
    for (const double v : row) total += v;
    if (mass_aware && total > 0)
      for (double& v : row) v /= total;
    out.push_back(row);
  }
  return out;
}

bool near(double a, double b, double tol) { return std::abs(a - b) <= tol * std::max(1.0, std::abs(b)); }

json reference(Context& t) {
  std::ifstream file(t.data("golden/ramnet/reference.json"));
  return json::parse(file).at("memory");
}

std::shared_ptr<const Addresses> reference_addresses(const json& memory, const json& run, double eps, bool mass_aware) {
  Addresses a;
  auto routes = std::make_shared<HeadRoutes>();
  routes->slots = memory.at("slots");
  routes->top_k = a.read_k = memory.at("K");
  routes->rows = routes->tokens = memory.at("T");
  for (const auto& row : run.at("write_slots")) for (const auto& v : row) routes->index.push_back(v);
  for (const auto& row : run.at("write_weights")) for (const auto& v : row) routes->weight.push_back(v);
  for (const auto& row : run.at("read_slots")) for (const auto& v : row) a.read_slot.push_back(v);
  for (const auto& row : run.at("read_weights")) for (const auto& v : row) a.read_weight.push_back(v);
  a.gamma = memory.at("gamma").get<std::vector<double>>();
  a.own_reads = true;
  a.write = std::move(routes);
  a.rule = {.known = true, .mass_aware = mass_aware, .eps = eps};
  return analysis::make_addresses(std::move(a));
}

SLOTSCOPE_CASE(induced_weights_are_those_of_the_reference) {
  const json memory = reference(t);
  double worst = 0;
  int rows = 0;
  for (const auto& [name, run] : memory.at("runs").items())
    for (const bool mass_aware : {false, true}) {
      const auto a = reference_addresses(memory, run, 0, mass_aware);
      const auto m = analysis::induced_matrix(a);
      const auto whole = analysis::tile(*m, 0, 6, 0, 6);
      const json& expected = run.at(mass_aware ? "induced_attention_mass_aware" : "induced_attention_standard");
      for (size_t row = 0; row < 6; ++row, ++rows)
        for (size_t s = 0; s <= row; ++s) {
          const double e = expected[row][s];
          worst = std::max(worst, std::abs(whole[row * 6 + s] - e));
          if (!near(whole[row * 6 + s], e, 1e-12))
            t.fail(name + " row " + std::to_string(row) + " column " + std::to_string(s), __FILE__, __LINE__);
        }
      // A times the values is the output, with eps too.
      const auto with_eps = analysis::tile(*analysis::induced_matrix(reference_addresses(memory, run, mass_aware ? 0 : 1e-6, mass_aware)), 0, 6, 0, 6);
      for (size_t row = 0; row < 6; ++row)
        for (size_t c = 0; c < 2; ++c) {
          double o = 0;
          for (size_t s = 0; s <= row; ++s) o += with_eps[row * 6 + s] * memory.at("values")[s][c].get<double>();
          const double e = mass_aware ? run.at("gsu_eps0")[row].at("out_mass_aware")[c].get<double>()
                                      : run.at("gsu_eps1e-6_out_standard")[row][c].get<double>();
          CHECK(near(o, e, 1e-12));
        }
      std::string why;
      for (int64_t token = 0; token < 6; ++token) {
        const auto mass = analysis::mass_after(*a, token, why);
        const json& m_t = run.at("gsu_eps0")[size_t(token)].at("mass");
        CHECK_EQ(mass.size(), m_t.size());
        for (size_t slot = 0; slot < mass.size(); ++slot) CHECK(near(mass[slot], m_t[slot], 1e-12));
      }
    }
  CHECK_EQ(rows, 36);
  t.note("worst difference of a weight " + to_text(worst));
}

SLOTSCOPE_CASE(overlap_of_the_reference_addresses) {
  const json memory = reference(t);
  for (const auto& [name, run] : memory.at("runs").items()) {
    const auto m = analysis::overlap_matrix(reference_addresses(memory, run, 0, false));
    const auto whole = analysis::tile(*m, 0, 6, 0, 6);
    for (size_t row = 0; row < 6; ++row)
      for (size_t s = 0; s < 6; ++s) {
        double sum = 0;
        for (size_t i = 0; i < 4; ++i)
          for (size_t j = 0; j < 4; ++j)
            if (run.at("read_slots")[row][i] == run.at("write_slots")[s][j])
              sum += run.at("read_weights")[row][i].get<double>() * run.at("write_weights")[s][j].get<double>();
        CHECK(near(whole[row * 6 + s], s <= row ? sum : 0, 1e-14));
      }
  }
}

struct Shape {
  int factors, codes, top_k;
  int64_t shift;
};
const Shape kShapes[] = {{2, 3, 4, 0}, {2, 3, 4, 1}, {2, 3, 9, -1}, {3, 2, 8, 1}, {5, 2, 7, 1}, {3, 4, 5, -1}, {1, 6, 100, 1}, {1, 1, 1, 1}};

SLOTSCOPE_CASE(random_addresses_against_all_slots) {
  double worst = 0;
  for (const Shape& shape : kShapes)
    for (const bool mass_aware : {false, true})
      for (unsigned seed = 1; seed <= 3; ++seed) {
        const AddressProblem p = make_problem(shape.factors, shape.codes, shape.top_k, 40, shape.shift, seed);
        const double eps = mass_aware || seed == 1 ? 0 : 1e-3;
        const auto a = gsu(p, eps, mass_aware);
        const auto overlap = analysis::tile(*analysis::overlap_matrix(a), 0, 40, 0, 40);
        const auto induced = analysis::tile(*analysis::induced_matrix(a), 0, 40, 0, 40);
        const auto expected = brute_induced(p, eps, mass_aware);
        for (int64_t row = 0; row < 40; ++row)
          for (int64_t s = 0; s < 40; ++s) {
            const size_t at = size_t(row * 40 + s);
            const double o = s <= row ? brute_overlap(p, row, s) : 0, e = s <= row ? expected[size_t(row)][size_t(s)] : 0;
            worst = std::max({worst, std::abs(overlap[at] - o), std::abs(induced[at] - e)});
            CHECK(near(overlap[at], o, 1e-13));
            CHECK(near(induced[at], e, 1e-12));
          }
      }
  t.note("worst difference " + to_text(worst));
}

SLOTSCOPE_CASE(a_shift_of_all_addresses_changes_the_overlap_as_computed_by_hand) {
  // d_p 3, U 2, direction +1, token 0 writes slot 8 and token 2 reads decoded slot 6: 6 + 2 = 8.
  Addresses a;
  auto routes = std::make_shared<HeadRoutes>();
  routes->slots = 9, routes->top_k = 1, routes->rows = routes->tokens = 3;
  routes->index = {8, 1, 4};
  routes->weight = {0.5, 0.25, 1};
  a.write = routes;
  a.own_reads = true, a.read_k = 1;
  a.read_slot = {0, 0, 8};
  a.read_weight = {1, 1, 0.75};
  a.code = {.factors = 2, .codes = 3, .shift = 1};
  const auto captured = analysis::make_addresses(a);
  CHECK_EQ(analysis::tile(*analysis::overlap_matrix(captured), 2, 3, 0, 3), (std::vector<double>{0.375, 0, 0}));
  const auto nope = analysis::with_dials(captured, {.shift = 0});
  CHECK_EQ(nope->read_slot, (std::vector<uint32_t>{0, 8, 6}));  // 0 - 1 = 8 (mod 9)
  CHECK_EQ(nope->write->index, (std::vector<uint32_t>{8, 0, 2}));
  CHECK_EQ(analysis::tile(*analysis::overlap_matrix(nope), 2, 3, 0, 3), (std::vector<double>{0, 0, 0}));
  CHECK_EQ(analysis::slot_name(captured->code, 7), std::string("7 (1·2)"));
  CHECK_EQ(captured->code.decoded(8, 2, 9), int64_t(6));
  CHECK_EQ(captured->code.moved(6, 2, 9), int64_t(8));
  CHECK_EQ(captured->code.decoded(0, 10, 9), int64_t(8));
}

SLOTSCOPE_CASE(dials_give_what_a_run_with_those_settings_gives) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    const bool mass_aware = seed % 2 == 0;
    // Top-K and shift: the same logits with another K and direction.
    const auto a = gsu(make_problem(3, 3, 9, 30, 1, seed), 1e-6, mass_aware);
    const auto b = gsu(make_problem(3, 3, 4, 30, -1, seed), 1e-6, mass_aware);
    const auto dialled = analysis::with_dials(a, {.top_k = 4, .shift = -1});
    CHECK_EQ(dialled->read_slot, b->read_slot);
    CHECK_EQ(dialled->write->weight, b->write->weight);
    CHECK_EQ(analysis::tile(*analysis::overlap_matrix(dialled), 0, 30, 0, 30), analysis::tile(*analysis::overlap_matrix(b), 0, 30, 0, 30));
    CHECK_EQ(analysis::tile(*analysis::induced_matrix(dialled), 0, 30, 0, 30), analysis::tile(*analysis::induced_matrix(b), 0, 30, 0, 30));
    CHECK(analysis::with_dials(a, {}) == a);
  }
}

SLOTSCOPE_CASE(temperature_needs_every_slot) {
  const AddressProblem p = make_problem(2, 3, 9, 20, 1, 5);
  const auto a = gsu(p, 0, false);
  const auto warm = analysis::with_dials(a, {.temperature = 2});
  for (int64_t row = 0; row < 20; ++row) {
    double sum = 0, kept = 0;
    for (int i = 0; i < 9; ++i) sum += std::sqrt(p.w[size_t(row)][size_t(i)]);
    for (int k = 0; k < 9; ++k) {
      const size_t at = size_t(row * 9 + k);
      CHECK_CLOSE(warm->write->weight[at], std::sqrt(a->write->weight[at]) / sum, 1e-15);
      kept += warm->write->weight[at];
    }
    CHECK_CLOSE(kept, 1, 1e-14);
  }
  const auto sparse = gsu(make_problem(2, 3, 4, 20, 0, 5), 0, false);
  CHECK(analysis::why_not(*sparse, {.temperature = 2}).find("Top-4 of 9 slots") != std::string::npos);
  CHECK_ERROR(analysis::with_dials(sparse, {.temperature = 2}), "softmax over the others");
  CHECK_ERROR(analysis::with_dials(sparse, {.top_k = 5}), "Top-5", "first 4 ranks");
  CHECK_ERROR(analysis::with_dials(sparse, {.temperature = -1}), "above 0");
  CHECK_EQ(analysis::why_not(*sparse, {.top_k = 3, .shift = 1}), std::string());
}

SLOTSCOPE_CASE(any_tile_is_a_part_of_the_whole) {
  for (const Shape& shape : {Shape{2, 3, 4, 1}, Shape{4, 2, 6, 0}}) {
    const auto a = gsu(make_problem(shape.factors, shape.codes, shape.top_k, 61, shape.shift, 8), 1e-4, true);
    const std::shared_ptr<const analysis::TokenMatrix> all[] = {
        analysis::overlap_matrix(a), analysis::induced_matrix(a), analysis::row_normalised(analysis::overlap_matrix(a)),
        analysis::difference(analysis::row_normalised(analysis::overlap_matrix(a)), analysis::induced_matrix(a))};
    for (const auto& m : all) {
      const auto whole = analysis::tile(*m, 0, 61, 0, 61);
      std::mt19937 random(3);
      for (int i = 0; i < 60; ++i) {
        const int64_t t0 = int64_t(random() % 61), t1 = t0 + int64_t(random() % uint64_t(62 - t0));
        const int64_t s0 = int64_t(random() % 61), s1 = s0 + int64_t(random() % uint64_t(62 - s0));
        const auto part = analysis::tile(*m, t0, t1, s0, s1);
        CHECK_EQ(int64_t(part.size()), (t1 - t0) * (s1 - s0));
        for (int64_t row = t0; row < t1; ++row)
          for (int64_t s = s0; s < s1; ++s)
            if (part[size_t((row - t0) * (s1 - s0) + s - s0)] != whole[size_t(row * 61 + s)])
              t.fail(m->name() + ": another value at " + std::to_string(row) + ", " + std::to_string(s), __FILE__, __LINE__);
      }
    }
    CHECK_ERROR(analysis::tile(*all[0], 0, 62, 0, 1), "61 tokens");
    CHECK_ERROR(analysis::tile(*all[0], 5, 4, 0, 1), "61 tokens");
  }
}

// Max and mean of the blocks of a whole matrix, cell by cell.
void check_pixels(Context& t, const analysis::TokenMatrix& m, const analysis::MatrixRequest& request) {
  const analysis::MatrixGrid g = analysis::pixels(m, request);
  const auto whole = analysis::tile(m, 0, m.tokens(), 0, m.tokens());
  const int64_t rows = int64_t(g.max.slots_per_row), columns = int64_t(g.max.tokens_per_column);
  CHECK(g.max.rows <= request.max_rows && g.max.columns <= request.max_columns);
  for (int i = 0; i < g.max.rows; ++i)
    for (int j = 0; j < g.max.columns; ++j) {
      double best = 0, sum = 0;
      int64_t n = 0;
      for (int64_t row = request.t0 + i * rows; row < std::min(request.t0 + (i + 1) * rows, request.t1); ++row)
        for (int64_t s = request.s0 + j * columns; s < std::min({request.s0 + (j + 1) * columns, request.s1, row + 1}); ++s) {
          const double v = whole[size_t(row * m.tokens() + s)];
          if (std::isnan(v)) continue;
          if (n == 0 || (m.is_signed() ? std::abs(v) > std::abs(best) : v > best)) best = v;
          sum += v;
          ++n;
        }
      const size_t at = size_t(i * g.max.columns + j);
      CHECK_EQ(g.max.state[at] == analysis::Cell::finite, n > 0);
      CHECK_EQ(g.mean.state[at] == analysis::Cell::finite, n > 0);
      if (n == 0) continue;
      CHECK_EQ(g.max.value[at], float(best));
      CHECK_CLOSE(g.mean.value[at], sum / double(n), 1e-7);
    }
}

SLOTSCOPE_CASE(pixels_hold_the_largest_and_the_mean_of_their_cells) {
  const auto a = gsu(make_problem(3, 3, 5, 57, 1, 9), 1e-6, false);
  const auto overlap = analysis::overlap_matrix(a);
  const auto apart = analysis::difference(analysis::row_normalised(overlap), analysis::row_normalised(analysis::induced_matrix(a)));
  for (const auto& m : {overlap, apart})
    for (const int threads : {1, 3})
      for (const analysis::MatrixRequest& r :
           {analysis::MatrixRequest{.t0 = 0, .t1 = 57, .s0 = 0, .s1 = 57}, {.t0 = 0, .t1 = 57, .s0 = 0, .s1 = 57, .max_rows = 10, .max_columns = 7},
            {.t0 = 3, .t1 = 50, .s0 = 20, .s1 = 45, .max_rows = 9, .max_columns = 25}, {.t0 = 0, .t1 = 5, .s0 = 30, .s1 = 40},
            {.t0 = 56, .t1 = 57, .s0 = 0, .s1 = 57, .max_rows = 1, .max_columns = 1}}) {
        analysis::MatrixRequest request = r;
        request.threads = threads;
        check_pixels(t, *m, request);
      }
  const auto g = analysis::pixels(*overlap, {.t0 = 0, .t1 = 57, .s0 = 0, .s1 = 57, .max_rows = 10, .max_columns = 7});
  CHECK_EQ(g.max.reduction, std::string("max of 6 × 9 tokens per pixel"));
  CHECK_EQ(g.mean.reduction, std::string("mean of 6 × 9 tokens per pixel"));
  CHECK_EQ(g.max.finite_cells, int64_t(57 * 58 / 2));
  Progress progress;
  progress.request_cancel();
  CHECK_EQ(analysis::pixels(*overlap, {.t0 = 0, .t1 = 57, .s0 = 0, .s1 = 57}, &progress).max.rows, 0);
}

SLOTSCOPE_CASE(rows_of_two_matrices_differ_by_js) {
  const auto a = gsu(make_problem(2, 3, 3, 30, 0, 11), 1e-6, false);
  const auto p = analysis::overlap_matrix(a), q = analysis::induced_matrix(a);
  const auto d = analysis::compare_rows(*p, *q, 0, 30);
  double sum = 0, kl = 0;
  int64_t n = 0, zero = 0;
  for (int64_t row = 0; row < 30; ++row) {
    const auto x = analysis::normalised(analysis::tile(*p, row, row + 1, 0, row + 1));
    const auto y = analysis::normalised(analysis::tile(*q, row, row + 1, 0, row + 1));
    CHECK_EQ(std::isnan(d.js[size_t(row)]), !x || !y);
    zero += !x || !y;
    if (!x || !y) continue;
    CHECK_EQ(d.js[size_t(row)], analysis::js_divergence(*x, *y));
    if (row >= 1) sum += d.js[size_t(row)], kl += analysis::forward_kl(*y, *x), ++n;
  }
  CHECK(n > 10);
  CHECK_CLOSE(d.mean_js, sum / double(n), 1e-15);
  CHECK_CLOSE(d.mean_kl, kl / double(n), 1e-15);
  CHECK_EQ(d.zero_a + d.zero_b, zero);
  CHECK_EQ(d.compared + zero, int64_t(30));
  const auto same = analysis::compare_rows(*p, *p, 0, 30);
  for (const double js : same.js) CHECK(std::isnan(js) || js == 0);
}

SLOTSCOPE_CASE(routes_of_one_kind_are_compared_with_themselves) {
  for (const twin::Options& o : twin::problems()) {
    const HeadRoutes routes = twin::make(o);
    const auto a = analysis::make_addresses({.write = std::make_shared<HeadRoutes>(routes)});
    const twin::Dense d = twin::dense(routes);
    for (const auto kind : {OverlapKind::dot, OverlapKind::min, OverlapKind::write}) {
      const auto whole = analysis::tile(*analysis::overlap_matrix(a, kind), 0, o.tokens, 0, o.tokens);
      for (int64_t row = 0; row < o.tokens; ++row)
        for (int64_t s = 0; s <= row; ++s) {
          double sum = 0;
          for (int i = 0; i < o.slots; ++i) {
            const double x = (kind == OverlapKind::write ? d.s : d.r)[d.at(row, i)], y = (kind == OverlapKind::write ? d.s : d.r)[d.at(s, i)];
            sum += kind == OverlapKind::dot ? x * y : std::min(x, y);
          }
          const double v = whole[size_t(row * o.tokens + s)];
          const bool known = d.known[size_t(row)] && d.known[size_t(s)];
          CHECK(known ? near(v, sum, 1e-14) : std::isnan(v));
        }
      if (o.restricted) check_pixels(t, *analysis::overlap_matrix(a, kind), {.t0 = 0, .t1 = o.tokens, .s0 = 0, .s1 = o.tokens, .max_rows = 9, .max_columns = 11});
    }
    CHECK_ERROR(analysis::induced_matrix(a), "no addresses");
  }
}

SLOTSCOPE_CASE(a_stored_part_is_the_matrix_again) {
  const auto a = gsu(make_problem(2, 3, 3, 30, 1, 11), 1e-6, false);
  const auto m = analysis::induced_matrix(a);
  const auto part = analysis::tile(*m, 6, 20, 6, 20);
  const auto stored = analysis::stored_matrix(part, 6, 14, "A", false);
  CHECK_EQ(analysis::tile(*stored, 6, 20, 6, 20), part);
  CHECK(!stored->has_row(5) && stored->has_row(6) && stored->has_row(19) && !stored->has_row(20));
  check_pixels(t, *stored, {.t0 = 0, .t1 = 20, .s0 = 0, .s1 = 20, .max_rows = 7, .max_columns = 6});
  CHECK_ERROR(analysis::stored_matrix(part, 6, 13, "A", false), "196 values", "13 x 13");
}

SLOTSCOPE_CASE(what_cannot_be_compared_says_why) {
  const auto a = gsu(make_problem(2, 3, 3, 8, 0, 11), 0, true);
  CHECK_ERROR(analysis::overlap_matrix(a, OverlapKind::min), "sum_a r_t(a) w_s(a)");
  Addresses no_gamma = make_problem(2, 3, 3, 8, 0, 11).addresses;
  no_gamma.gamma.clear();
  no_gamma.rule = {.known = true, .mass_aware = true};
  const auto blind = analysis::make_addresses(std::move(no_gamma));
  CHECK_ERROR(analysis::induced_matrix(blind), "gamma");
  std::string why;
  CHECK(analysis::mass_after(*blind, 3, why).empty());
  CHECK(why.find("gamma") != std::string::npos);
  Addresses wrong = make_problem(2, 3, 3, 8, 0, 11).addresses;
  wrong.read_slot[4] = 9;
  CHECK_ERROR(analysis::make_addresses(std::move(wrong)), "slot 9", "0 to 8");
  const auto longer = gsu(make_problem(2, 3, 3, 9, 0, 11), 0, false);
  CHECK_ERROR(analysis::difference(analysis::overlap_matrix(a), analysis::overlap_matrix(longer)), "8 and 9 tokens");
}

SLOTSCOPE_CASE(a_hundred_thousand_tokens_in_bounded_memory) {
  // Addresses that meet at a known distance: token t reads slot t mod M and wrote slot t mod M, so overlap is 1/4 at multiples of M.
  constexpr int64_t T = 100'000;
  constexpr int M = 1024;
  Addresses a;
  auto routes = std::make_shared<HeadRoutes>();
  routes->slots = M, routes->top_k = 1, routes->rows = routes->tokens = T;
  for (int64_t i = 0; i < T; ++i) {
    routes->index.push_back(uint32_t(i % M));
    routes->weight.push_back(0.5);
    a.read_slot.push_back(uint32_t(i % M));
    a.read_weight.push_back(0.5);
  }
  a.write = routes;
  a.own_reads = true, a.read_k = 1;
  const auto m = analysis::overlap_matrix(analysis::make_addresses(std::move(a)));
  const auto g = analysis::pixels(*m, {.t0 = 0, .t1 = T, .s0 = 0, .s1 = T, .max_rows = 500, .max_columns = 500});
  CHECK_EQ(g.max.rows, 500);
  CHECK_EQ(g.max.finite_cells, T * (T + 1) / 2);
  // Blocks of 200 x 200 below the diagonal: one in them meets where a difference of multiples of 1024 is within reach.
  for (int i = 0; i < 500; i += 7)
    for (int j = 0; j < i; j += 5) {
      const int64_t least = int64_t(i - j) * 200 - 199, most = int64_t(i - j) * 200 + 199;
      const bool meets = most / M * M >= least;
      CHECK_EQ(g.max.value[size_t(i * 500 + j)], meets ? 0.25f : 0.0f);
      int64_t meetings = 0;
      for (int64_t distance = (least + M - 1) / M * M; distance <= most; distance += M)
        meetings += 200 - std::abs(distance - int64_t(i - j) * 200);
      CHECK_CLOSE(g.mean.value[size_t(i * 500 + j)], 0.25 * double(meetings) / 40000, 1e-9);
    }
  // A window at the end costs as much as the window.
  const auto part = analysis::pixels(*m, {.t0 = 99'000, .t1 = T, .s0 = 500, .s1 = 900});
  CHECK_EQ(part.max.rows, 1000);
  CHECK_EQ(part.max.columns, 400);
  CHECK_EQ(part.max.value[size_t(328 * 400 + 0)], 0.0f);
  CHECK_EQ(part.max.value[size_t((500 + 97 * 1024 - 99'000) * 400)], 0.25f);
}

SLOTSCOPE_CASE(addresses_and_attention_of_a_trace) {
  const AddressProblem p = make_problem(2, 3, 4, 30, 1, 21);
  const std::vector<int64_t> reads = {0, 4, 11, 29};
  std::mt19937 random(5);
  std::vector<double> attention;
  for (const int64_t row : reads)
    for (int h = 0; h < 2; ++h) {
      std::vector<double> p_row(30, 0);
      double sum = 0;
      for (int64_t s = 0; s <= row; ++s) sum += p_row[size_t(s)] = double(1 + random() % 100);
      for (double& v : p_row) v /= sum;
      attention.insert(attention.end(), p_row.begin(), p_row.end());
    }
  const std::shared_ptr<const trace::Trace> trace = TraceMaker::make(t.temp() / "a.h5", made_run(p, reads, attention));
  const auto a = analysis::load_addresses(*trace, 0, 0, 1);
  const auto expected = gsu(p, 1e-6, false);
  CHECK(a->own_reads && a->rule.known && !a->rule.pdma && !a->rule.mass_aware);
  CHECK_EQ(a->rule.eps, 1e-6);
  CHECK_EQ(a->code.factors, 2);
  CHECK_EQ(a->code.shift, int64_t(1));
  CHECK_EQ(analysis::load_addresses(*trace, 0, 0, 0)->code.shift, int64_t(0));  // no CAPE in head 0
  CHECK_EQ(a->read_slot, p.addresses.read_slot);
  CHECK_EQ(a->gamma, p.gamma);
  CHECK_EQ(analysis::tile(*analysis::overlap_matrix(a), 0, 30, 0, 30), analysis::tile(*analysis::overlap_matrix(expected), 0, 30, 0, 30));
  CHECK_EQ(analysis::tile(*analysis::induced_matrix(a), 0, 30, 0, 30), analysis::tile(*analysis::induced_matrix(expected), 0, 30, 0, 30));

  for (int h = 0; h < 2; ++h) {
    const auto m = analysis::attention_matrix(trace, 0, 1, h);
    const auto data = analysis::load_head(*trace, 0, 1, h);
    const auto same = analysis::attribution_matrix(data, h);
    for (size_t i = 0; i < reads.size(); ++i) {
      const auto row = analysis::tile(*m, reads[i], reads[i] + 1, 0, 30);
      CHECK_EQ(row, std::vector<double>(attention.begin() + int64_t(i * 2 + size_t(h)) * 30, attention.begin() + int64_t(i * 2 + size_t(h) + 1) * 30));
      CHECK_EQ(row, analysis::tile(*same, reads[i], reads[i] + 1, 0, 30));
    }
    CHECK(!m->has_row(5) && std::isnan(analysis::tile(*m, 5, 6, 2, 3)[0]));
    const auto d = analysis::compare_rows(*analysis::overlap_matrix(a), *m, 0, 30);
    CHECK_EQ(d.missing, int64_t(26));
    CHECK_EQ(d.compared + d.zero_a, int64_t(4));
    const auto grid = analysis::pixels(*m, {.t0 = 0, .t1 = 30, .s0 = 0, .s1 = 30});
    CHECK_EQ(grid.missing_rows, int64_t(26));
    CHECK(grid.max.reduction.find("26 rows not captured") != std::string::npos);
  }
  CHECK_ERROR(analysis::attention_matrix(trace, 0, 0, 0), "a.h5", "ramnet", "no full attention");
  CHECK_ERROR(analysis::attention_matrix(trace, 0, 1, 2), "no such head");
}

SLOTSCOPE_CASE(damaged_addresses_are_named) {
  const AddressProblem p = make_problem(2, 3, 4, 6, 1, 21);
  MadeRun good = made_run(p, {0}, std::vector<double>(12, 0));
  const auto load = [&](const MadeRun& run, const char* name) {
    analysis::load_addresses(*TraceMaker::make(t.temp() / name, run), 0, 0, 0);
  };
  MadeRun bad = good;
  bad.layers[0].fields[0].values[2] = 9;
  CHECK_ERROR(load(bad, "slot.h5"), "slot.h5", "read_index", "slot 9", "0 to 8");
  bad.layers[0].fields[0].values[2] = -1;
  CHECK_ERROR(load(bad, "minus.h5"), "read_index", "0 to 8");
  bad.layers[0].fields[0].values[2] = std::nan("");
  CHECK_ERROR(load(bad, "nan.h5"), "read_index", "0 to 8");
  bad = good;
  bad.layers[0].attributes[0].second = int64_t(7);
  CHECK_ERROR(load(bad, "order.h5"), "7 factors of 3 codes", "product of 9 slots");
  bad = good;
  bad.layers[0].attributes[7].second = std::numeric_limits<int64_t>::min();
  CHECK_ERROR(analysis::load_addresses(*TraceMaker::make(t.temp() / "cape.h5", bad), 0, 0, 1), "cape_direction", "1 or -1");
  bad = good;
  bad.layers[0].fields[1].row = {2, 2};
  CHECK_ERROR(load(bad, "shape.h5"), "read_index", "another shape");
  bad = good;
  bad.layers[0].fields.clear();
  const auto trace = TraceMaker::make(t.temp() / "none.h5", bad);
  CHECK_ERROR(analysis::overlap_matrix(analysis::load_addresses(*trace, 0, 0, 0)), "read addresses were not captured");
}

}  // namespace
}  // namespace slotscope::testing
