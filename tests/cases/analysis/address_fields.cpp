// Accesses, factor marginals and masses of an address view against their definitions.
#include "core/analysis/address_fields.h"

#include <cmath>

#include "core/error.h"
#include "tests/cases/analysis/overlap_problem.h"
#include "tests/cases/case.h"

namespace slotscope::testing {
namespace {

SLOTSCOPE_CASE(access_pixels_hold_the_largest_weights) {
  const AddressProblem p = make_problem(3, 3, 5, 50, 1, 4);
  const auto a = gsu(p, 1e-6, false);
  for (const bool decoded : {false, true})
    for (const auto& [rows, columns] : {std::pair{100, 100}, std::pair{5, 7}, std::pair{1, 1}}) {
      const auto g = analysis::access_grid(*a, {2, 26}, {3, 47}, rows, columns, decoded);
      CHECK(g.rows <= rows && g.columns <= columns && g.rows > 0);
      for (int i = 0; i < g.rows; ++i)
        for (int j = 0; j < g.columns; ++j) {
          double read = 0, write = 0;
          for (int64_t slot = 2 + i * g.slots_per_row; slot < std::min<int64_t>(2 + (i + 1) * g.slots_per_row, 26); ++slot)
            for (int64_t t = 3 + j * g.tokens_per_column; t < std::min<int64_t>(3 + (j + 1) * g.tokens_per_column, 47); ++t) {
              // The slot that a decoded one is moved to: + t modulo M.
              const size_t in_memory = decoded ? size_t((slot + t) % p.slots) : size_t(slot);
              read = std::max(read, p.r[size_t(t)][in_memory]);
              write = std::max(write, p.w[size_t(t)][in_memory]);
            }
          CHECK_EQ(g.read[size_t(i * g.columns + j)], float(read));
          CHECK_EQ(g.write[size_t(i * g.columns + j)], float(write));
        }
    }
}

SLOTSCOPE_CASE(cape_accesses_drift_by_one_slot_per_token) {
  // The same logits at every token: with CAPE the accesses are a diagonal, undone they are a line.
  analysis::Addresses a;
  auto routes = std::make_shared<HeadRoutes>();
  routes->slots = 8, routes->top_k = 1, routes->rows = routes->tokens = 8;
  for (int t = 0; t < 8; ++t) routes->index.push_back(uint32_t((3 + t) % 8)), routes->weight.push_back(0.5), a.read_slot.push_back(uint32_t((5 + t) % 8)), a.read_weight.push_back(0.25);
  a.write = routes, a.own_reads = true, a.read_k = 1;
  a.code = {.factors = 3, .codes = 2, .shift = 1};
  const auto made = analysis::make_addresses(std::move(a));
  const auto drifts = analysis::access_grid(*made, {0, 8}, {0, 8}, 8, 8, false), still = analysis::access_grid(*made, {0, 8}, {0, 8}, 8, 8, true);
  for (int at = 0; at < 8; ++at)
    for (int slot = 0; slot < 8; ++slot) {
      CHECK_EQ(drifts.write[size_t(slot * 8 + at)], slot == (3 + at) % 8 ? 0.5f : 0.0f);
      CHECK_EQ(still.write[size_t(slot * 8 + at)], slot == 3 ? 0.5f : 0.0f);
      CHECK_EQ(still.read[size_t(slot * 8 + at)], slot == 5 ? 0.25f : 0.0f);
    }
  // Slot 3 = codes (1, 1, 0): every factor's mass is on one code.
  CHECK_EQ(analysis::factor_marginals(*made, 6, true), (std::vector<double>{0, 0.5, 0, 0.5, 0.5, 0}));
  CHECK_EQ(analysis::factor_marginals(*made, 6, false), (std::vector<double>{0, 0.25, 0.25, 0, 0, 0.25}));
}

SLOTSCOPE_CASE(marginals_of_all_slots_are_the_softmaxes) {
  // K = M: the sum over the other factors is the factor's own softmax; with Top-K it is that of the kept mass.
  for (const int k : {27, 5}) {
    const AddressProblem p = make_problem(3, 3, k, 20, -1, 9);
    const auto a = gsu(p, 0, false);
    for (int64_t token = 0; token < 20; ++token) {
      const auto m = analysis::factor_marginals(*a, token, true);
      for (int u = 0, step = 1; u < 3; ++u, step *= 3) {
        double total = 0;
        for (int j = 0; j < 3; ++j) {
          double sum = 0;
          for (int slot = 0; slot < 27; ++slot)  // the slot before CAPE has the digit
            if (((slot + int(token)) % 27) / step % 3 == j) sum += p.w[size_t(token)][size_t(slot)];
          CHECK_CLOSE(m[size_t(u * 3 + j)], sum, 1e-15);
          total += m[size_t(u * 3 + j)];
        }
        CHECK_CLOSE(total, analysis::kept_mass(*a, token, true), 1e-14);
        CHECK(k == 5 ? total < 1 : std::abs(total - 1) < 1e-14);
      }
    }
    const auto g = analysis::marginal_grid(*a, false, 2, 20, 6);
    CHECK_EQ(g.rows, 9);
    CHECK_EQ(g.columns, 6);
    CHECK_EQ(g.reduction, std::string("mean of 3 tokens per column"));
    double mean = 0;
    for (int64_t t = 5; t < 8; ++t) mean += analysis::factor_marginals(*a, t, false)[4] / 3;
    CHECK_CLOSE(g.value[size_t(4 * 6 + 1)], mean, 1e-7);
  }
}

SLOTSCOPE_CASE(most_significant_first_reverses_the_digits) {
  analysis::ProductCode code{.factors = 3, .codes = 4};
  CHECK_EQ(code.digits(27), (std::vector<int>{3, 2, 1}));  // 27 = 3 + 2 * 4 + 1 * 16
  code.factor0_least = false;
  CHECK_EQ(code.digits(27), (std::vector<int>{1, 2, 3}));
  CHECK_EQ(analysis::slot_name(code, 27), std::string("27 (1·2·3)"));
}

SLOTSCOPE_CASE(mass_from_the_file_or_replayed) {
  const AddressProblem p = make_problem(2, 3, 4, 30, 0, 6);
  const auto expected = gsu(p, 1e-6, false);
  MadeRun made = made_run(p, {0}, std::vector<double>(60, 0));
  std::string why;
  const auto at_20 = analysis::mass_after(*expected, 20, why);
  std::vector<double> stored = at_20;
  stored.insert(stored.end(), at_20.begin(), at_20.end());
  for (double& m : stored) m += 1;  // so that it can be told from the replayed one
  made.layers[0].fields.push_back({"mass", "S,H,M", {2, 9}, stored});
  made.layers[0].fields.push_back({"state_token", "S", {}, {20}});
  const std::shared_ptr<const trace::Trace> trace = TraceMaker::make(t.temp() / "m.h5", made);
  const auto a = analysis::load_addresses(*trace, 0, 0, 1);
  const auto file = analysis::slot_mass(*trace, 0, *a, 20);
  CHECK(!file.replayed && file.token == 20);
  for (size_t i = 0; i < 9; ++i) CHECK_EQ(file.mass[i], at_20[i] + 1);
  const auto replayed = analysis::slot_mass(*trace, 0, *a, 25);
  CHECK(replayed.replayed && replayed.token == 25);
  CHECK_EQ(replayed.mass, analysis::mass_after(*expected, 25, why));
  // Without gamma: the last state before.
  std::erase_if(made.layers[0].fields, [](const MadeField& f) { return f.name == "gamma"; });
  const std::shared_ptr<const trace::Trace> blind = TraceMaker::make(t.temp() / "b.h5", made);
  const auto b = analysis::load_addresses(*blind, 0, 0, 1);
  CHECK_EQ(analysis::slot_mass(*blind, 0, *b, 25).token, int64_t(20));
  const auto none = analysis::slot_mass(*blind, 0, *b, 10);
  CHECK(none.mass.empty() && none.why.find("gamma") != std::string::npos);
}

SLOTSCOPE_CASE(slots_without_digits_are_refused) {
  auto routes = std::make_shared<HeadRoutes>();
  routes->slots = 5, routes->top_k = 1, routes->rows = routes->tokens = 1, routes->index = {2}, routes->weight = {1};
  const auto a = analysis::make_addresses({.write = routes});
  CHECK_ERROR(analysis::factor_marginals(*a, 0, true), "no digits");
  CHECK_EQ(analysis::slot_name(a->code, 2), std::string("2"));
  auto wide = std::make_shared<HeadRoutes>(*routes);
  wide->slots = 5000;
  const auto b = analysis::make_addresses({.write = wide, .code = {.factors = 1, .codes = 5000}});
  CHECK_ERROR(analysis::marginal_grid(*b, true, 0, 1, 10), "5000 codes", "4096");
}

}  // namespace
}  // namespace slotscope::testing
