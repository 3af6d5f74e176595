#include "core/analysis/theory_result.h"

#include <charconv>
#include <limits>

#include "core/error.h"

namespace slotscope::analysis {
namespace {

using trace::ResultDataset;

void number(trace::Result& out, const char* name, double value, const char* description) {
  out.datasets.push_back({.name = name, .shape = {}, .axes = "", .description = description, .unit = "", .values = std::vector<double>{value}});
}

void list(trace::Result& out, const std::string& name, const char* axis, std::vector<double> values, const char* description) {
  const int64_t count = int64_t(values.size());
  out.datasets.push_back({.name = name, .shape = {count}, .axes = axis, .description = description, .unit = "", .values = std::move(values)});
}

void add_numbers(trace::Result& out, const KernelInput& input) {
  const KernelNumbers n = kernel_numbers(input);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  number(out, "q_dot_k", n.q_dot_k, "q.k");
  number(out, "log_kappa", n.log_kappa, "log of M sum_a r(a) w(a), closed form");
  number(out, "log_kappa_infinite", n.log_kappa_infinite, "log kappa for d to infinity: I_0 in place of Z");
  number(out, "log_kappa_hard", n.log_kappa_hard, "log kappa for beta_write to infinity");
  number(out, "log_target", n.log_target, "beta_read beta_write / 2 q.k");
  number(out, "log_error", n.log_error, "log kappa - log target");
  number(out, "log_ceiling", n.log_ceiling, "log of the number of slots: kappa is never above");
  number(out, "radius", n.bounds.radius, "max_u max(beta_read |q^u|, beta_write |k^u|)");
  number(out, "xi", n.bounds.xi, "2 e^radius radius^d / d!");
  number(out, "bound", n.bounds.bound.value_or(nan), "Theorem 2: U (radius^4 / 4 + 3 xi / (1 - xi)); NaN where xi >= 1");
  number(out, "quantisation_bound", n.bounds.quantisation.value_or(nan), "3 U xi / (1 - xi); NaN where xi >= 1");
  number(out, "continuous_lower", n.bounds.continuous_lower, "-U radius^4 / 4 <= log kappa_infinite - log target");
  number(out, "continuous_upper", n.bounds.continuous_upper, "log kappa_infinite - log target <= U radius^4 / 32");
  out.datasets.push_back({.name = "codes_of_k", .shape = {int64_t(n.codes_of_k.size())}, .axes = "factor",
                          .description = "nearest code of every k^u, the lower one of a tie", .unit = "", .values = n.codes_of_k});
}

void add_sweep(trace::Result& out, const KernelInput& input, std::span<const double> multiples) {
  BetaSweep s = sweep_beta(input, multiples);
  const auto add = [&](const char* name, std::vector<double>& values, const char* description) {
    list(out, std::string("sweep/") + name, "beta_multiple", std::move(values), description);
  };
  add("beta_multiple", s.multiple, "multiple of beta_read and beta_write");
  add("beta_read", s.beta_read, "inverse temperature of reads");
  add("beta_write", s.beta_write, "inverse temperature of writes");
  add("log_kappa", s.log_kappa, "log kappa, closed form");
  add("log_kappa_infinite", s.log_kappa_infinite, "log kappa for d to infinity");
  add("log_kappa_hard", s.log_kappa_hard, "log kappa for beta_write to infinity at this beta_read");
  add("log_target", s.log_target, "beta_read beta_write / 2 q.k");
  add("log_error", s.log_error, "log kappa - log target");
  add("log_error_infinite", s.log_error_infinite, "log kappa_infinite - log target");
  add("radius", s.radius, "max_u max(beta_read |q^u|, beta_write |k^u|)");
  add("xi", s.xi, "2 e^radius radius^d / d!");
  add("bound", s.bound, "Theorem 2; NaN where xi >= 1");
  add("quantisation_bound", s.quantisation, "3 U xi / (1 - xi); NaN where xi >= 1");
}

void add_pairs(trace::Result& out, const KernelInput& input, const TheoryResultOptions& options) {
  PairCloud c = pair_cloud(input, options.kind, options.pairs, options.seed);
  const auto add = [&](const char* name, std::vector<double>& values, const char* description) {
    list(out, std::string("pairs/") + name, "pair", std::move(values), description);
  };
  for (auto* side : {&c.q, &c.k})
    out.datasets.push_back({.name = side == &c.q ? "pairs/q" : "pairs/k", .shape = {options.pairs, input.factors(), 2},
                            .axes = "pair,factor,coordinate", .description = side == &c.q ? "query of every pair" : "key of every pair",
                            .unit = "", .values = std::move(*side)});
  add("q_dot_k", c.q_dot_k, "q.k");
  add("log_kappa", c.log_kappa, "log kappa, closed form");
  add("log_target", c.log_target, "beta_read beta_write / 2 q.k");
  add("log_error", c.log_error, "log kappa - log target");
  add("log_error_infinite", c.log_error_infinite, "log kappa_infinite - log target");
  add("radius", c.radius, "max_u max(beta_read |q^u|, beta_write |k^u|)");
  add("xi", c.xi, "2 e^radius radius^d / d!");
  add("bound", c.bound, "Theorem 2; NaN where xi >= 1");
}

}  // namespace

trace::Result theory_result(const KernelInput& input, const TheoryResultOptions& options) {
  check(input);
  trace::Result out;
  out.kind = kTheoryKind;
  out.parameters = {{"codes_per_factor", input.codes}, {"order", input.factors()}, {"beta_read", input.beta_read},
                    {"beta_write", input.beta_write}, {"beta_star", beta_star(input.factors())}, {"pairs", options.pairs},
                    {"pair_kind", std::string(pair_kind_name(options.kind))}, {"seed", std::to_string(options.seed)}};
  for (const auto* side : {&input.q, &input.k})
    out.datasets.push_back({.name = side == &input.q ? "q" : "k", .shape = {input.factors(), 2}, .axes = "factor,coordinate",
                            .description = side == &input.q ? "the query, a planar block per factor" : "the key, a planar block per factor",
                            .unit = "", .values = *side});
  add_numbers(out, input);
  add_sweep(out, input, options.multiples);
  add_pairs(out, input, options);
  return out;
}

PairKind pair_kind(std::string_view name) {
  for (const PairKind kind : {PairKind::random_angles, PairKind::random_blocks, PairKind::turned_key})
    if (name == pair_kind_name(kind)) return kind;
  throw Error({.item = "kind of pairs", .found = "'" + std::string(name.substr(0, 60)) + "'",
               .expected = "random-angles, random-blocks or turned-key"}, Error::Kind::usage);
}

StoredTheory stored_theory(const trace::Result& result) {
  if (result.kind != kTheoryKind)
    throw Error({.item = "kind", .found = "'" + result.kind + "'", .expected = std::string("'") + kTheoryKind + "'"});
  StoredTheory out;
  out.input.codes = result.integer("codes_per_factor");
  out.input.q = trace::as_doubles(result.at("q").values);
  out.input.k = trace::as_doubles(result.at("k").values);
  out.input.beta_read = result.number("beta_read");
  out.input.beta_write = result.number("beta_write");
  check(out.input);
  out.options.multiples = trace::as_doubles(result.at("sweep/beta_multiple").values);
  out.options.pairs = result.integer("pairs");
  out.options.kind = pair_kind(result.text("pair_kind"));
  const std::string seed = result.text("seed");
  const auto [end, error] = std::from_chars(seed.data(), seed.data() + seed.size(), out.options.seed);
  if (error != std::errc() || end != seed.data() + seed.size())
    throw Error({.item = "seed", .found = "'" + seed.substr(0, 60) + "'", .expected = "a whole number"});
  return out;
}

}  // namespace slotscope::analysis
