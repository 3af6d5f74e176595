// What RAM-Net says of its value fields, as numbers (spec: ramnet 3): Top-K artefacts grow at small beta, larger d_p smooths the
// grid at moderate beta, mass weighting shifts borders of regions and makes oblique ones.
#include <cmath>
#include <numbers>

#include "core/analysis/value_field_keys.h"
#include "tests/cases/case.h"

using namespace slotscope;
using namespace slotscope::analysis;

namespace {

constexpr int kGrid = 64;

FieldPanel memory(int codes, int64_t top_k, bool mass_aware = false) {
  FieldPanel p;
  p.codes = codes, p.top_k = top_k, p.mass_aware = mass_aware;
  return p;
}

FieldSettings spread_keys(uint64_t seed, double tau, std::vector<double> rows, std::vector<FieldPanel> columns) {
  FieldSettings s;
  s.tau = tau, s.grid = kGrid;
  s.keys = field_keys(s.space, {.seed = seed});
  s.rows = std::move(rows), s.columns = std::move(columns);
  return s;
}

double difference(const FieldResult& a, const FieldResult& b) {
  double sum = 0;
  for (size_t i = 0; i < a.value.size(); ++i) sum += std::pow(a.value[i] - b.value[i], 2);
  return std::sqrt(sum / double(a.value.size()));
}

double at(const FieldResult& f, int x, int y) { return f.value[size_t((y + kGrid) % kGrid * kGrid + (x + kGrid) % kGrid)]; }

// The largest step between neighbouring queries: a border that is a jump.
double largest_step(const FieldResult& f) {
  double most = 0;
  for (int y = 0; y < kGrid; ++y)
    for (int x = 0; x < kGrid; ++x)
      most = std::max({most, std::abs(at(f, x, y) - at(f, x + 1, y)), std::abs(at(f, x, y) - at(f, x, y + 1))});
  return most;
}

// 0: the field changes along one angle at a time; 1: along both alike.
double oblique_share(const FieldResult& f) {
  double both = 0, all = 0;
  for (int y = 0; y < kGrid; ++y)
    for (int x = 0; x < kGrid; ++x) {
      const double gx = at(f, x + 1, y) - at(f, x - 1, y), gy = at(f, x, y + 1) - at(f, x, y - 1);
      both += 2 * std::abs(gx * gy), all += gx * gx + gy * gy;
    }
  return both / all;
}

// Where the field passes 0.5 on the line between two places, for every panel (the reference first).
std::vector<double> crossings(const FieldSettings& s, double from, double to, double y) {
  std::vector<double> at;
  for (size_t panel = 0; panel <= s.rows.size() * s.columns.size(); ++panel) {
    double low = from, high = to;
    for (int step = 0; step < 50; ++step) {
      const double middle = (low + high) / 2;
      (value_field_at(s, middle, y)[panel] < 0.5 ? low : high) = middle;
    }
    at.push_back(low);
  }
  return at;
}

}  // namespace

SLOTSCOPE_CASE(top_k_artefacts_grow_at_small_beta) {
  double small = 0, large = 0;
  for (const double tau : {0.125, 0.5, 2.0})
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const auto f = value_field(spread_keys(seed, tau, {0.25, 0.5, 1, 2}, {memory(4, 16), memory(4, 4)}));
      double before = 1e9, mass = 0;
      for (size_t row = 0; row < 4; ++row) {
        const double cut = difference(f->at(row, 0), f->at(row, 1));
        CHECK(cut < before);  // every doubling of beta makes it smaller
        CHECK(f->at(row, 1).mean_read_mass > mass);
        before = cut, mass = f->at(row, 1).mean_read_mass;
        // Jumps of the cut field, against the smooth field of all slots: only at small beta there are any.
        const double jumps = largest_step(f->at(row, 1)) / largest_step(f->at(row, 0));
        if (f->settings.rows[row] * f->beta_star <= 1) CHECK(jumps > 10), small = std::max(small, cut);
        if (f->settings.rows[row] * f->beta_star >= 4) CHECK(jumps < 1.3), large = std::max(large, cut);
      }
    }
  t.note("RMS difference that keeping 4 of 16 slots makes: " + testing::to_text(small) + " at beta <= 1, " + testing::to_text(large) + " at beta >= 4");
  CHECK(small > 0.15);
  CHECK(large < small / 20);
}

SLOTSCOPE_CASE(more_codes_smooth_at_moderate_beta) {
  double weak = 0, moderate = 1e9;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const auto f = value_field(spread_keys(seed, 0.125, {0.25, 1, 2}, {memory(4, 16), memory(16, 256)}));
    weak = std::max(weak, largest_step(f->at(0, 0)) / largest_step(f->at(0, 1)));
    for (size_t row = 1; row < 3; ++row) {
      moderate = std::min(moderate, largest_step(f->at(row, 0)) / largest_step(f->at(row, 1)));
      CHECK(f->at(row, 1).rmse < f->at(row, 0).rmse);
    }
    // The grid of four codes: changes along one angle at a time, those of sixteen run as full attention's.
    CHECK(oblique_share(f->at(2, 0)) < 0.35);
    CHECK(std::abs(oblique_share(f->at(2, 1)) - oblique_share(*f->reference)) < 0.15);
  }
  t.note("steepest step with 4 codes over that with 16: at most " + testing::to_text(weak) + " at beta 1, at least " + testing::to_text(moderate) + " at beta 4 and 8");
  CHECK(weak < 1.5);
  CHECK(moderate > 1.5);
}

SLOTSCOPE_CASE(mass_weighting_shifts_borders) {
  // n keys of value 0 at one place against one key of value 1: full attention's border moves to the single key as log n.
  const auto borders = [](int copies, double row) {
    FieldSettings s;
    s.tau = 0.125;
    for (int i = 0; i < copies; ++i) s.keys.push_back({.x = 1.2, .y = 3, .value = {0}});
    s.keys.push_back({.x = 3.6, .y = 3, .value = {1}});
    s.rows = {row};
    s.columns = {memory(4, 16), memory(4, 16, true), memory(16, 256), memory(16, 256, true)};
    return crossings(s, 1.2, 3.6, 3);
  };
  const auto one = borders(1, 2), four = borders(4, 2);
  // log 4 = (cos(x - 3.6) - cos(x - 1.2)) / tau = 2 sin(1.2) sin(x - 2.4) / tau.
  CHECK_CLOSE(one[0], 2.4, 1e-12);
  CHECK_CLOSE(four[0], 2.4 + std::asin(std::log(4.0) * 0.125 / (2 * std::sin(1.2))), 1e-12);
  t.note("borders, 1 against 1 and 4 against 1: full attention " + testing::to_text(one) + " " + testing::to_text(four));
  // Four codes: the standard readout's border stays where one code gives way to the next (3 pi / 4); mass moves it.
  const double code_border = 3 * std::numbers::pi / 4;
  CHECK_CLOSE(one[1], code_border, 2e-4);
  CHECK_CLOSE(four[1], code_border, 2e-4);
  CHECK(four[2] - one[2] > 0.1);
  CHECK(four[2] - code_border > 0.1);
  // Sixteen codes: both move, the mass-aware one more.
  CHECK(four[3] - one[3] > 0.05);
  CHECK(four[4] - one[4] > 1.3 * (four[3] - one[3]));
  // And with one key each the mass-aware border is full attention's own.
  CHECK_CLOSE(one[4], one[0], 1e-3);
  CHECK(std::abs(one[3] - one[0]) > 0.02);

  double standard = 0, weighted = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const auto f = value_field(spread_keys(seed, 0.125, {1, 2}, {memory(4, 16), memory(4, 16, true)}));
    for (size_t row = 0; row < 2; ++row) standard += oblique_share(f->at(row, 0)) / 16, weighted += oblique_share(f->at(row, 1)) / 16;
  }
  t.note("oblique share of 4 codes: standard " + testing::to_text(standard) + ", mass-aware " + testing::to_text(weighted));
  CHECK(weighted > 1.1 * standard);
}
