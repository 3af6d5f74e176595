// What is accepted of a value field's settings, and how its panels are called.
#include <charconv>
#include <cmath>

#include "core/analysis/product_code.h"
#include "core/analysis/value_field.h"

namespace slotscope::analysis {

namespace {

std::string number(double v) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, v);
  return error == std::errc() ? std::string(text, end) : "?";
}

bool inside(double v, double low, double high) { return v >= low && v <= high; }  // false for NaN

std::string keys_problem(const FieldSettings& s) {
  if (s.keys.empty()) return "no keys, at least 1";
  if (s.keys.size() > size_t(kMostFieldKeys))
    return std::to_string(s.keys.size()) + " keys, at most " + std::to_string(kMostFieldKeys);
  if (s.queries.size() > size_t(kMostFieldQueries))
    return std::to_string(s.queries.size()) + " queries of a model, at most " + std::to_string(kMostFieldQueries);
  for (const auto& q : s.queries)
    if (!inside(q[0], -1e7, 1e7) || !inside(q[1], -1e7, 1e7)) return "a query of the model is at (" + number(q[0]) + ", " + number(q[1]) + ")";
  for (size_t i = 0; i < s.keys.size(); ++i) {
    const FieldKey& key = s.keys[i];
    const std::string which = "key " + std::to_string(i);
    if (!inside(key.x, -1e4, 1e4) || !inside(key.y, -1e4, 1e4))
      return which + " is at (" + number(key.x) + ", " + number(key.y) + "), coordinates of at most 10000";
    for (const double r : key.radius)
      if (!inside(r, 0, 1e4)) return which + " has a block of length " + number(r) + ", 0 to 10000";
    for (int c = 0; c < s.channels; ++c)
      if (!inside(key.value[size_t(c)], -1e12, 1e12)) return which + " has the value " + number(key.value[size_t(c)]) + ", a finite number";
  }
  return {};
}

// "" or what is wrong with a panel that is read with `row` betas.
std::string memory_problem(const FieldPanel& p, const FieldSettings& s) {
  if (p.top_k < 1) return "Top-K is " + std::to_string(p.top_k) + ", at least 1 (as many as there are slots, or more, keeps all)";
  if (!(p.beta_read >= 0) || !(p.beta_write >= 0))
    return "beta is " + number(!(p.beta_read >= 0) ? p.beta_read : p.beta_write) + ", 0 or more";
  if (std::isnan(p.gamma)) return "gamma is not a number; -inf is the cumulative mean, inf overwrites";
  if (!inside(p.eps, 0, 1)) return "eps is " + number(p.eps) + ", 0 to 1";
  for (const double row : s.rows)
    for (const double times : {p.beta_read, p.beta_write})
      if (std::isnan(row * times)) return "beta is 0 times infinity: choose either";
      else if (const double beta = row * times * beta_star_of_tau(s.tau); std::isfinite(row * times) && beta > 1e4)
        return "beta is " + number(beta) + ", at most 10000, or inf for the nearest code alone";
  return {};
}

std::string panel_problem(const FieldPanel& p, const FieldSettings& s) {
  if (p.kind == FieldKind::ramnet || (p.kind == FieldKind::quantised && p.quantiser == FieldQuantiser::circular)) {
    if (p.codes < 2) return std::to_string(p.codes) + " codes per factor, at least 2: one code alone says nothing about a key";
    if (p.codes > kMostFieldCodes) return std::to_string(p.codes) + " codes per factor, at most " + std::to_string(kMostFieldCodes);
  }
  if (p.kind == FieldKind::ramnet) return memory_problem(p, s);
  if (p.kind == FieldKind::quantised) {
    if (p.quantiser == FieldQuantiser::kmeans && (p.codes < 1 || p.codes > kMostFieldKeys))
      return std::to_string(p.codes) + " centroids, 1 to " + std::to_string(kMostFieldKeys);
    if (p.value_bits < 0 || p.value_bits > kMostFieldValueBits)
      return "values of " + std::to_string(p.value_bits) + " bits, 1 to " + std::to_string(kMostFieldValueBits) + ", or 0 for values as they are";
  }
  if (p.kind == FieldKind::linear_features && (p.features < 1 || p.features > kMostFieldFeatures))
    return std::to_string(p.features) + " random features, 1 to " + std::to_string(kMostFieldFeatures);
  return {};
}

std::string sizes_problem(const FieldSettings& s) {
  if (s.channels != 1 && s.channels != 3) return "values of " + std::to_string(s.channels) + " channels, 1 (scalar) or 3 (RGB)";
  if (!inside(s.tau, 1e-6, 1e6)) return "tau is " + number(s.tau) + ", 0.000001 to 1000000";
  if (s.grid < 1 || s.grid > kLargestFieldGrid)
    return "a grid of " + std::to_string(s.grid) + " queries per side, 1 to " + std::to_string(kLargestFieldGrid);
  if (s.space == FieldSpace::plane && !inside(s.extent, 1e-6, 1e4)) return "the plane reaches to " + number(s.extent) + ", 0.000001 to 10000";
  for (const double r : s.query_radius)
    if (!inside(r, 0, 1e4)) return "queries have a block of length " + number(r) + ", 0 to 10000";
  if (s.rows.empty() || s.columns.empty()) return "no panels, at least 1 row and 1 column";
  const size_t panels = s.rows.size() * s.columns.size();
  if (s.rows.size() > size_t(kMostFieldPanels) || s.columns.size() > size_t(kMostFieldPanels) || panels > size_t(kMostFieldPanels))
    return std::to_string(s.rows.size()) + " rows of " + std::to_string(s.columns.size()) + " panels, at most " +
           std::to_string(kMostFieldPanels) + " panels together";
  const size_t numbers = panels * size_t(s.grid) * size_t(s.grid) * size_t(s.channels + 1);
  if (numbers > kMostFieldNumbers)
    return std::to_string(panels) + " panels of " + std::to_string(s.grid) + " x " + std::to_string(s.grid) +
           " queries are " + std::to_string(numbers) + " numbers, at most " + std::to_string(kMostFieldNumbers) + ": make the grid coarser";
  for (const double row : s.rows)
    if (!(row >= 0)) return "a row has beta / beta* " + number(row) + ", 0 or more";
  return {};
}

}  // namespace

int field_factors(FieldSpace space) { return space == FieldSpace::torus ? 2 : 1; }
int64_t field_slots(FieldSpace space, int codes) { return space == FieldSpace::torus ? int64_t(codes) * codes : codes; }

std::string field_title(const FieldPanel& p, FieldSpace space) {
  if (!p.name.empty()) return p.name;
  switch (p.kind) {
    case FieldKind::full_attention: return "full attention";
    case FieldKind::linear_elu: return "linear\nelu + 1";
    case FieldKind::linear_features: return "linear\n" + std::to_string(p.features) + " features";
    case FieldKind::quantised: {
      std::string text = "quantised";
      if (p.quantiser != FieldQuantiser::none)
        text += std::string("\n") + (p.quantiser == FieldQuantiser::circular ? "d " : "k-means ") + std::to_string(p.codes);
      if (p.value_bits > 0) text += (p.quantiser == FieldQuantiser::none ? "\n" : " · ") + std::to_string(p.value_bits) + "-bit v";
      return text;
    }
    case FieldKind::ramnet: break;
  }
  std::string text = "d " + std::to_string(p.codes) + " · K " + std::to_string(std::min(p.top_k, field_slots(space, p.codes)));
  std::string more;
  const auto add = [&](const std::string& word) { more += (more.empty() ? "" : ", ") + word; };
  if (p.mass_aware) add("mass-aware");
  if (p.divide && !p.mass_aware) add("divided");
  if (!p.cumulative) add("γ " + number(p.gamma));
  if (p.beta_read != p.beta_write) add("β " + number(p.beta_read) + " / " + number(p.beta_write));
  return more.empty() ? text : text + "\n" + more;
}

std::string field_problem(const FieldSettings& s) {
  if (auto problem = sizes_problem(s); !problem.empty()) return problem;
  if (auto problem = keys_problem(s); !problem.empty()) return problem;
  for (size_t i = 0; i < s.columns.size(); ++i)
    if (auto problem = panel_problem(s.columns[i], s); !problem.empty()) return "column " + std::to_string(i + 1) + ": " + problem;
  return {};
}

}  // namespace slotscope::analysis
