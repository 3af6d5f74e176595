// Value fields from a captured head: what the projection keeps, and what it says that it leaves out.
#include "core/analysis/value_field_model.h"

#include <cmath>
#include <numeric>
#include <random>

#include "core/analysis/value_field_keys.h"
#include "core/error.h"
#include "tests/cases/analysis/made_trace.h"
#include "tests/cases/case.h"

using namespace slotscope;
using namespace slotscope::analysis;

namespace {

std::vector<double> draws(std::mt19937_64& random, size_t n, double scale = 1) {
  std::vector<double> v;
  for (size_t i = 0; i < n; ++i) v.push_back(scale * (double(random() >> 11) * 0x1p-52 - 1));
  return v;
}

FieldHead made_head(int64_t rows, int64_t width, int64_t value_width, uint64_t seed) {
  std::mt19937_64 random(seed);
  FieldHead h;
  h.rows = rows, h.width = width, h.value_width = value_width;
  h.query = draws(random, size_t(rows * width)), h.key = draws(random, size_t(rows * width)), h.value = draws(random, size_t(rows * value_width));
  h.token.resize(size_t(rows));
  std::iota(h.token.begin(), h.token.end(), int64_t(0));
  h.tau = std::sqrt(double(width)), h.name = "layer 0 head 0";
  return h;
}

FieldSettings base() {
  FieldSettings s;
  s.grid = 8, s.columns = {{.kind = FieldKind::full_attention}, {}};
  return s;
}

}  // namespace

SLOTSCOPE_CASE(eigenvectors) {
  std::mt19937_64 random(2);
  for (const size_t n : {1u, 2u, 3u, 8u, 40u}) {
    std::vector<double> m(n * n);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j <= i; ++j) m[i * n + j] = m[j * n + i] = draws(random, 1)[0];
    const Eigen e = symmetric_eigen(m, n);
    double worst = 0;
    for (size_t a = 0; a < n; ++a) {
      if (a > 0) CHECK(e.value[a] <= e.value[a - 1]);
      for (size_t i = 0; i < n; ++i) {
        double sum = 0;
        for (size_t j = 0; j < n; ++j) sum += m[i * n + j] * e.vector[a * n + j];
        worst = std::max(worst, std::abs(sum - e.value[a] * e.vector[a * n + i]));
      }
      for (size_t b = 0; b <= a; ++b) {
        double dot = 0;
        for (size_t i = 0; i < n; ++i) dot += e.vector[a * n + i] * e.vector[b * n + i];
        worst = std::max(worst, std::abs(dot - double(a == b)));
      }
    }
    CHECK(worst <= 1e-12);
  }
}

// A head that lives in a plane loses nothing: full attention over the projected keys is its own attention.
SLOTSCOPE_CASE(a_planar_head_loses_nothing) {
  FieldHead h = made_head(20, 6, 1, 3);
  // Two directions that are at right angles, the same for queries and keys; keys have a mean far from 0.
  const double e0[6] = {0.6, 0, 0.8, 0, 0, 0}, e1[6] = {0, 1, 0, 0, 0, 0};
  std::vector<double> kx(20), ky(20), qx(20), qy(20);
  for (size_t r = 0; r < 20; ++r) {
    kx[r] = 2 * h.key[r * 6] + 3, ky[r] = 0.5 * h.key[r * 6 + 1] - 1, qx[r] = h.query[r * 6], qy[r] = h.query[r * 6 + 1];
    for (size_t i = 0; i < 6; ++i) h.key[r * 6 + i] = kx[r] * e0[i] + ky[r] * e1[i], h.query[r * 6 + i] = qx[r] * e0[i] + qy[r] * e1[i];
  }
  const ProjectedHead p = project_head(h, {.last = 20}, base());
  CHECK_CLOSE(p.key_variance, 1, 1e-12);
  CHECK_CLOSE(p.query_energy, 1, 1e-12);
  CHECK_CLOSE(p.score_variance, 1, 1e-12);
  CHECK_CLOSE(p.value_variance, 1, 1e-12);
  CHECK_EQ(p.settings.keys.size(), size_t(20));
  CHECK_EQ(p.settings.tau, std::sqrt(6.0));
  double low = 1e9, high = -1e9;
  for (const double v : h.value) low = std::min(low, v), high = std::max(high, v);
  for (size_t r = 0; r < 20; ++r) {
    double sum = 0, by = 0;
    for (size_t s = 0; s < 20; ++s) {
      const double w = std::exp((qx[r] * kx[s] + qy[r] * ky[s]) / std::sqrt(6.0));
      sum += w * h.value[s], by += w;
    }
    const double got = value_field_at(p.settings, p.settings.queries[r][0], p.settings.queries[r][1])[0];
    // The sign of a principal component is chosen, so values may run the other way.
    const double expected = (sum / by - low) / (high - low);
    CHECK(std::abs(got - expected) <= 1e-12 || std::abs(got - (1 - expected)) <= 1e-12);
  }
}

SLOTSCOPE_CASE(pairs_and_blocks_are_the_coordinates) {
  const FieldHead h = made_head(30, 8, 5, 4);
  const ProjectedHead pair = project_head(h, {.kind = FieldProjection::Kind::pair, .a = 2, .b = 7, .first = 3, .last = 9}, base());
  CHECK(pair.settings.space == FieldSpace::plane);
  CHECK_EQ(pair.settings.keys.size(), size_t(6));
  for (size_t i = 0; i < 6; ++i) {
    CHECK_EQ(pair.settings.keys[i].x, h.key[(i + 3) * 8 + 2]);
    CHECK_EQ(pair.settings.keys[i].y, h.key[(i + 3) * 8 + 7]);
  }
  CHECK_EQ(pair.settings.queries.size(), size_t(30));
  CHECK_EQ(pair.settings.queries[11][1], h.query[11 * 8 + 7]);
  for (const auto& [halves, i, j] : {std::tuple{true, 1, 5}, std::tuple{false, 2, 3}}) {
    const ProjectedHead blocks = project_head(h, {.kind = FieldProjection::Kind::blocks, .a = 1, .b = 3, .halves = halves, .rgb = true}, base());
    CHECK(blocks.settings.space == FieldSpace::torus);
    CHECK_EQ(blocks.settings.channels, 3);
    CHECK_EQ(blocks.settings.keys.size(), size_t(30));
    for (size_t s = 0; s < 30; ++s) {
      const FieldKey& key = blocks.settings.keys[s];
      CHECK_CLOSE(key.radius[0] * std::cos(key.x), h.key[s * 8 + size_t(i)], 1e-14);
      CHECK_CLOSE(key.radius[0] * std::sin(key.x), h.key[s * 8 + size_t(j)], 1e-14);
    }
    std::vector<double> length;
    for (size_t t = 0; t < 30; ++t) length.push_back(std::hypot(h.query[t * 8 + size_t(i)], h.query[t * 8 + size_t(j)]));
    std::sort(length.begin(), length.end());
    CHECK_CLOSE(blocks.settings.query_radius[0], length[15], 1e-14);
    CHECK_EQ(field_problem(blocks.settings), std::string());
    CHECK(value_field(blocks.settings) != nullptr);
  }
  // What is kept and what is said.
  CHECK(pair.score_variance < 1);
  CHECK(pair.left_out.find("coordinates 2 and 7 of 8") != std::string::npos);
  CHECK(pair.left_out.find("tokens 3 to 8") != std::string::npos);
  CHECK(pair.left_out.find("causal mask") != std::string::npos);
  for (const auto& key : pair.settings.keys) CHECK(key.value[0] >= 0 && key.value[0] <= 1);
  // All coordinates of a head of width 2 are its plane.
  const FieldHead two = made_head(10, 2, 3, 5);
  CHECK_CLOSE(project_head(two, {.kind = FieldProjection::Kind::pair, .last = 10}, base()).score_variance, 1, 1e-12);
}

SLOTSCOPE_CASE(wrong_choices) {
  const FieldHead h = made_head(10, 8, 2, 6);
  using Kind = FieldProjection::Kind;
  CHECK_ERROR(project_head(h, {.kind = Kind::pair, .a = 0, .b = 8}, base()), "coordinate", "8", "0 to 7");
  CHECK_ERROR(project_head(h, {.kind = Kind::blocks, .a = 0, .b = 4}, base()), "block", "4", "0 to 3");
  CHECK_ERROR(project_head(h, {.kind = Kind::blocks, .a = 2, .b = 2}, base()), "twice");
  CHECK_ERROR(project_head(h, {.first = 5, .last = 3}, base()), "rows", "10 captured tokens");
  CHECK_ERROR(project_head(h, {.last = 11}, base()), "rows");
  CHECK_ERROR(project_head(h, {.first = -1, .last = 3}, base()), "rows");
  // Equal keys and values: no plane is better than another, nothing divides by 0.
  FieldHead flat = h;
  std::fill(flat.key.begin(), flat.key.end(), 0.5), std::fill(flat.value.begin(), flat.value.end(), 2);
  const ProjectedHead p = project_head(flat, {}, base());
  for (const auto& key : p.settings.keys) CHECK(std::abs(key.x) <= 1e-15 && std::abs(key.y) <= 1e-15 && key.value[0] == 0.5);
  CHECK_EQ(field_problem(p.settings), std::string());
}

SLOTSCOPE_CASE(from_a_trace) {
  std::mt19937_64 random(8);
  // Four query heads read two key heads of width 4, values of 3.
  const auto query = draws(random, 12 * 4 * 4), key = draws(random, 12 * 2 * 4), value = draws(random, 12 * 2 * 3);
  testing::MadeLayer layer;
  layer.family = "attention", layer.route_kind = "append", layer.query_heads = 4, layer.route_heads = 2;
  layer.fields = {{"query", "T,H,d_k", {4, 4}, query}, {"key", "T,H_r,d_k", {2, 4}, key}, {"value", "T,H_r,d_v", {2, 3}, value}};
  const auto file = t.temp() / "trace.h5";
  const auto trace = testing::TraceMaker::make(file, {.tokens = 12, .prompt = 12, .roles = std::vector<uint8_t>(12), .layers = {layer}});
  const FieldHead h = load_field_head(*trace, 0, 0, 3);
  CHECK_EQ(h.rows, int64_t(12));
  CHECK_EQ(h.tau, 2.0);
  CHECK(!h.rotated);
  for (size_t i = 0; i < 12; ++i) {
    CHECK_EQ(h.query[i * 4 + 1], query[(i * 4 + 3) * 4 + 1]);
    CHECK_EQ(h.key[i * 4 + 2], key[(i * 2 + 1) * 4 + 2]);
    CHECK_EQ(h.value[i * 3], value[(i * 2 + 1) * 3]);
  }
  CHECK(h.name.find("key head 1") != std::string::npos);
  CHECK(value_field(project_head(h, {}, base()).settings) != nullptr);
  CHECK_ERROR(load_field_head(*trace, 0, 0, 4), "head 4", "0 to 3");
  CHECK_ERROR(load_field_head(*trace, 0, 1, 0), "layer 1");
  testing::MadeLayer without = layer;
  without.fields.pop_back();
  const auto other = testing::TraceMaker::make(t.temp() / "other.h5", {.tokens = 12, .prompt = 12, .roles = std::vector<uint8_t>(12), .layers = {without}});
  CHECK_ERROR(load_field_head(*other, 0, 0, 0), "value not captured", "--capture");
}
