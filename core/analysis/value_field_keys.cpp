#include "core/analysis/value_field_keys.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "core/formats/random.h"

namespace slotscope::analysis {

namespace {

constexpr double kTurn = 2 * std::numbers::pi;
constexpr int kDraws = 32;

double unit(formats::SplitMix64& random) { return double(random.next() >> 11) * 0x1p-53; }

struct Place {
  double x, y;
};

Place draw(FieldSpace space, formats::SplitMix64& random) {
  if (space == FieldSpace::torus) {
    const double x = kTurn * unit(random);
    return {x, kTurn * unit(random)};
  }
  const double radius = std::sqrt(unit(random)), angle = kTurn * unit(random);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

double apart(FieldSpace space, const Place& a, const Place& b) {
  double x = std::abs(a.x - b.x), y = std::abs(a.y - b.y);
  if (space == FieldSpace::torus) x = std::min(x, kTurn - x), y = std::min(y, kTurn - y);
  return x * x + y * y;
}

std::vector<Place> spread(FieldSpace space, int count, formats::SplitMix64& random) {
  std::vector<Place> places;
  for (int i = 0; i < count; ++i) {
    Place best{};
    double far = -1;
    for (int d = 0; d < (i == 0 ? 1 : kDraws); ++d) {
      const Place place = draw(space, random);
      double gap = 1e9;
      for (const Place& other : places) gap = std::min(gap, apart(space, place, other));
      if (gap > far) far = gap, best = place;
    }
    places.push_back(best);
  }
  return places;
}

std::vector<Place> ring(FieldSpace space, int count, formats::SplitMix64& random) {
  std::vector<Place> places;
  const double first = kTurn * unit(random);
  const bool torus = space == FieldSpace::torus;
  const double middle = torus ? kTurn / 2 : 0, radius = torus ? 0.3 * kTurn : 1;
  for (int i = 0; i < count; ++i) {
    const double angle = first + kTurn * i / count;
    places.push_back({middle + radius * std::cos(angle), middle + radius * std::sin(angle)});
  }
  return places;
}

std::vector<Place> grid(FieldSpace space, int count) {
  std::vector<Place> places;
  const int columns = int(std::ceil(std::sqrt(double(count)))), rows = (count + columns - 1) / columns;
  const double low = space == FieldSpace::torus ? 0 : -0.8, wide = space == FieldSpace::torus ? kTurn : 1.6;
  for (int i = 0; i < count; ++i)
    places.push_back({low + wide * (i % columns + 0.5) / columns, low + wide * (i / columns + 0.5) / rows});
  return places;
}

std::array<double, 3> hue_colour(double hue) {  // hue in [0, 1), saturation 0.85, value 0.95
  constexpr double high = 0.95, low = 0.95 * (1 - 0.85);
  std::array<double, 3> colour{};
  for (int c = 0; c < 3; ++c) {
    const double at = std::fmod(6 * hue + 4.0 * (c == 1) + 2.0 * (c == 2) + 6, 6.0);  // red at 0, green at 2, blue at 4
    const double share = std::clamp(std::abs(at - 3) - 1, 0.0, 1.0);
    colour[size_t(c)] = low + (high - low) * share;
  }
  return colour;
}

double hue_of(const std::array<double, 3>& v) {
  const double high = std::max({v[0], v[1], v[2]}), low = std::min({v[0], v[1], v[2]}), wide = high - low;
  if (!(wide > 0)) return 0;
  double h = high == v[0] ? (v[1] - v[2]) / wide : high == v[1] ? 2 + (v[2] - v[0]) / wide : 4 + (v[0] - v[1]) / wide;
  h /= 6;
  return h < 0 ? h + 1 : h;
}

FieldPanel memory(int codes, int64_t top_k, bool mass_aware = false) {
  FieldPanel p;
  p.codes = codes, p.top_k = top_k, p.mass_aware = mass_aware;
  return p;
}
FieldPanel attention() { return {.kind = FieldKind::full_attention}; }
int64_t all(FieldSpace space, int codes) { return field_slots(space, codes); }

std::vector<FieldPanel> paper(FieldSpace s) {
  return {attention(), memory(4, all(s, 4)), memory(4, s == FieldSpace::torus ? 4 : 2), memory(16, all(s, 16)),
          memory(4, all(s, 4), true), memory(16, all(s, 16), true)};
}
std::vector<FieldPanel> top_k(FieldSpace s) {
  std::vector<FieldPanel> panels{attention()};
  for (const int64_t share : {1, 2, 4, 8, 16}) panels.push_back(memory(8, std::max<int64_t>(1, all(s, 8) / share)));
  return panels;
}
std::vector<FieldPanel> codes(FieldSpace s) {
  std::vector<FieldPanel> panels{attention()};
  for (const int d : {3, 4, 6, 8, 16}) panels.push_back(memory(d, all(s, d)));
  return panels;
}
std::vector<FieldPanel> readouts(FieldSpace s) {
  const int64_t few = s == FieldSpace::torus ? 8 : 3;
  std::vector<FieldPanel> panels{attention(), memory(8, all(s, 8)), memory(8, all(s, 8), true), memory(8, few), memory(8, few), memory(8, few, true)};
  panels[4].divide = true;
  return panels;
}
std::vector<FieldPanel> forgetting(FieldSpace s) {
  std::vector<FieldPanel> panels{attention(), memory(8, all(s, 8))};
  for (const double gamma : {-3.0, 0.0, 2.0}) {
    panels.push_back(memory(8, all(s, 8)));
    panels.back().cumulative = false, panels.back().gamma = gamma;
  }
  panels.push_back(panels.back());
  panels.back().order = FieldOrder::reversed;
  panels.back().name = "d 8 · K " + std::to_string(all(s, 8)) + "\nγ 2, reversed";
  return panels;
}
std::vector<FieldPanel> predictors(FieldSpace s) {
  FieldPanel quantised{.kind = FieldKind::quantised, .codes = 8}, features{.kind = FieldKind::linear_features};
  return {attention(), quantised, features, memory(8, all(s, 8))};
}
std::vector<FieldPanel> quantisers(FieldSpace) {
  FieldPanel bits{.kind = FieldKind::quantised, .quantiser = FieldQuantiser::none, .value_bits = 2};
  return {attention(), {.kind = FieldKind::quantised, .codes = 4}, {.kind = FieldKind::quantised, .codes = 16},
          {.kind = FieldKind::quantised, .codes = 4, .quantiser = FieldQuantiser::kmeans}, bits};
}
std::vector<FieldPanel> linear(FieldSpace) {
  std::vector<FieldPanel> panels{attention(), {.kind = FieldKind::linear_elu}};
  for (const int m : {16, 64, 256, 1024}) panels.push_back({.kind = FieldKind::linear_features, .features = m});
  return panels;
}

FieldSettings figure_4(double tau) {
  FieldSettings s;
  s.tau = tau;
  s.keys = field_keys(s.space, {});
  s.rows = {0.5, 1, 2};
  s.columns = paper(s.space);
  return s;
}

FieldSettings figure_1() {
  FieldSettings s;
  s.space = FieldSpace::plane;
  s.tau = 0.125;
  s.keys = field_keys(s.space, {.count = 7});
  s.columns = predictors(s.space);
  return s;
}

FieldSettings with_columns(std::vector<FieldPanel> (*make)(FieldSpace)) {
  FieldSettings s = figure_4(0.125);
  s.columns = make(s.space);
  return s;
}

}  // namespace

std::vector<FieldKey> field_keys(FieldSpace space, const FieldLayout& layout) {
  if (layout.count < 1 || layout.count > kMostFieldKeys)
    throw Error({.item = "number of keys", .found = std::to_string(layout.count), .expected = "1 to " + std::to_string(kMostFieldKeys)},
                Error::Kind::usage);
  formats::SplitMix64 random(layout.seed), values(layout.seed ^ 0x5A1E5ull);
  std::vector<Place> places;
  switch (layout.kind) {
    case FieldLayoutKind::spread: places = spread(space, layout.count, random); break;
    case FieldLayoutKind::random:
      for (int i = 0; i < layout.count; ++i) places.push_back(draw(space, random));
      break;
    case FieldLayoutKind::ring: places = ring(space, layout.count, random); break;
    case FieldLayoutKind::grid: places = grid(space, layout.count); break;
  }
  const size_t n = places.size();
  std::vector<size_t> dealt(n);
  for (size_t i = 0; i < n; ++i) dealt[i] = i;
  for (size_t i = n; i > 1; --i) std::swap(dealt[i - 1], dealt[size_t(values.below(i))]);
  std::vector<FieldKey> keys(n);
  for (size_t i = 0; i < n; ++i) {
    keys[i].x = places[i].x, keys[i].y = places[i].y;
    if (layout.rgb)
      keys[i].value = hue_colour(double(dealt[i]) / double(n));
    else
      keys[i].value = {n == 1 ? 0.5 : double(dealt[i]) / double(n - 1), 0, 0};
  }
  return keys;
}

std::array<double, 3> spare_value(const std::vector<FieldKey>& keys, int channels) {
  const bool rgb = channels == 3;
  std::vector<double> at;
  for (const FieldKey& key : keys) at.push_back(rgb ? hue_of(key.value) : key.value[0]);
  std::sort(at.begin(), at.end());
  double best = 0.5, wide = -1;
  for (size_t i = 0; i + 1 < at.size(); ++i)
    if (at[i + 1] - at[i] > wide) wide = at[i + 1] - at[i], best = (at[i] + at[i + 1]) / 2;
  if (!at.empty() && rgb) {  // around the circle
    if (const double gap = at.front() + 1 - at.back(); gap > wide) best = std::fmod(at.back() + gap / 2, 1.0);
  } else if (!at.empty()) {
    if (at.front() > wide) wide = at.front(), best = 0;
    if (1 - at.back() > wide) best = 1;
  }
  return rgb ? hue_colour(best) : std::array<double, 3>{best, 0, 0};
}

const std::vector<FieldColumns>& field_column_sets() {
  static const std::vector<FieldColumns> sets = {
      {"paper", "paper set", "Full attention, few and many codes, Top-K, both readouts (RAM-Net Fig. 4)", paper},
      {"top-k", "Top-K", "8 codes per factor with all slots, a half, a quarter, an eighth, a sixteenth", top_k},
      {"codes", "codes", "3, 4, 6, 8 and 16 codes per factor with all slots", codes},
      {"readouts", "readouts", "Standard, mass-aware, divided by the read mass; all slots and few", readouts},
      {"forgetting", "forgetting", "GSU with gamma −3, 0, 2, and the same keys written in reverse", forgetting},
      {"predictors", "predictors", "Full attention, quantised KV, linear attention, RAM-Net (Fig. 1)", predictors},
      {"quantised", "quantised KV", "Circular codes, k-means centroids, values of 2 bits", quantisers},
      {"linear", "linear attention", "elu + 1, and 16 to 1024 positive random features", linear},
  };
  return sets;
}

const FieldColumns* find_field_columns(std::string_view name) {
  for (const FieldColumns& set : field_column_sets())
    if (name == set.name) return &set;
  return nullptr;
}

const std::vector<FieldPreset>& field_presets() {
  static const std::vector<FieldPreset> presets = {
      {"paper", "Figure 4, sharp (τ 0.125)", "β* = 4: regions of values with clear borders", [] { return figure_4(0.125); }},
      {"paper-medium", "Figure 4, τ 0.5", "β* = 2", [] { return figure_4(0.5); }},
      {"paper-smooth", "Figure 4, τ 2", "β* = 1, the migration's own τ = √(2U) at U = 2: very smooth", [] { return figure_4(2); }},
      {"figure-1", "Figure 1: predictors over QK space", "Full attention, quantised KV, linear attention, RAM-Net over a plane of queries", figure_1},
      {"figure-1-torus", "Figure 1 on the torus", "The same four with two factors", [] { return with_columns(predictors); }},
      {"top-k", "Top-K", "What is lost when fewer slots are kept", [] { return with_columns(top_k); }},
      {"codes", "Codes per factor", "How the grid of codes goes away", [] { return with_columns(codes); }},
      {"readouts", "Readouts", "Standard, mass-aware, divided", [] { return with_columns(readouts); }},
      {"forgetting", "Forgetting", "GSU with three gammas and both orders of writes", [] { return with_columns(forgetting); }},
  };
  return presets;
}

const FieldPreset* find_field_preset(std::string_view name) {
  for (const FieldPreset& preset : field_presets())
    if (name == preset.name) return &preset;
  return nullptr;
}

}  // namespace slotscope::analysis
