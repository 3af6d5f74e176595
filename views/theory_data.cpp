#include "views/theory_data.h"

#include <algorithm>
#include <cmath>

#include "core/analysis/divergence.h"
#include "core/formats/random.h"
#include "views/caption.h"
#include "views/format.h"
#include "views/tensor_histogram_view.h"

namespace slotscope::views {

namespace {

constexpr int kSweepPoints = 161;
constexpr double kSweepLow = 0.1, kSweepHigh = 10;

void addSweep(TheoryData& d) {
  const TheoryState& s = d.state;
  d.x = std::sqrt(s.read * s.write);
  if (!(d.x > 0)) return;
  // x from a tenth to ten times beta*, and the state's own place inside.
  d.sweep_x = analysis::spaced(std::min(kSweepLow, d.x / 2), std::max(kSweepHigh, d.x * 2), kSweepPoints, true);
  std::vector<double> multiples;
  for (const double x : d.sweep_x) multiples.push_back(x / d.x);
  d.sweep = analysis::sweep_beta(d.input, multiples);
  const double radius = d.numbers.bounds.radius;
  d.x_end = radius > 0 ? d.x * analysis::radius_of_xi(s.codes, 1) / radius : INFINITY;
}

// k and others whose blocks have k's lengths and drawn angles.
std::vector<double> keysOf(const TheoryState& s) {
  std::vector<double> keys = s.k;
  formats::SplitMix64 random(s.seed ^ 0x6b657973u);
  for (int i = 1; i < s.keys; ++i)
    for (size_t u = 0; u < s.k.size() / 2; ++u) {
      const double angle = 2 * M_PI * double(random.next() >> 11) * 0x1p-53, length = std::hypot(s.k[2 * u], s.k[2 * u + 1]);
      keys.insert(keys.end(), {length * std::cos(angle), length * std::sin(angle)});
    }
  return keys;
}

void addWeights(TheoryData& d, bool every_address) {
  const analysis::KernelInput& in = d.input;
  d.keys = keysOf(d.state);
  const double inverse = in.beta_read * in.beta_write / 2;
  const std::vector<double> attention = inverse > 0 && std::isfinite(1 / inverse) ? analysis::attention_weights(in.q, d.keys, 1 / inverse)
                                                    : std::vector<double>(size_t(d.state.keys), 1.0 / d.state.keys);
  const auto add = [&](const QString& name, const QString& formula, std::vector<double> weight) {
    TheoryWeights w{name, formula, std::move(weight), 0, 0, {}};
    w.js = analysis::js_divergence(attention, w.weight);
    w.kl = analysis::forward_kl(attention, w.weight);
    d.weights.append(std::move(w));
  };
  add(QStringLiteral("attention"), QStringLiteral("softmax(β_r β_w / 2 q·k)"), attention);
  add(QStringLiteral("mass-aware"), QStringLiteral("κ / Σ κ"), analysis::cumulative_weights(in, d.keys));
  const QString name = QStringLiteral("standard"), formula = QStringLiteral("Σ_a r(a) w(a) / Σ_j w_j(a)");
  if (every_address)
    add(name, formula, analysis::cumulative_standard_weights(in, d.keys));
  else
    d.weights.append({name, formula, {}, 0, 0, d.why_no_brute_force});
  add(QStringLiteral("d → ∞"), QStringLiteral("I_0 in place of Z"), analysis::infinite_weights(in, d.keys));
  add(QStringLiteral("hard write"), QStringLiteral("softmax(β_r q·k̂)"), analysis::hard_write_weights(in, d.keys));
}

QString list(const std::vector<int64_t>& values) {
  QStringList out;
  for (const int64_t v : values) out << QString::number(v);
  return out.join(QStringLiteral(", "));
}

}  // namespace

TheoryData theoryData(const TheoryState& state, int64_t brute_force) {
  TheoryData d;
  d.state = state;
  d.input = state.input();
  d.numbers = analysis::kernel_numbers(d.input);
  const auto slots = analysis::slot_count(state.codes, state.factors());
  if (slots && *slots <= std::min(brute_force, analysis::kMaxBruteForce))
    d.log_brute_force = analysis::log_kappa_brute_force(d.input);
  else
    d.why_no_brute_force = QStringLiteral("%1 addresses: more than are walked here")
                               .arg(slots ? count(*slots) : QStringLiteral("%1^%2").arg(state.codes).arg(state.factors()));
  for (double v : analysis::log_softmax(state.codes, d.input.q, d.input.beta_read)) d.read.push_back(std::exp(v));
  for (double v : analysis::log_softmax(state.codes, d.input.k, d.input.beta_write)) d.write.push_back(std::exp(v));
  for (size_t u = 0; u < state.q.size() / 2; ++u)
    d.factor_log_kappa.push_back(analysis::log_kappa({state.codes, {state.q[2 * u], state.q[2 * u + 1]}, {state.k[2 * u], state.k[2 * u + 1]},
                                                      d.input.beta_read, d.input.beta_write}));
  addSweep(d);
  d.cloud = analysis::pair_cloud(d.input, state.pair_kind, state.pairs, state.seed);
  addWeights(d, d.log_brute_force && *slots <= analysis::kMaxBruteForce / state.keys);
  return d;
}

QString TheoryRow::shown() const { return value ? valueText(*value, 10) : text; }
QString TheoryRow::exact() const {
  if (!value) return text;
  return std::isfinite(*value) ? QString::number(*value, 'g', 17) : *value > 0 ? QStringLiteral("inf") : QString::number(*value);
}

QVector<TheoryRow> theoryRows(const TheoryData& d) {
  const auto& n = d.numbers;
  const auto& b = n.bounds;
  const auto slots = analysis::slot_count(d.state.codes, d.state.factors());
  QVector<TheoryRow> rows;
  const auto section = [&](const char* name) { rows.append({QString::fromUtf8(name), {}, {}, {}, {}}); };
  const auto number = [&](const char* name, double value, const char* why) {
    rows.append({{}, QString::fromUtf8(name), QString::fromUtf8(why), value, {}});
  };
  const auto words = [&](const char* name, const QString& text, const char* why) {
    rows.append({{}, QString::fromUtf8(name), QString::fromUtf8(why), {}, text});
  };
  section("Kernel");
  number("κ", n.kappa, "M Σ_a r(a) w(a) = Π_u Z(β_r q + β_w k) / (Z(β_r q) Z(β_w k)), closed form");
  if (d.log_brute_force)
    number("κ brute force", std::exp(*d.log_brute_force), "the sum over every address, term by term");
  else
    words("κ brute force", d.why_no_brute_force, "the sum over every address, term by term");
  number("target", n.target, "exp(β_r β_w / 2 q·k)");
  number("log error", n.log_error, "log κ − log target");
  number("log κ", n.log_kappa, "closed form");
  number("log target", n.log_target, "β_r β_w / 2 q·k");
  number("q·k", n.q_dot_k, "over all factors");
  section("Theorem 2");
  number("M", b.radius, "max_u max(β_r |q|, β_w |k|), the radius, not the slot count");
  number("ξ", b.xi, "2 e^M M^d / d!");
  if (b.bound)
    number("bound", *b.bound, "U (M⁴/4 + 3ξ/(1−ξ)): |log error| is never above");
  else
    words("bound", QStringLiteral("none: ξ ≥ 1"), "the theorem says nothing here");
  if (b.quantisation) number("3Uξ/(1−ξ)", *b.quantisation, "|log κ − log κ(d → ∞)| is never above");
  number("−U M⁴/4", b.continuous_lower, "log error for d → ∞ is never below");
  number("U M⁴/32", b.continuous_upper, "log error for d → ∞ is never above");
  section("Limits");
  number("κ, d → ∞", n.kappa_infinite, "I_0 in place of Z");
  number("log error, d → ∞", n.log_error_infinite, "log κ(d → ∞) − log target");
  number("κ, hard write", n.kappa_hard, "β_w → ∞: exp(β_r q·k̂) / Π_u Z(β_r q)");
  words("codes of k", list(n.codes_of_k) + (n.tied ? QStringLiteral(" (tie)") : QString()),
        "nearest code of every block; of a tie the lower one, and the limit is the mean over the nearest");
  if (slots)
    number("slots", double(*slots), "d^U: κ is never above");
  else
    number("log slots", n.log_ceiling, "U log d: log κ is never above");
  section("Temperature");
  number("β*", d.state.betaStar(), "√(2/τ) with τ = √(2U)");
  number("β_r", d.input.beta_read, "of reads");
  number("β_w", d.input.beta_write, "of writes");
  if (d.x > 0) number("Theorem 2 ends at β/β*", d.x_end, "√(β_r β_w)/β* at which ξ = 1");
  section("JS to attention, nats");
  for (qsizetype i = 1; i < d.weights.size(); ++i) {
    const TheoryWeights& w = d.weights[i];
    TheoryRow row{{}, w.name, w.formula, {}, w.why};
    if (!w.weight.empty()) row.value = w.js;
    rows.append(row);
  }
  const int u = d.state.factor;
  rows.append({QStringLiteral("Factor %1").arg(u), {}, {}, {}, {}});
  number("κ of the factor", std::exp(d.factor_log_kappa[size_t(u)]), "d Σ_j p(j|q) p(j|k)");
  for (int j = 0; j < std::min(d.state.codes, 16); ++j) {
    const size_t at = size_t(u * d.state.codes + j);
    rows.append({{}, QStringLiteral("p(%1|q)").arg(j), QStringLiteral("softmax_j(β_r c_j·q)"), d.read[at], {}});
    rows.append({{}, QStringLiteral("p(%1|k)").arg(j), QStringLiteral("softmax_j(β_w c_j·k)"), d.write[at], {}});
  }
  return rows;
}

QString theoryCaption(const TheoryData& d) {
  const auto slots = analysis::slot_count(d.state.codes, d.state.factors());
  const QString m = slots ? count(*slots) : QStringLiteral("%1^%2").arg(d.state.codes).arg(d.state.factors());
  QString text = QStringLiteral("RAM-Net theory · d = %1 codes, U = %2 %3, %4 slots · ")
                     .arg(d.state.codes)
                     .arg(d.state.factors())
                     .arg(d.state.factors() == 1 ? QStringLiteral("factor") : QStringLiteral("factors"), m);
  text += d.state.read == d.state.write ? QStringLiteral("β = %1 β*").arg(valueText(d.state.read, 5))
                                        : QStringLiteral("β_r = %1 β*, β_w = %2 β*").arg(valueText(d.state.read, 5), valueText(d.state.write, 5));
  return text + QStringLiteral(", β* = %1").arg(valueText(d.state.betaStar(), 7));
}

QString theoryCsv(const TheoryData& d) {
  const auto joined = [](const std::vector<double>& values) {
    QStringList out;
    for (const double v : values) out << csvNumber(v);
    return out.join(QLatin1Char(' '));
  };
  Facts facts{{QStringLiteral("figure"), QStringLiteral("theory")},
              {QStringLiteral("codes_per_factor"), QString::number(d.state.codes)},
              {QStringLiteral("order"), QString::number(d.state.factors())},
              {QStringLiteral("beta_star"), csvNumber(d.state.betaStar())},
              {QStringLiteral("beta_read"), csvNumber(d.input.beta_read)},
              {QStringLiteral("beta_write"), csvNumber(d.input.beta_write)},
              {QStringLiteral("q"), joined(d.input.q)}, {QStringLiteral("k"), joined(d.input.k)},
              {QStringLiteral("pair_kind"), QLatin1String(analysis::pair_kind_name(d.state.pair_kind))},
              {QStringLiteral("seed"), QString::number(d.state.seed)}};
  QString text = factLines(facts) + QStringLiteral("panel,series,x,value\n");
  const auto line = [&](const QString& panel, const QString& series, const QString& x, double value) {
    text += csvField(panel) + QLatin1Char(',') + csvField(series) + QLatin1Char(',') + csvField(x) + QLatin1Char(',') + csvNumber(value) +
            QLatin1Char('\n');
  };
  for (const TheoryRow& row : theoryRows(d))
    if (row.value) line(QStringLiteral("numbers"), row.name, {}, *row.value);
  for (int u = 0; u < d.state.factors(); ++u)
    for (int j = 0; j < d.state.codes; ++j) {
      const size_t at = size_t(u * d.state.codes + j);
      line(QStringLiteral("codebook"), QStringLiteral("p(j|q) factor %1").arg(u), QString::number(j), d.read[at]);
      line(QStringLiteral("codebook"), QStringLiteral("p(j|k) factor %1").arg(u), QString::number(j), d.write[at]);
    }
  const std::pair<const char*, const std::vector<double>*> curves[] = {
      {"log_kappa", &d.sweep.log_kappa}, {"log_kappa_infinite", &d.sweep.log_kappa_infinite}, {"log_kappa_hard", &d.sweep.log_kappa_hard},
      {"log_target", &d.sweep.log_target}, {"log_error", &d.sweep.log_error}, {"radius", &d.sweep.radius}, {"xi", &d.sweep.xi},
      {"bound", &d.sweep.bound}};
  for (const auto& [name, values] : curves)
    for (size_t i = 0; i < d.sweep_x.size(); ++i)
      line(QStringLiteral("beta over beta_star"), QLatin1String(name), csvNumber(d.sweep_x[i]), (*values)[i]);
  for (size_t i = 0; i < d.cloud.q_dot_k.size(); ++i) {
    line(QStringLiteral("pairs by q.k"), QStringLiteral("log_error"), csvNumber(d.cloud.q_dot_k[i]), d.cloud.log_error[i]);
    line(QStringLiteral("pairs by q.k"), QStringLiteral("xi"), csvNumber(d.cloud.q_dot_k[i]), d.cloud.xi[i]);
    line(QStringLiteral("pairs by q.k"), QStringLiteral("bound"), csvNumber(d.cloud.q_dot_k[i]), d.cloud.bound[i]);
  }
  for (const TheoryWeights& w : d.weights)
    for (size_t i = 0; i < w.weight.size(); ++i) line(QStringLiteral("weights over keys"), w.name, QString::number(i), w.weight[i]);
  return text;
}

}  // namespace slotscope::views
