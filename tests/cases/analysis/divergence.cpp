#include "core/analysis/divergence.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>

#include "core/error.h"
#include "tests/cases/analysis/random_vectors.h"
#include "tests/cases/case.h"

using namespace slotscope::analysis;
using nlohmann::json;
using slotscope::Error;
using slotscope::testing::Draw;
using Vector = std::vector<double>;

SLOTSCOPE_CASE(metrics_of_reference) {
  std::ifstream file(t.data("golden/ramnet/reference.json"));
  const json m = json::parse(file)["metrics"];
  Vector js, kl;
  for (const json& row : m["rows"]) {
    const Vector teacher = row["teacher"], student = row["student"];
    js.push_back(js_divergence(teacher, student));
    kl.push_back(forward_kl(teacher, student));
    CHECK_CLOSE(js.back(), row["js_nats"].get<double>(), 1e-12 * js.back());
    CHECK_CLOSE(js.back() / std::numbers::ln2, row["js_bits"].get<double>(), 1e-12 * js.back());
    CHECK_CLOSE(kl.back(), row["forward_kl"].get<double>(), 1e-12 * kl.back());
    CHECK_EQ(js_divergence(student, teacher), js.back());  // symmetric
  }
  CHECK_EQ(js.size(), size_t(5));
  CHECK_CLOSE(mean_over_rows(js, 0).mean, m["mean_js_nats"].get<double>(), 1e-12 * 0.16);
  CHECK_CLOSE(mean_over_rows(kl, 0).mean, m["mean_forward_kl"].get<double>(), 1e-12 * 0.79);
  const json& n = m["nmse"];
  CHECK_CLOSE(nmse(n["output"].get<Vector>(), n["target"].get<Vector>()), n["value"].get<double>(), 1e-12 * 2.03);
}

SLOTSCOPE_CASE(divergence_limits) {
  const Vector p{1, 0, 0}, q{0, 1, 0}, even{1.0 / 3, 1.0 / 3, 1.0 / 3};
  CHECK_CLOSE(js_divergence(p, q), std::numbers::ln2, 1e-16);  // disjoint: the most there is
  CHECK_EQ(js_divergence(p, p), 0.0);
  CHECK_EQ(forward_kl(p, p), 0.0);
  CHECK_CLOSE(forward_kl(p, even), std::log(3.0), 1e-15);
  CHECK(std::isinf(forward_kl(even, p)));
  CHECK_EQ(forward_kl(Vector{1}, Vector{1}), 0.0);
  // Nearly equal: JS = sum (p - q)^2 / (8 p) to first order, far below what log(p/m) keeps.
  const double e = 1e-9;
  CHECK_CLOSE(js_divergence(Vector{0.5 + e, 0.5 - e}, Vector{0.5, 0.5}), e * e / 2, 1e-6 * e * e);
}

SLOTSCOPE_CASE(divergence_by_definition) {
  Draw draw(9);
  for (int i = 0; i < 2000; ++i) {
    Vector p(2 + draw.below(20)), q(p.size());
    for (size_t j = 0; j < p.size(); ++j) {
      p[j] = draw.below(5) ? std::pow(10, draw.between(-6, 0)) : 0;
      q[j] = draw.below(5) ? std::pow(10, draw.between(-6, 0)) : 0;
    }
    p[0] = q[1] = 0.1;
    p = *normalised(p), q = *normalised(q);
    long double js = 0;
    for (size_t j = 0; j < p.size(); ++j) {
      const long double m = ((long double)p[j] + q[j]) / 2;
      if (p[j] > 0) js += p[j] * std::log(p[j] / m) / 2;
      if (q[j] > 0) js += q[j] * std::log(q[j] / m) / 2;
    }
    CHECK_CLOSE(js_divergence(p, q), double(js), 1e-15);
    CHECK(js_divergence(p, q) <= std::numbers::ln2 + 1e-15);
    CHECK(forward_kl(p, q) >= 2 * js_divergence(p, q) * js_divergence(p, q) - 1e-15);  // Pinsker, and JS <= total variation * ln 2
  }
}

SLOTSCOPE_CASE(rows) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const RowMean m = mean_over_rows(Vector{9, 1, nan, 3});
  CHECK_EQ(m.mean, 2.0);
  CHECK_EQ(m.rows, int64_t(2));
  CHECK_EQ(m.skipped, int64_t(1));
  CHECK(std::isnan(mean_over_rows(Vector{1}).mean));
  CHECK_EQ(mean_over_rows(Vector{}).rows, int64_t(0));
  CHECK(!normalised(Vector{0, 0}));
  CHECK_EQ(*normalised(Vector{1, 3}), (Vector{0.25, 0.75}));
  CHECK_EQ(*normalised(Vector{1e308, 1e308}), (Vector{0.5, 0.5}));
  CHECK_EQ(nmse(Vector{0, 0}, Vector{3, 4}), 1.0);
  CHECK_EQ(nmse(Vector{3, 4}, Vector{3, 4}), 0.0);
  CHECK(std::isinf(nmse(Vector{1}, Vector{0})));
  CHECK(std::isnan(nmse(Vector{0}, Vector{0})));
}

SLOTSCOPE_CASE(bad_rows) {
  CHECK_ERROR(js_divergence(Vector{1}, Vector{0.5, 0.5}), "2 values beside 1");
  CHECK_ERROR(js_divergence(Vector{}, Vector{}), "at least one");
  CHECK_ERROR(js_divergence(Vector{0.5, 0.5}, Vector{1.5, -0.5}), "second distribution, value 1", "0 or more");
  CHECK_ERROR(forward_kl(Vector{0.5, 0.5}, Vector{0.2, 0.2}), "student", "0.4", "Normalise");
  CHECK_ERROR(forward_kl(Vector{0, 0}, Vector{1, 0}), "teacher", "missing mass");
  CHECK_ERROR(forward_kl(Vector{std::nan(""), 1}, Vector{1, 0}), "teacher, value 0", "nan");
  CHECK_ERROR(normalised(Vector{INFINITY}), "value 0", "inf");
  CHECK_ERROR(nmse(Vector{1}, Vector{}), "0 of the target");
}
