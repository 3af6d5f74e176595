// What the panels of a value field store: quantised keys and values, feature sums, slots.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "core/analysis/product_code.h"
#include "core/analysis/value_field_parts.h"
#include "core/formats/random.h"
#include "kernels/address_decode.h"
#include "kernels/address_gate.h"

namespace slotscope::analysis {

namespace {

constexpr double kTurn = 2 * std::numbers::pi;

double unit(formats::SplitMix64& random) { return double(random.next() >> 11) * 0x1p-53; }  // [0, 1)

// Standard normal numbers (Box and Muller 1958), two per pair of draws.
class Normal {
 public:
  explicit Normal(uint64_t seed) : random_(seed) {}
  double next() {
    if (has_second_) {
      has_second_ = false;
      return second_;
    }
    const double length = std::sqrt(-2 * std::log(1 - unit(random_))), angle = kTurn * unit(random_);
    second_ = length * std::sin(angle);
    has_second_ = true;
    return length * std::cos(angle);
  }

 private:
  formats::SplitMix64 random_;
  double second_ = 0;
  bool has_second_ = false;
};

double distance2(const double* a, const double* b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

size_t nearest(const double* point, const std::vector<double>& centre, size_t width) {
  size_t best = 0;
  double least = distance2(point, centre.data(), width);
  for (size_t c = 1; c * width < centre.size(); ++c)
    if (const double d = distance2(point, &centre[c * width], width); d < least) least = d, best = c;
  return best;
}

// k-means++ (Arthur and Vassilvitskii 2007): the next centre is drawn by the squared distance to those there are. Fewer than
// `codes` when every point is a centre already.
std::vector<double> first_centres(const std::vector<double>& points, size_t width, int codes, uint64_t seed) {
  const size_t n = points.size() / width;
  formats::SplitMix64 random(seed);
  const size_t first = size_t(random.below(n));
  std::vector<double> centre(points.begin() + std::ptrdiff_t(first * width), points.begin() + std::ptrdiff_t((first + 1) * width));
  std::vector<double> gap(n, std::numeric_limits<double>::infinity());
  while (centre.size() < size_t(codes) * width) {
    double total = 0;
    for (size_t i = 0; i < n; ++i) {
      gap[i] = std::min(gap[i], distance2(&points[i * width], &centre[centre.size() - width], width));
      total += gap[i];
    }
    if (!(total > 0)) break;
    double left = unit(random) * total;
    size_t chosen = n;
    for (size_t i = 0; i < n; ++i) {
      if (!(gap[i] > 0)) continue;
      chosen = i;
      if ((left -= gap[i]) < 0) break;
    }
    centre.insert(centre.end(), points.begin() + std::ptrdiff_t(chosen * width), points.begin() + std::ptrdiff_t((chosen + 1) * width));
  }
  return centre;
}

// Lloyd's algorithm until nothing moves to another centre, at most 100 rounds. A centre that loses all its points stays.
std::vector<double> kmeans(const std::vector<double>& points, size_t width, int codes, uint64_t seed) {
  auto centre = first_centres(points, width, codes, seed);
  const size_t n = points.size() / width;
  std::vector<size_t> owner(n, SIZE_MAX);
  for (int round = 0; round < 100; ++round) {
    bool moved = false;
    std::vector<double> sum(centre.size());
    std::vector<int64_t> count(centre.size() / width);
    for (size_t i = 0; i < n; ++i) {
      const size_t c = nearest(&points[i * width], centre, width);
      moved = moved || c != owner[i];
      owner[i] = c;
      ++count[c];
      for (size_t k = 0; k < width; ++k) sum[c * width + k] += points[i * width + k];
    }
    if (!moved) break;
    for (size_t c = 0; c < count.size(); ++c)
      for (size_t k = 0; k < width && count[c] > 0; ++k) centre[c * width + k] = sum[c * width + k] / double(count[c]);
  }
  return centre;
}

// The nearest code of a planar block by its dot product (codes have length 1), ties to the lower code.
void to_nearest_code(double* block, const CircularCodebook& book) {
  double best_x = 1, best_y = 0, most = -std::numeric_limits<double>::infinity();
  for (size_t j = 0; j < book.cos.size(); ++j) {
    const double x = book.cos[j], y = book.sin[j], dot = x * block[0] + y * block[1];
    if (dot > most) most = dot, best_x = x, best_y = y;
  }
  block[0] = best_x, block[1] = best_y;
}

void quantise_values(std::vector<FieldKey>& keys, int channels, int bits) {
  if (bits == 0) return;
  const double steps = std::exp2(bits) - 1;
  for (int c = 0; c < channels; ++c) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const FieldKey& k : keys) low = std::min(low, k.value[size_t(c)]), high = std::max(high, k.value[size_t(c)]);
    if (!(high > low)) continue;
    for (FieldKey& k : keys) {
      double& v = k.value[size_t(c)];
      v = low + std::round((v - low) / (high - low) * steps) / steps * (high - low);
    }
  }
}

std::vector<size_t> write_order(const FieldPanel& panel, size_t n) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t(0));
  if (panel.order == FieldOrder::reversed) std::reverse(order.begin(), order.end());
  if (panel.order == FieldOrder::shuffled) {
    formats::SplitMix64 random(panel.seed);
    for (size_t i = n; i > 1; --i) std::swap(order[i - 1], order[size_t(random.below(i))]);
  }
  return order;
}

// The sparse address of one key: its kept slots with their weights.
struct Address {
  std::vector<int32_t> slot;
  std::vector<double> weight;
};

class KeyAddresses {
 public:
  KeyAddresses(FieldSpace space, int codes, int64_t top_k, double beta)
      : space_(space), codes_(codes), factors_(field_factors(space)), slots_(field_slots(space, codes)), beta_(beta),
        hard_(std::isinf(beta)), book_(circular_codebook(codes)), logit_(size_t(codes) * size_t(factors_)), log_p_(logit_.size()) {
    const int64_t kept = std::min(top_k, slots_);
    address_.slot.resize(size_t(kept)), address_.weight.resize(size_t(kept));
  }

  const Address& of(const FieldKey& key) {
    const auto point = field_point(key, space_);
    for (int u = 0; u < factors_; ++u) {
      double* logit = &logit_[size_t(u) * size_t(codes_)];
      for (int j = 0; j < codes_; ++j)
        logit[j] = (hard_ ? 1 : beta_) * (book_.cos[size_t(j)] * point[size_t(2 * u)] + book_.sin[size_t(j)] * point[size_t(2 * u + 1)]);
      if (!hard_) continue;
      const double most = *std::max_element(logit, logit + codes_);
      for (int j = 0; j < codes_; ++j) logit[j] = logit[j] == most ? 0 : -std::numeric_limits<double>::infinity();
    }
    if (int64_t(address_.slot.size()) == slots_)
      all();
    else
      best();
    return address_;
  }

 private:
  void all() {
    for (int u = 0; u < factors_; ++u)
      kernels::log_softmax(&logit_[size_t(u) * size_t(codes_)], codes_, &log_p_[size_t(u) * size_t(codes_)]);
    for (int64_t a = 0; a < slots_; ++a) {
      address_.slot[size_t(a)] = int32_t(a);
      const double first = log_p_[size_t(a % codes_)];
      address_.weight[size_t(a)] = std::exp(factors_ == 1 ? first : first + log_p_[size_t(codes_ + a / codes_)]);
    }
  }
  void best() {
    kernels::AddressDecodeInput<double> in;
    in.logit = logit_.data();
    in.batch = in.tokens = in.heads = 1;
    in.factors = factors_, in.codes = codes_, in.top_k = int(address_.slot.size());
    kernels::AddressDecodeOutput<double> out;
    out.slot = address_.slot.data(), out.weight = address_.weight.data();
    kernels::select_addresses_cpu(in, out, 0, 1);
  }

  FieldSpace space_;
  int codes_, factors_;
  int64_t slots_;
  double beta_;
  bool hard_;
  CircularCodebook book_;
  std::vector<double> logit_, log_p_;
  Address address_;
};

}  // namespace

std::vector<FieldKey> quantised_keys(const FieldSettings& settings, const FieldPanel& panel) {
  std::vector<FieldKey> keys = settings.keys;
  const auto move_to = [&](FieldKey& key, const std::vector<double>& point) {
    const auto value = key.value;
    key = field_key(point, settings.space);
    key.value = value;
  };
  if (panel.quantiser == FieldQuantiser::circular) {
    const CircularCodebook book = circular_codebook(panel.codes);
    for (FieldKey& key : keys) {
      auto point = field_point(key, settings.space);
      for (size_t at = 0; at < point.size(); at += 2) to_nearest_code(&point[at], book);
      move_to(key, point);
    }
  } else if (panel.quantiser == FieldQuantiser::kmeans) {
    std::vector<double> points;
    for (const FieldKey& key : keys) {
      const auto point = field_point(key, settings.space);
      points.insert(points.end(), point.begin(), point.end());
    }
    const size_t width = points.size() / keys.size();
    const auto centre = kmeans(points, width, panel.codes, panel.seed);
    for (size_t i = 0; i < keys.size(); ++i) {
      const double* at = &centre[nearest(&points[i * width], centre, width) * width];
      move_to(keys[i], {at, at + width});
    }
  }
  quantise_values(keys, settings.channels, panel.value_bits);
  return keys;
}

FieldTerms feature_terms(const FieldSettings& settings, const FieldPanel& panel, const FieldAxes& axes) {
  const size_t F = size_t(panel.features), width = size_t(axes.width), wide = 2 * width, C = size_t(settings.channels);
  std::vector<double> omega(F * wide);
  Normal normal(panel.seed);
  for (double& w : omega) w = normal.next() / std::sqrt(settings.tau);
  // log phi of a part, without the factor that is the same for all features of a query.
  FieldTerms terms;
  const auto table = [&](const std::vector<double>& part, size_t from) {
    return part_scores(part, axes.width, omega, int(from), 1);
  };
  terms.score_x = table(axes.x_part, 0), terms.score_y = table(axes.y_part, width);
  terms.payload.assign(F * C, 0), terms.weight.assign(F, 0);
  std::vector<double> log_phi(settings.keys.size());
  std::vector<std::vector<double>> points;
  for (const FieldKey& key : settings.keys) points.push_back(field_point(key, settings.space));
  for (size_t f = 0; f < F; ++f) {
    // Relative to the largest, which moves into the queries' table: nothing overflows however small tau is.
    double most = -std::numeric_limits<double>::infinity();
    for (size_t s = 0; s < points.size(); ++s) {
      double sum = 0, norm = 0;
      for (size_t k = 0; k < wide; ++k) sum += omega[f * wide + k] * points[s][k], norm += points[s][k] * points[s][k];
      most = std::max(most, log_phi[s] = sum - norm / (2 * settings.tau));
    }
    for (size_t s = 0; s < points.size(); ++s) {
      const double phi = std::exp(log_phi[s] - most);
      terms.weight[f] += phi;
      for (size_t c = 0; c < C; ++c) terms.payload[f * C + c] += phi * settings.keys[s].value[c];
    }
    for (size_t at = f; at < terms.score_y.size(); at += F) terms.score_y[at] += most;
  }
  return terms;
}

FieldMemory write_memory(const FieldSettings& settings, const FieldPanel& panel, double beta_write) {
  const int64_t M = field_slots(settings.space, panel.codes);
  const size_t C = size_t(settings.channels);
  FieldMemory memory{std::vector<double>(size_t(M)), std::vector<double>(size_t(M) * C), 0};
  KeyAddresses addresses(settings.space, panel.codes, panel.top_k, beta_write);
  const bool cumulative = panel.cumulative || panel.gamma == -std::numeric_limits<double>::infinity();
  for (const size_t s : write_order(panel, settings.keys.size())) {
    const Address& address = addresses.of(settings.keys[s]);
    for (size_t k = 0; k < address.slot.size(); ++k) {
      const double w = address.weight[k];
      if (!(w > 0)) continue;
      memory.mean_write_mass += w;
      double& m = memory.mass[size_t(address.slot[k])];
      double* state = &memory.state[size_t(address.slot[k]) * C];
      const double kept = kernels::gsu_retention(w, panel.gamma, cumulative) * m, total = kept + w + panel.eps;
      for (size_t c = 0; c < C; ++c) state[c] = (kept + panel.eps) / total * state[c] + w / total * settings.keys[s].value[c];
      m = kept + w;
    }
  }
  memory.mean_write_mass /= double(settings.keys.size());
  return memory;
}

}  // namespace slotscope::analysis
