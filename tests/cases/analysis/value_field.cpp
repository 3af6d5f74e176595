// Value fields: golden fields, a brute-force twin over random configurations, the identities and limits of the theory, bad
// settings (spec: ramnet 2, 3).
#include "core/analysis/value_field.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>
#include <random>

#include "core/analysis/product_code.h"
#include "core/error.h"
#include "tests/cases/case.h"

using namespace slotscope;
using namespace slotscope::analysis;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kTurn = 2 * std::numbers::pi;

nlohmann::json golden(testing::Context& t) {
  std::ifstream file(t.data("golden/ramnet/reference.json"));
  return nlohmann::json::parse(file).at("value_field");
}

FieldSettings golden_settings(const nlohmann::json& ref) {
  FieldSettings s;
  s.tau = ref.at("tau");
  s.grid = int(ref.at("grid_angles").size());
  for (size_t i = 0; i < ref.at("values").size(); ++i)
    s.keys.push_back({.x = ref["key_angles"][i][0], .y = ref["key_angles"][i][1], .value = {ref["values"][i]}});
  return s;
}

double worst(const std::vector<double>& a, const std::vector<double>& b) {
  double most = a.size() == b.size() ? 0 : kInf;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (!(std::abs(a[i] - b[i]) <= most)) most = std::abs(a[i] - b[i]);
  return most;
}

FieldPanel ramnet(int codes, int64_t top_k, bool mass_aware = false) {
  FieldPanel p;
  p.codes = codes, p.top_k = top_k, p.mass_aware = mass_aware;
  return p;
}

FieldSettings random_settings(std::mt19937_64& random, FieldSpace space, int keys, int channels) {
  const auto uniform = [&](double low, double high) { return low + (high - low) * double(random() >> 11) * 0x1p-53; };
  FieldSettings s;
  s.space = space, s.channels = channels, s.grid = 5;
  s.tau = uniform(0.2, 3);
  s.query_radius = {uniform(0.5, 1.5), uniform(0.5, 1.5)};
  for (int i = 0; i < keys; ++i) {
    FieldKey key;
    const double reach = space == FieldSpace::torus ? kTurn : 1.5;
    key.x = uniform(space == FieldSpace::torus ? 0 : -1.5, reach), key.y = uniform(space == FieldSpace::torus ? 0 : -1.5, reach);
    if (space == FieldSpace::torus) key.radius = {uniform(0.5, 1.5), uniform(0.5, 1.5)};
    for (int c = 0; c < channels; ++c) key.value[size_t(c)] = uniform(0, 1);
    s.keys.push_back(key);
  }
  return s;
}

// ---- The twin: one query at a time, all slots, a full sort.

std::vector<double> twin_point(FieldSpace space, double x, double y, std::array<double, 2> r) {
  if (space == FieldSpace::plane) return {x, y};
  return {r[0] * std::cos(x), r[0] * std::sin(x), r[1] * std::cos(y), r[1] * std::sin(y)};
}

// `tied` (may be null): the last kept and the first left out are equal but for rounding, so either may be kept.
std::vector<double> twin_address(const std::vector<double>& point, int codes, int64_t top_k, double beta, bool* tied = nullptr) {
  const int U = int(point.size()) / 2;
  std::vector<double> p{1};
  for (int u = 0; u < U; ++u) {
    std::vector<double> factor(static_cast<size_t>(codes));
    for (int j = 0; j < codes; ++j)
      factor[size_t(j)] = std::exp(beta * (point[size_t(2 * u)] * std::cos(kTurn * j / codes) + point[size_t(2 * u + 1)] * std::sin(kTurn * j / codes)));
    const double sum = std::accumulate(factor.begin(), factor.end(), 0.0);
    std::vector<double> next;  // later factors are the more significant digits
    for (int j = 0; j < codes; ++j)
      for (const double before : p) next.push_back(before * factor[size_t(j)] / sum);
    p = next;
  }
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] != p[b] ? p[a] > p[b] : a < b; });
  if (tied) *tied = size_t(top_k) < p.size() && p[order[size_t(top_k) - 1]] - p[order[size_t(top_k)]] <= 1e-12 * p[order[size_t(top_k)]];
  for (size_t k = size_t(top_k); k < order.size(); ++k) p[order[k]] = 0;
  return p;
}

struct Twin {
  std::vector<double> value, read_mass;
  std::vector<bool> tied;
};

Twin twin_ramnet(const FieldSettings& s, const FieldPanel& p, double row, const std::vector<double>& xs, const std::vector<double>& ys) {
  const double star = std::sqrt(2 / s.tau);
  const size_t C = size_t(s.channels);
  std::vector<double> mass, state;
  std::vector<FieldKey> keys = s.keys;
  if (p.order == FieldOrder::reversed) std::reverse(keys.begin(), keys.end());
  for (const FieldKey& key : keys) {
    const auto w = twin_address(twin_point(s.space, key.x, key.y, key.radius), p.codes, p.top_k, row * star * p.beta_write);
    mass.resize(w.size()), state.resize(w.size() * C);
    for (size_t a = 0; a < w.size(); ++a) {
      if (w[a] == 0) continue;
      const double rho = p.cumulative ? 1 : 1 / (1 + std::exp(p.gamma - std::log((1 - w[a]) / w[a])));
      mass[a] = rho * mass[a] + w[a];
      for (size_t c = 0; c < C; ++c) state[a * C + c] += w[a] / (mass[a] + p.eps) * (key.value[c] - state[a * C + c]);
    }
  }
  Twin out;
  bool tied = false;
  for (const double y : ys)
    for (const double x : xs) {
      const auto r = twin_address(twin_point(s.space, x, y, s.query_radius), p.codes, p.top_k, row * star * p.beta_read, &tied);
      out.tied.push_back(tied);
      std::vector<double> sum(C);
      double by = 0, kept = 0;
      for (size_t a = 0; a < r.size(); ++a) {
        const double weight = p.mass_aware ? r[a] * mass[a] : r[a];
        for (size_t c = 0; c < C; ++c) sum[c] += weight * state[a * C + c];
        by += r[a] * mass[a];
        if (mass[a] > 0) kept += r[a];
      }
      const double divisor = p.mass_aware ? by : p.divide ? kept : 1;
      for (size_t c = 0; c < C; ++c) out.value.push_back(divisor == 0 ? 0 : sum[c] / divisor);
      out.read_mass.push_back(kept);
    }
  return out;
}

std::vector<double> twin_attention(const FieldSettings& s, const std::vector<FieldKey>& keys, double scale, const std::vector<double>& xs,
                                   const std::vector<double>& ys) {
  std::vector<double> out;
  for (const double y : ys)
    for (const double x : xs) {
      const auto q = twin_point(s.space, x, y, s.query_radius);
      std::vector<double> sum(size_t(s.channels));
      double by = 0;
      for (const FieldKey& key : keys) {
        const auto k = twin_point(s.space, key.x, key.y, key.radius);
        const double w = std::exp(scale * std::inner_product(q.begin(), q.end(), k.begin(), 0.0));
        by += w;
        for (size_t c = 0; c < sum.size(); ++c) sum[c] += w * key.value[c];
      }
      for (const double v : sum) out.push_back(v / by);
    }
  return out;
}

}  // namespace

SLOTSCOPE_CASE(golden_fields) {
  const auto ref = golden(t);
  FieldSettings s = golden_settings(ref);
  CHECK_CLOSE(beta_star_of_tau(s.tau), ref.at("beta_star").get<double>(), 1e-15);
  double most = 0;
  for (const auto& r : ref.at("ramnet")) {
    s.rows = {r.at("beta_multiple")};
    s.columns = {ramnet(r.at("d_p"), r.at("K"), r.at("mass_aware"))};
    const auto field = value_field(s);
    CHECK(worst(field->x, ref.at("grid_angles").get<std::vector<double>>()) <= 1e-14);
    const double reference = worst(field->reference->value, ref.at("full_attention").get<std::vector<double>>());
    const double panel = worst(field->at(0, 0).value, r.at("field").get<std::vector<double>>());
    CHECK(reference <= 1e-12);
    CHECK(panel <= 1e-12);
    CHECK_CLOSE(field->at(0, 0).rmse, r.at("rmse_to_full_attention").get<double>(), 1e-12);
    most = std::max({most, reference, panel});
  }
  CHECK_EQ(ref.at("ramnet").size(), size_t(15));
  t.note("worst error of 16 fields " + testing::to_text(most));
}

SLOTSCOPE_CASE(random_panels_equal_the_twin) {
  std::mt19937_64 random(7);
  double most = 0;
  int64_t compared = 0, tied = 0;
  for (int round = 0; round < 300; ++round) {
    const FieldSpace space = round % 3 == 0 ? FieldSpace::plane : FieldSpace::torus;
    FieldSettings s = random_settings(random, space, 1 + int(random() % 9), round % 2 ? 3 : 1);
    FieldPanel p = ramnet(2 + int(random() % 7), 1, random() % 2 == 0);
    p.top_k = 1 + int64_t(random() % uint64_t(field_slots(space, p.codes) + 2));
    p.divide = random() % 2 == 0;
    p.cumulative = random() % 2 == 0;
    p.gamma = double(int(random() % 81) - 40) / 10;
    p.order = random() % 2 ? FieldOrder::reversed : FieldOrder::given;
    p.beta_write = random() % 2 ? 1 : 1.7;
    p.eps = random() % 2 ? 0 : 1e-6;
    s.rows = {0.5, 1.3}, s.columns = {p};
    const auto field = value_field(s);
    CHECK(worst(field->reference->value, twin_attention(s, s.keys, 1 / s.tau, field->x, field->y)) <= 1e-12);
    for (size_t row = 0; row < 2; ++row) {
      const Twin twin = twin_ramnet(s, p, s.rows[row], field->x, field->y);
      const FieldResult& got = field->at(row, 0);
      const size_t C = size_t(s.channels);
      CHECK_EQ(got.value.size(), 25 * C);
      for (size_t cell = 0; cell < 25; ++cell) {
        if (twin.tied[cell]) {
          ++tied;
          continue;
        }
        ++compared;
        const auto differ = [&](double a, double b) { most = std::abs(a - b) <= most ? most : std::abs(a - b); };
        for (size_t c = 0; c < C; ++c) differ(got.value[cell * C + c], twin.value[cell * C + c]);
        differ(got.read_mass[cell], twin.read_mass[cell]);
      }
      CHECK_CLOSE(got.mean_read_mass, std::accumulate(got.read_mass.begin(), got.read_mass.end(), 0.0) / 25, 1e-14);
    }
    // A single query gives what its cell has.
    const auto one = value_field_at(s, field->x[3], field->y[1]);
    const size_t cell = 1 * 5 + 3, C = size_t(s.channels);
    CHECK_EQ(one.size(), 3 * C);
    for (size_t c = 0; c < C; ++c) {
      CHECK_CLOSE(one[c], field->reference->value[cell * C + c], 1e-14);
      CHECK_CLOSE(one[2 * C + c], field->at(1, 0).value[cell * C + c], 1e-14);
    }
  }
  CHECK(most <= 1e-12);
  CHECK(compared > 3 * tied);
  t.note("worst error of 600 panels " + testing::to_text(most) + ", cells compared " + testing::to_text(compared) + ", tied at the cut " + testing::to_text(tied));
}

// kappa from its closed form: the product over blocks of Z(beta_r q + beta_w k) / (Z(beta_r q) Z(beta_w k)) (spec: ramnet 2).
SLOTSCOPE_CASE(mass_aware_is_kernel_attention) {
  std::mt19937_64 random(11);
  const auto Z = [](double x, double y, int d) {
    double sum = 0;
    for (int j = 0; j < d; ++j) sum += std::exp(x * std::cos(kTurn * j / d) + y * std::sin(kTurn * j / d));
    return sum / d;
  };
  for (int round = 0; round < 60; ++round) {
    const FieldSpace space = round % 2 ? FieldSpace::plane : FieldSpace::torus;
    FieldSettings s = random_settings(random, space, 6, 1);
    FieldPanel p = ramnet(2 + round % 9, 1000, true);
    p.beta_write = 0.8;
    s.rows = {1.2}, s.columns = {p};
    const auto field = value_field(s);
    const double read = 1.2 * beta_star_of_tau(s.tau), write = 0.8 * read;
    std::vector<double> expected;
    for (const double y : field->y)
      for (const double x : field->x) {
        const auto q = twin_point(space, x, y, s.query_radius);
        double sum = 0, by = 0;
        for (const FieldKey& key : s.keys) {
          const auto k = twin_point(space, key.x, key.y, key.radius);
          double kappa = 1;
          for (size_t u = 0; u < q.size(); u += 2)
            kappa *= Z(read * q[u] + write * k[u], read * q[u + 1] + write * k[u + 1], p.codes) /
                     (Z(read * q[u], read * q[u + 1], p.codes) * Z(write * k[u], write * k[u + 1], p.codes));
          sum += kappa * key.value[0], by += kappa;
        }
        expected.push_back(sum / by);
      }
    CHECK(worst(field->at(0, 0).value, expected) <= 1e-12);
  }
}

// beta_w -> infinity: softmax(beta_r q.k_hat), attention over keys that became their nearest codes (spec: ramnet 2).
SLOTSCOPE_CASE(hard_writes_are_quantised_attention) {
  std::mt19937_64 random(5);
  for (const FieldSpace space : {FieldSpace::torus, FieldSpace::plane})
    for (const int codes : {3, 4, 8}) {
      FieldSettings s = random_settings(random, space, 7, 3);
      FieldPanel hard = ramnet(codes, 1000, true);
      hard.beta_write = kInf;
      FieldPanel near = hard;
      near.beta_write = 9000 / beta_star_of_tau(s.tau);
      s.columns = {hard, near, {.kind = FieldKind::quantised, .codes = codes}};
      const auto field = value_field(s);
      const auto& stored = field->at(0, 2).stored;
      CHECK(worst(field->at(0, 0).value, twin_attention(s, stored, beta_star_of_tau(s.tau), field->x, field->y)) <= 1e-12);
      CHECK(worst(field->at(0, 1).value, field->at(0, 0).value) <= 1e-9);
      // The quantised panel is the same at its own temperature.
      CHECK(worst(field->at(0, 2).value, twin_attention(s, stored, 1 / s.tau, field->x, field->y)) <= 1e-12);
      for (const FieldKey& key : stored) {
        const auto k = twin_point(space, key.x, key.y, key.radius);
        for (size_t u = 0; u < k.size(); u += 2) CHECK_CLOSE(std::hypot(k[u], k[u + 1]), 1, 1e-14);
      }
      // Masses are counts then.
      double sum = 0;
      for (const double m : field->at(0, 0).mass) sum += m, CHECK_EQ(m, std::round(m));
      CHECK_EQ(sum, 7.0);
    }
}

SLOTSCOPE_CASE(limits) {
  std::mt19937_64 random(3);
  FieldSettings s = random_settings(random, FieldSpace::torus, 8, 1);
  // gamma -> -infinity is the cumulative mean, from both sides; +infinity leaves the last value in every slot.
  FieldPanel minus = ramnet(4, 16);
  minus.cumulative = false, minus.gamma = -kInf;
  FieldPanel low = minus, high = minus, plus = minus;
  low.gamma = -40, high.gamma = 60, plus.gamma = kInf;
  s.columns = {ramnet(4, 16), minus, low, high, plus};
  auto field = value_field(s);
  CHECK(worst(field->at(0, 0).value, field->at(0, 1).value) == 0);
  CHECK(worst(field->at(0, 0).value, field->at(0, 2).value) <= 1e-12);
  for (const double v : field->at(0, 4).value) CHECK_CLOSE(v, s.keys.back().value[0], 1e-14);
  CHECK(worst(field->at(0, 3).value, field->at(0, 4).value) <= 1e-12);
  // Order is nothing to the cumulative mean, and something to a forgetting one.
  FieldPanel forget = minus, back;
  forget.gamma = 1, back = forget, back.order = FieldOrder::reversed;
  FieldPanel mean_back = ramnet(4, 16), shuffled = ramnet(4, 16);
  mean_back.order = FieldOrder::reversed, shuffled.order = FieldOrder::shuffled;
  s.columns = {ramnet(4, 16), mean_back, shuffled, forget, back};
  field = value_field(s);
  CHECK(worst(field->at(0, 0).value, field->at(0, 1).value) <= 1e-13);
  CHECK(worst(field->at(0, 0).value, field->at(0, 2).value) <= 1e-13);
  CHECK(worst(field->at(0, 3).value, field->at(0, 4).value) > 0.05);
  // beta = 0: every address is uniform, every query gets the mean of all values; Top-K keeps the lower slots.
  s.rows = {0}, s.columns = {ramnet(4, 16), ramnet(4, 4), ramnet(4, 16, true)};
  s.columns[1].divide = true;
  field = value_field(s);
  double mean = 0;
  for (const FieldKey& key : s.keys) mean += key.value[0] / double(s.keys.size());
  for (size_t column = 0; column < 3; ++column)
    for (const double v : field->at(0, column).value) CHECK_CLOSE(v, mean, 1e-14);
  for (const double m : field->at(0, 1).read_mass) CHECK_CLOSE(m, 0.25, 1e-15);
  for (size_t slot = 0; slot < 16; ++slot) CHECK_EQ(field->at(0, 1).mass[slot] > 0, slot < 4);
  // An infinite beta on both sides: the value of the cell of codes that the query is in, or nothing there.
  s.rows = {1};
  FieldPanel hard = ramnet(4, 16, true);
  hard.beta_read = hard.beta_write = kInf;
  s.columns = {hard};
  field = value_field(s);
  CHECK(field->at(0, 0).empty_cells > 0);
  CHECK_EQ(int64_t(std::count(field->at(0, 0).read_mass.begin(), field->at(0, 0).read_mass.end(), 0.0)), field->at(0, 0).empty_cells);
  const auto& sure = field->at(0, 0);
  for (size_t cell = 0; cell < sure.value.size(); ++cell) {
    const auto code = [](double angle) { return int(std::lround(angle / (kTurn / 4))) % 4; };
    const int slot = code(field->x[cell % 5]) + 4 * code(field->y[cell / 5]);
    double sum = 0, count = 0;
    for (const FieldKey& key : s.keys)
      if (code(key.x) + 4 * code(key.y) == slot) sum += key.value[0], ++count;
    CHECK_CLOSE(sure.value[cell], count > 0 ? sum / count : 0, 1e-14);
  }
}

SLOTSCOPE_CASE(linear_attention) {
  std::mt19937_64 random(19);
  for (const FieldSpace space : {FieldSpace::torus, FieldSpace::plane}) {
    FieldSettings s = random_settings(random, space, 9, 3);
    s.columns = {{.kind = FieldKind::linear_elu}, {.kind = FieldKind::linear_features, .features = 32, .seed = 4},
                 {.kind = FieldKind::linear_features, .features = 4096, .seed = 4}};
    const auto field = value_field(s);
    const auto phi = [](double x) { return x > 0 ? x + 1 : std::exp(x); };
    std::vector<double> expected;
    for (const double y : field->y)
      for (const double x : field->x) {
        const auto q = twin_point(space, x, y, s.query_radius);
        std::array<double, 3> sum{};
        double by = 0;
        for (const FieldKey& key : s.keys) {
          const auto k = twin_point(space, key.x, key.y, key.radius);
          double w = 0;
          for (size_t i = 0; i < q.size(); ++i) w += phi(q[i]) * phi(k[i]);
          by += w;
          for (size_t c = 0; c < 3; ++c) sum[c] += w * key.value[c];
        }
        for (const double v : sum) expected.push_back(v / by);
      }
    CHECK(worst(field->at(0, 0).value, expected) <= 1e-13);
    // Random features are unbiased: many come close to softmax, and closer than few.
    CHECK(field->at(0, 2).rmse < 0.05);
    CHECK(field->at(0, 2).rmse < field->at(0, 1).rmse);
    // However small tau is, nothing overflows: values stay means of the keys' values.
    s.tau = 1e-4;
    const auto sharp = value_field(s);
    for (const double v : sharp->at(0, 1).value) CHECK(v >= 0 && v <= 1);
  }
}

SLOTSCOPE_CASE(quantised_keys_and_values) {
  std::mt19937_64 random(23);
  FieldSettings s = random_settings(random, FieldSpace::torus, 10, 1);
  s.columns = {{.kind = FieldKind::quantised, .codes = 10, .quantiser = FieldQuantiser::kmeans},
               {.kind = FieldKind::quantised, .codes = 3, .quantiser = FieldQuantiser::kmeans, .seed = 2},
               {.kind = FieldKind::quantised, .quantiser = FieldQuantiser::none, .value_bits = 1},
               {.kind = FieldKind::quantised, .quantiser = FieldQuantiser::none, .value_bits = 16}};
  const auto field = value_field(s);
  CHECK(worst(field->at(0, 0).value, field->reference->value) <= 1e-12);  // as many centroids as keys
  // Three centroids, each the mean of its own keys and the nearest one of them.
  std::vector<std::vector<double>> centre;
  const auto& stored = field->at(0, 1).stored;
  for (const FieldKey& key : stored) {
    const auto point = twin_point(s.space, key.x, key.y, key.radius);
    if (std::none_of(centre.begin(), centre.end(), [&](const auto& c) { return worst(c, point) <= 1e-12; })) centre.push_back(point);
  }
  CHECK_EQ(centre.size(), size_t(3));
  for (const auto& c : centre) {
    std::vector<double> mean(4);
    double count = 0;
    for (size_t i = 0; i < stored.size(); ++i) {
      if (worst(c, twin_point(s.space, stored[i].x, stored[i].y, stored[i].radius)) > 1e-12) continue;
      const auto own = twin_point(s.space, s.keys[i].x, s.keys[i].y, s.keys[i].radius);
      for (size_t k = 0; k < 4; ++k) mean[k] += own[k];
      ++count;
    }
    for (double& m : mean) m /= count;
    CHECK(worst(mean, c) <= 1e-12);
  }
  // One bit: the least and the greatest value alone. Sixteen: within half a step.
  const auto [low, high] = std::minmax_element(s.keys.begin(), s.keys.end(), [](const auto& a, const auto& b) { return a.value[0] < b.value[0]; });
  for (size_t i = 0; i < s.keys.size(); ++i) {
    const double one = field->at(0, 2).stored[i].value[0], middle = (low->value[0] + high->value[0]) / 2;
    CHECK_CLOSE(one, s.keys[i].value[0] < middle ? low->value[0] : high->value[0], 1e-15);
    CHECK_CLOSE(field->at(0, 3).stored[i].value[0], s.keys[i].value[0], 0.5 / 65535);
  }
}

SLOTSCOPE_CASE(cancel_and_cache) {
  std::mt19937_64 random(29);
  FieldSettings s = random_settings(random, FieldSpace::torus, 8, 3);
  s.grid = 24, s.rows = {0.5, 1, 2}, s.columns = {ramnet(4, 4), ramnet(16, 20, true), ramnet(4, 16)};
  Progress stop;
  stop.request_cancel();
  CHECK(value_field(s, &stop) == nullptr);
  FieldCache cache;
  CHECK(value_field(s, &stop, &cache) == nullptr);
  for (int round = 0; round < 3; ++round) {
    const auto with = value_field(s, nullptr, &cache), without = value_field(s);
    for (size_t i = 0; i < with->panels.size(); ++i) {
      CHECK(with->panels[i]->value == without->panels[i]->value);
      CHECK(with->panels[i]->read_mass == without->panels[i]->read_mass);
    }
    s.keys[3].x += 0.3;
    if (round == 1) s.query_radius[1] *= 1.1, s.rows[1] = 1.01;
  }
}

SLOTSCOPE_CASE(bad_settings) {
  std::mt19937_64 random(31);
  const FieldSettings good = [&] {
    FieldSettings s = random_settings(random, FieldSpace::torus, 4, 1);
    s.columns = {ramnet(4, 16)};
    return s;
  }();
  CHECK_EQ(field_problem(good), std::string());
  const auto refused = [&](auto change, std::initializer_list<std::string> words) {
    FieldSettings s = good;
    change(s);
    std::string text;
    try {
      value_field(s);
    } catch (const Error& e) {
      text = e.what();
      CHECK(e.kind() == Error::Kind::usage);
    }
    for (const std::string& word : words)
      if (text.find(word) == std::string::npos) t.fail("message lacks '" + word + "': " + text, __FILE__, __LINE__);
  };
  const double nan = std::nan("");
  refused([](auto& s) { s.columns[0].codes = 1; }, {"column 1", "1 codes", "at least 2", "says nothing"});
  refused([](auto& s) { s.columns[0].codes = 257; }, {"257 codes", "at most 256"});
  refused([](auto& s) { s.columns[0].codes = -3; }, {"-3 codes", "at least 2"});
  refused([](auto& s) { s.columns[0].top_k = 0; }, {"Top-K is 0", "at least 1"});
  refused([&](auto& s) { s.columns[0].gamma = nan; }, {"gamma is not a number", "cumulative"});
  refused([&](auto& s) { s.columns[0].beta_read = nan; }, {"beta is nan"});
  refused([](auto& s) { s.columns[0].beta_write = -1; }, {"beta is -1", "0 or more"});
  refused([](auto& s) { s.rows = {0}, s.columns[0].beta_write = kInf; }, {"0 times infinity"});
  refused([](auto& s) { s.rows = {1e7}; }, {"at most 10000", "inf"});
  refused([](auto& s) { s.rows = {-1}; }, {"row", "-1"});
  refused([&](auto& s) { s.columns[0].eps = nan; }, {"eps"});
  refused([](auto& s) { s.keys.clear(); }, {"no keys"});
  refused([](auto& s) { s.keys.resize(4097); }, {"4097 keys", "at most 4096"});
  refused([&](auto& s) { s.keys[2].x = nan; }, {"key 2", "nan"});
  refused([](auto& s) { s.keys[1].value[0] = kInf; }, {"key 1", "inf"});
  refused([](auto& s) { s.keys[1].radius[1] = -1; }, {"key 1", "-1"});
  refused([](auto& s) { s.tau = 0; }, {"tau is 0"});
  refused([&](auto& s) { s.tau = nan; }, {"tau is nan"});
  refused([](auto& s) { s.grid = 0; }, {"grid of 0"});
  refused([](auto& s) { s.grid = 2000000000; }, {"grid of 2000000000", "1 to 1024"});
  refused([](auto& s) { s.channels = 2; }, {"2 channels"});
  refused([](auto& s) { s.columns.clear(); }, {"no panels"});
  refused([](auto& s) { s.grid = 1024, s.columns.resize(200); }, {"200 panels", "coarser"});
  refused([](auto& s) { s.space = FieldSpace::plane, s.extent = 0; }, {"plane reaches to 0"});
  refused([](auto& s) { s.columns[0].kind = FieldKind::quantised, s.columns[0].value_bits = 17; }, {"17 bits"});
  refused([](auto& s) { s.columns[0].kind = FieldKind::linear_features, s.columns[0].features = 0; }, {"0 random features"});
  // K beyond the number of slots keeps all, as K = M does.
  FieldSettings more = good, all = good;
  more.columns[0].top_k = int64_t(1) << 60;
  CHECK(value_field(more)->at(0, 0).value == value_field(all)->at(0, 0).value);
}
