#include "core/analysis/value_field_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <cstdio>
#include <numeric>

#include "core/analysis/trace_access.h"
#include "core/analysis/value_field_parts.h"
#include "core/error.h"
#include "core/trace/layer_rule.h"

namespace slotscope::analysis {

namespace {

constexpr int64_t kDefaultKeys = 64;
constexpr double kTurn = 2 * std::numbers::pi;

[[noreturn]] void refuse(const std::string& item, const std::string& found, const std::string& expected) {
  throw Error({.item = item, .found = found, .expected = expected}, Error::Kind::usage);
}

std::vector<double> column_means(const std::vector<double>& rows, size_t width) {
  std::vector<double> mean(width);
  const size_t n = rows.size() / width;
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k < width; ++k) mean[k] += rows[i * width + k] / double(n);
  return mean;
}

// The share of the variance of `rows` that `axes` ([count, width], orthonormal) hold.
double held_variance(const std::vector<double>& rows, const std::vector<double>& mean, const std::vector<double>& axes, size_t width) {
  double all = 0, held = 0;
  for (size_t i = 0; i < rows.size(); i += width) {
    for (size_t k = 0; k < width; ++k) all += (rows[i + k] - mean[k]) * (rows[i + k] - mean[k]);
    for (size_t a = 0; a < axes.size(); a += width) {
      double dot = 0;
      for (size_t k = 0; k < width; ++k) dot += axes[a + k] * (rows[i + k] - mean[k]);
      held += dot * dot;
    }
  }
  return all > 0 ? held / all : 1;
}

// The first `count` principal axes of rows around their mean, [count, width]; the sign makes the largest entry positive.
std::vector<double> principal_axes(const std::vector<double>& rows, const std::vector<double>& mean, size_t width, size_t count) {
  std::vector<double> covariance(width * width);
  for (size_t i = 0; i < rows.size(); i += width)
    for (size_t a = 0; a < width; ++a)
      for (size_t b = 0; b < width; ++b) covariance[a * width + b] += (rows[i + a] - mean[a]) * (rows[i + b] - mean[b]);
  const Eigen eigen = symmetric_eigen(std::move(covariance), width);
  std::vector<double> axes(eigen.vector.begin(), eigen.vector.begin() + std::ptrdiff_t(count * width));
  for (size_t a = 0; a < axes.size(); a += width) {
    size_t most = 0;
    for (size_t k = 1; k < width; ++k)
      if (std::abs(axes[a + k]) > std::abs(axes[a + most])) most = k;
    if (axes[a + most] < 0)
      for (size_t k = 0; k < width; ++k) axes[a + k] = -axes[a + k];
  }
  return axes;
}

std::vector<double> unit_axes(const std::vector<int64_t>& coordinates, size_t width) {
  std::vector<double> axes(coordinates.size() * width);
  for (size_t i = 0; i < coordinates.size(); ++i) axes[i * width + size_t(coordinates[i])] = 1;
  return axes;
}

std::vector<double> projected(const std::vector<double>& rows, const std::vector<double>& minus, const std::vector<double>& axes, size_t width) {
  std::vector<double> out;
  for (size_t i = 0; i < rows.size(); i += width)
    for (size_t a = 0; a < axes.size(); a += width) {
      double dot = 0;
      for (size_t k = 0; k < width; ++k) dot += axes[a + k] * (rows[i + k] - minus[k]);
      out.push_back(dot);
    }
  return out;
}

// 1 - (variance over keys of what the projection loses of q.k) / (variance over keys of q.k), both summed over queries. What is
// the same for all keys of a query is nothing to a softmax.
double held_scores(const std::vector<double>& query, const std::vector<double>& key, const std::vector<double>& axes, size_t width) {
  const size_t n = key.size() / width, m = query.size() / width, count = axes.size() / width;
  const std::vector<double> zero(width);
  const auto q = projected(query, zero, axes, width), k = projected(key, zero, axes, width);
  double all = 0, lost = 0;
  std::vector<double> full(n), rest(n);
  for (size_t t = 0; t < m; ++t) {
    for (size_t s = 0; s < n; ++s) {
      full[s] = std::inner_product(query.begin() + std::ptrdiff_t(t * width), query.begin() + std::ptrdiff_t((t + 1) * width), key.begin() + std::ptrdiff_t(s * width), 0.0);
      double kept = 0;
      for (size_t a = 0; a < count; ++a) kept += q[t * count + a] * k[s * count + a];
      rest[s] = full[s] - kept;
    }
    const auto variance = [n](const std::vector<double>& v) {
      const double mean = std::accumulate(v.begin(), v.end(), 0.0) / double(n);
      double sum = 0;
      for (const double x : v) sum += (x - mean) * (x - mean);
      return sum;
    };
    all += variance(full), lost += variance(rest);
  }
  return all > 0 ? 1 - lost / all : 1;
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + std::ptrdiff_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

// The coordinates that a projection takes as they are; empty for PCA.
std::vector<int64_t> coordinates_of(const FieldHead& head, const FieldProjection& p) {
  const int64_t blocks = head.width / 2, limit = p.kind == FieldProjection::Kind::pair ? head.width : blocks;
  if (p.kind == FieldProjection::Kind::pca) return {};
  const char* what = p.kind == FieldProjection::Kind::pair ? "coordinate" : "block";
  for (const int64_t i : {p.a, p.b})
    if (i < 0 || i >= limit) refuse(what, std::to_string(i), "0 to " + std::to_string(limit - 1));
  if (p.a == p.b) refuse(what, std::to_string(p.a) + " twice", "two different ones");
  if (p.kind == FieldProjection::Kind::pair) return {p.a, p.b};
  if (p.halves) return {p.a, p.a + blocks, p.b, p.b + blocks};
  return {2 * p.a, 2 * p.a + 1, 2 * p.b, 2 * p.b + 1};
}

void put_values(const FieldHead& head, const FieldProjection& p, size_t first, size_t last, ProjectedHead& out) {
  const size_t width = size_t(head.value_width), want = p.rgb ? 3 : 1, count = std::min(want, width);
  const std::vector<double> rows(head.value.begin() + std::ptrdiff_t(first * width), head.value.begin() + std::ptrdiff_t(last * width));
  const auto mean = column_means(rows, width);
  const auto axes = principal_axes(rows, mean, width, count);
  const auto v = projected(rows, mean, axes, width);
  out.value_variance = held_variance(rows, mean, axes, width);
  out.settings.channels = int(want);
  for (size_t c = 0; c < count; ++c) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (size_t i = c; i < v.size(); i += count) low = std::min(low, v[i]), high = std::max(high, v[i]);
    for (size_t i = 0; i < out.settings.keys.size(); ++i)
      out.settings.keys[i].value[c] = high > low ? (v[i * count + c] - low) / (high - low) : 0.5;
  }
}

}  // namespace

Eigen symmetric_eigen(std::vector<double> a, size_t n) {
  std::vector<double> v(n * n);
  for (size_t i = 0; i < n; ++i) v[i * n + i] = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0, all = 0;
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) all += a[i * n + j] * a[i * n + j], off += i != j ? a[i * n + j] * a[i * n + j] : 0;
    if (!(off > 1e-30 * all)) break;
    for (size_t p = 0; p < n; ++p)
      for (size_t q = p + 1; q < n; ++q) {
        if (a[p * n + q] == 0) continue;
        const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
        const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1)), c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (size_t k = 0; k < n; ++k) {
          const double x = a[k * n + p], y = a[k * n + q];
          a[k * n + p] = c * x - s * y, a[k * n + q] = s * x + c * y;
        }
        for (size_t k = 0; k < n; ++k) {
          const double x = a[p * n + k], y = a[q * n + k];
          a[p * n + k] = c * x - s * y, a[q * n + k] = s * x + c * y;
        }
        for (size_t k = 0; k < n; ++k) {
          const double x = v[p * n + k], y = v[q * n + k];
          v[p * n + k] = c * x - s * y, v[q * n + k] = s * x + c * y;
        }
      }
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return a[x * n + x] > a[y * n + y]; });
  Eigen out;
  for (const size_t i : order) {
    out.value.push_back(a[i * n + i]);
    out.vector.insert(out.vector.end(), v.begin() + std::ptrdiff_t(i * n), v.begin() + std::ptrdiff_t((i + 1) * n));
  }
  return out;
}

FieldHead load_field_head(const trace::Trace& trace, int run, int layer, int head, Progress* progress) {
  const trace::LayerSpec& spec = layer_spec(trace, run, layer);
  const trace::RunInfo& info = trace.run(run);
  const std::string at = "layers/" + std::to_string(spec.index) + "/", file = trace.path().string();
  const auto find = [&](const char* field) { return info.find(at + field); };
  const bool rotated = find("query_rot") && find("key_rot");
  const auto *query = find(rotated ? "query_rot" : "query"), *key = find(rotated ? "key_rot" : "key"), *value = find("value");
  if (!query || !key || !value)
    throw Error({.file = file, .item = "layer " + std::to_string(layer), .found = std::string(!query ? "query" : !key ? "key" : "value") + " not captured",
                 .advice = "Run again with --capture query,key,value,query_rot,key_rot"});
  if (head < 0 || head >= spec.heads)
    throw Error({.file = file, .item = "head " + std::to_string(head), .found = "not in this layer", .expected = "0 to " + std::to_string(spec.heads - 1)}, Error::Kind::usage);
  const int group = int(std::max<int64_t>(1, spec.heads / std::max<int64_t>(1, spec.route_heads))), key_head = head / group;
  const int64_t query_place = head_place(spec, "captured_heads", head), key_place = head_place(spec, "captured_route_heads", key_head);
  for (const auto* d : {query, key, value})
    if (d->shape.size() != 3 || d->shape[0] != query->shape[0])
      throw Error({.file = file, .item = d->path, .found = "another shape than query has", .expected = "[tokens, heads, width]"});
  if (query_place < 0 || query_place >= query->shape[1] || key_place < 0 || key_place >= key->shape[1] || key_place >= value->shape[1])
    throw Error({.file = file, .item = "head " + std::to_string(head), .found = "not captured", .advice = "Run again without --heads"});
  FieldHead out;
  out.rows = query->shape[0], out.width = query->shape[2], out.value_width = value->shape[2];
  if (key->shape[2] != out.width || out.width < 2 || out.width > kMostFieldWidth || out.value_width < 1 || out.value_width > kMostFieldWidth || out.rows < 1)
    throw Error({.file = file, .item = query->path, .found = std::to_string(out.rows) + " tokens of width " + std::to_string(out.width) + ", values of " + std::to_string(out.value_width),
                 .expected = "1 token or more, widths 2 to " + std::to_string(kMostFieldWidth)});
  const auto read = [&](const trace::DatasetInfo& d, int64_t place, int64_t width) {
    auto values = trace.read_head(run, d.path, int(place), 0, -1, progress);
    if (int64_t(values.size()) != out.rows * width) throw Error({.file = file, .item = d.path, .found = std::to_string(values.size()) + " numbers of a head", .expected = std::to_string(out.rows * width)});
    for (const double v : values)
      if (!(std::abs(v) <= 1e6)) throw Error({.file = file, .item = d.path, .found = "a number that is not finite, or beyond 1000000"});
    return values;
  };
  out.query = read(*query, query_place, out.width), out.key = read(*key, key_place, out.width), out.value = read(*value, key_place, out.value_width);
  if (find("token")) out.token = trace.read_int(run, at + "token");
  if (int64_t(out.token.size()) != out.rows) {
    out.token.resize(size_t(out.rows));
    std::iota(out.token.begin(), out.token.end(), int64_t(0));
  }
  // Families that say how they scale q.k; attention's own 1 / sqrt(d_k) else.
  const bool told = std::any_of(spec.attributes.begin(), spec.attributes.end(), [](const auto& a) { return a.first == "scale"; });
  const double scale = told ? trace::layer_rule(spec).scale : 0;
  out.tau = scale > 1e-6 && scale < 1e6 ? 1 / scale : std::sqrt(double(out.width));
  out.rotated = rotated;
  out.name = "layer " + std::to_string(layer) + " head " + std::to_string(head) + (group > 1 ? " (key head " + std::to_string(key_head) + ")" : "");
  return out;
}

ProjectedHead project_head(const FieldHead& head, const FieldProjection& p, const FieldSettings& base) {
  const size_t width = size_t(head.width), first = size_t(std::max<int64_t>(0, p.first));
  const size_t last = size_t(p.last > 0 ? p.last : std::min<int64_t>(head.rows, p.first + kDefaultKeys));
  if (p.first < 0 || last <= first || int64_t(last) > head.rows)
    refuse("rows", std::to_string(p.first) + " to " + std::to_string(p.last), "within the " + std::to_string(head.rows) + " captured tokens");
  if (last - first > size_t(kMostFieldKeys)) refuse("rows", std::to_string(last - first) + " keys", "at most " + std::to_string(kMostFieldKeys));
  const std::vector<double> keys(head.key.begin() + std::ptrdiff_t(first * width), head.key.begin() + std::ptrdiff_t(last * width));
  const auto mean = column_means(keys, width);
  const auto coordinates = coordinates_of(head, p);
  const bool pca = coordinates.empty(), torus = p.kind == FieldProjection::Kind::blocks;
  const auto axes = pca ? principal_axes(keys, mean, width, 2) : unit_axes(coordinates, width);
  const std::vector<double> zero(width);
  // Taking the mean off all keys adds the same to every score of a query, which a softmax does not see.
  const auto k = projected(keys, pca ? mean : zero, axes, width), q = projected(head.query, zero, axes, width);

  ProjectedHead out;
  out.settings = base;
  FieldSettings& s = out.settings;
  s.space = torus ? FieldSpace::torus : FieldSpace::plane;
  s.tau = head.tau;
  s.query_radius = {1, 1};
  s.keys.clear(), s.queries.clear();
  const size_t n = axes.size() / width;
  double reach = 0;
  for (size_t i = 0; i < k.size(); i += n) {
    s.keys.push_back(field_key({k.begin() + std::ptrdiff_t(i), k.begin() + std::ptrdiff_t(i + n)}, s.space));
    if (!torus) reach = std::max({reach, std::abs(k[i]), std::abs(k[i + 1])});
  }
  std::vector<double> length[2];
  for (size_t i = 0; i < q.size(); i += n) {
    const FieldKey at = field_key({q.begin() + std::ptrdiff_t(i), q.begin() + std::ptrdiff_t(i + n)}, s.space);
    s.queries.push_back({at.x, at.y});
    if (!torus) reach = std::max({reach, std::abs(q[i]), std::abs(q[i + 1])});
    length[0].push_back(at.radius[0]), length[1].push_back(at.radius[1]);
  }
  if (torus) s.query_radius = {median(length[0]), median(length[1])};
  s.extent = torus ? FieldSettings().extent : std::clamp(1.08 * reach, 1e-6, 1e4);
  put_values(head, p, first, last, out);

  out.key_variance = held_variance(keys, mean, axes, width);
  out.query_energy = held_variance(head.query, zero, axes, width);
  out.score_variance = held_scores(head.query, keys, axes, width);
  out.left_out = head.name + ", tokens " + std::to_string(head.token[first]) + " to " + std::to_string(head.token[last - 1]) + " as keys, " +
                 (pca ? "two principal axes of the keys" : torus ? "blocks " + std::to_string(p.a) + " and " + std::to_string(p.b) + " of " + std::to_string(width / 2)
                                                                : "coordinates " + std::to_string(p.a) + " and " + std::to_string(p.b) + " of " + std::to_string(width)) +
                 ". They hold " + percent(out.key_variance) + " of the keys' variance, " + percent(out.query_energy) + " of the queries' squared length and " +
                 percent(out.score_variance) + " of the variance of q.k over keys. Values: " + (p.rgb ? "three principal components, " : "the first principal component, ") +
                 percent(out.value_variance) + " of their variance, scaled to 0..1. Left out: all other coordinates" +
                 (torus ? ", how long queries are (all have the median length)" : "") + ", the causal mask" + (head.rotated ? "." : ", positions (before RoPE).");
  s.origin = out.left_out;
  return out;
}

}  // namespace slotscope::analysis
