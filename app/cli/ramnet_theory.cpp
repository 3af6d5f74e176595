// slotscope-cli ramnet theory: the address kernel of one pair of vectors, its limits and bounds; sweeps of it as a file.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numbers>

#include "app/cli/help.h"
#include "app/cli/ramnet.h"
#include "app/cli/run_options.h"
#include "core/analysis/kernel_sweep.h"
#include "core/analysis/theory_result.h"
#include "core/trace/result_file.h"

namespace slotscope::cli {
namespace {

constexpr const char* kFooter = R"(
q and k have 2U numbers: two for each factor, factor 0 first. Without --beta both temperatures are beta* = sqrt(2 / sqrt(2U)).

With --json exactly one document: kappa, kappa_bruteforce (over all d^U addresses), target = exp(beta_read beta_write / 2 q.k),
log_error = log kappa - log target, radius = max_u max(beta_read |q^u|, beta_write |k^u|), xi = 2 e^radius radius^d / d!,
bound = U (radius^4 / 4 + 3 xi / (1 - xi)) (null where xi >= 1: Theorem 2 says nothing there).

Examples:
  slotscope-cli ramnet theory --codes 4 --q 0.6,-0.2,0.1,0.7 --k 0.5,0.3,-0.4,0.6
  slotscope-cli ramnet theory --codes 4 --q 0.6,-0.2,0.1,0.7 --k 0.5,0.3,-0.4,0.6 --beta 1.58 --json
  slotscope-cli ramnet theory --codes 16 --q 0.5,0 --k 0.3,0.4 --beta-read 1 --beta-write 80 --out theory.h5 --sweep 0.1:10:201)";

struct TheorySettings {
  std::string codes, q, k, beta, beta_read, beta_write, out, sweep = "0.1:10:201", pair_kind = "random-angles";
  int64_t pairs = 500;
  uint64_t seed = 0;
  bool force = false;
};

[[noreturn]] void refuse(const std::string& option, const std::string& found, const std::string& expected, const std::string& advice = "") {
  throw Error({.item = option, .found = found, .expected = expected, .advice = advice}, Error::Kind::usage);
}

std::string shown(const std::string& text) { return "'" + (text.size() <= 60 ? text : text.substr(0, 57) + "...") + "'"; }

double number_of(const std::string& option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) refuse(option, shown(text) + ", out of the range of a double", "a finite number");
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) refuse(option, shown(text), "a finite number");
  return value + 0.0;  // -0 is 0
}

std::vector<double> numbers_of(const std::string& option, const std::string& text) {
  std::vector<double> out;
  for (size_t at = 0;;) {
    const size_t comma = std::min(text.find(',', at), text.size());
    out.push_back(number_of(option + ", number " + std::to_string(out.size()), text.substr(at, comma - at)));
    if (comma == text.size()) return out;
    at = comma + 1;
  }
}

analysis::KernelInput input_of(const TheorySettings& s) {
  analysis::KernelInput in;
  const auto [end, error] = std::from_chars(s.codes.data(), s.codes.data() + s.codes.size(), in.codes);
  if (error != std::errc() || end != s.codes.data() + s.codes.size())
    refuse("--codes", shown(s.codes), "a whole number of codes per factor, 2 to " + std::to_string(analysis::kMaxCodes));
  in.q = numbers_of("--q", s.q);
  in.k = numbers_of("--k", s.k);
  if (in.q.size() % 2 != 0)
    refuse("--q", std::to_string(in.q.size()) + " numbers", "an even count, two for each factor");
  if (in.k.size() != in.q.size())
    refuse("--k", std::to_string(in.k.size()) + " numbers", std::to_string(in.q.size()) + ", as many as --q has");
  in.beta_read = in.beta_write = analysis::beta_star(in.factors());
  if (!s.beta.empty()) in.beta_read = in.beta_write = number_of("--beta", s.beta);
  if (!s.beta_read.empty()) in.beta_read = number_of("--beta-read", s.beta_read);
  if (!s.beta_write.empty()) in.beta_write = number_of("--beta-write", s.beta_write);
  const std::pair<const char*, double> betas[] = {{s.beta.empty() ? "--beta-read" : "--beta", in.beta_read},
                                                  {s.beta.empty() ? "--beta-write" : "--beta", in.beta_write}};
  for (const auto& [option, beta] : betas)
    if (beta < 0) refuse(option, number_text(beta, 17), "0 or more", "A negative temperature is that of -q or -k.");
  analysis::check(in);
  return in;
}

// The sweep's range A:B:N.
std::vector<double> multiples_of(const std::string& text) {
  const size_t first = text.find(':'), second = first == std::string::npos ? first : text.find(':', first + 1);
  if (second == std::string::npos) refuse("--sweep", shown(text), "LOW:HIGH:COUNT such as 0.1:10:201");
  const double low = number_of("--sweep", text.substr(0, first)), high = number_of("--sweep", text.substr(first + 1, second - first - 1));
  const std::string count = text.substr(second + 1);
  int64_t n = 0;
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), n);
  if (error != std::errc() || end != count.data() + count.size()) refuse("--sweep", shown(count) + " points", "a whole number");
  return analysis::spaced(low, high, n, true);
}

// A JSON number of 17 significant digits that reads back to the same double.
std::string exact(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

// exp(log_value) as a decimal number, also where that is above every double (a reader that knows only doubles gets infinity). The log
// knows fewer digits of such a number: no more are written, and from 1e999999999999999 on only that it is so large.
std::string exponential(double log_value) {
  const double value = std::exp(log_value);
  if (std::isfinite(value)) return exact(value);
  const double exponent = std::floor(log_value / std::numbers::ln10);
  if (exponent > 999999999999999.0) return "1e+999999999999999";
  const int digits = std::max(0, 14 - int(std::log10(log_value)));
  char text[64];
  std::snprintf(text, sizeof text, "%.*fe+%.0f", digits, std::exp(log_value - exponent * std::numbers::ln10), exponent);
  return text;
}

struct Answer {
  analysis::KernelInput input;
  analysis::KernelNumbers numbers;
  std::optional<double> brute_force;  // log kappa
  std::string why_no_brute_force;
};

std::string json_of(const Answer& a) {
  const auto& n = a.numbers;
  std::string text = "{\n  \"kappa\": " + exponential(n.log_kappa);
  text += ",\n  \"kappa_bruteforce\": " + (a.brute_force ? exponential(*a.brute_force) : "null");
  text += ",\n  \"target\": " + exponential(n.log_target);
  text += ",\n  \"log_error\": " + exact(n.log_error);
  text += ",\n  \"radius\": " + exact(n.bounds.radius);
  text += ",\n  \"xi\": " + exponential(n.bounds.log_xi);
  text += ",\n  \"bound\": " + (n.bounds.bound ? exact(*n.bounds.bound) : std::string("null"));
  if (!a.brute_force) text += ",\n  \"why_no_bruteforce\": " + Json(a.why_no_brute_force).dump();
  return text + "\n}\n";
}

std::string list_text(const std::vector<int64_t>& list) {
  std::string text;
  for (size_t i = 0; i < list.size() && i < 16; ++i) text += (i ? ", " : "") + std::to_string(list[i]);
  return text + (list.size() > 16 ? ", ..." : "");
}

std::string text_of(const Answer& a) {
  const auto& n = a.numbers;
  const auto& b = n.bounds;
  const auto slots = analysis::slot_count(a.input.codes, a.input.factors());
  Table table({"", ">", ""});
  const auto row = [&](const std::string& name, const std::string& value, const std::string& what) { table.row({name, value, what}); };
  row("codes per factor", std::to_string(a.input.codes), a.input.codes < 4 ? "outside Theorem 1, which wants 4 or more" : "");
  row("factors", std::to_string(a.input.factors()), slots ? count_text(*slots) + " slots" : "more slots than fit in 63 bits");
  row("beta read, write", number_text(a.input.beta_read, 8) + ", " + number_text(a.input.beta_write, 8),
      "beta* = " + number_text(analysis::beta_star(a.input.factors()), 8));
  row("q.k", exact(n.q_dot_k), "");
  row("kappa", exponential(n.log_kappa), "closed form");
  row("", a.brute_force ? exponential(*a.brute_force) : "-", a.brute_force ? "brute force over all addresses" : a.why_no_brute_force);
  row("target", exponential(n.log_target), "exp(beta_read beta_write / 2 q.k)");
  row("log error", exact(n.log_error), "log kappa - log target");
  row("d to infinity", exponential(n.log_kappa_infinite), "I_0 for Z; log error " + number_text(n.log_error_infinite, 6));
  row("hard write", exponential(n.log_kappa_hard),
      "beta_write to infinity; codes of k " + list_text(n.codes_of_k) + (n.tied ? " (a tie: mean over the nearest)" : ""));
  row("ceiling", slots ? std::to_string(*slots) : exponential(n.log_ceiling), "slots: kappa is never above");
  row("radius", exact(b.radius), "max_u max(beta_read |q^u|, beta_write |k^u|)");
  row("xi", exponential(b.log_xi), "2 e^radius radius^d / d!");
  row("bound", b.bound ? exact(*b.bound) : "-",
      b.bound ? "Theorem 2: |log error| is never above" : "xi >= 1: Theorem 2 says nothing here");
  row("", b.quantisation ? exact(*b.quantisation) : "-", "3 U xi / (1 - xi): |log kappa - log kappa(d to infinity)|");
  row("", number_text(b.continuous_lower, 6) + " .. " + number_text(b.continuous_upper, 6), "log error for d to infinity is between");
  const std::string text = table.text();
  return text.substr(text.find('\n') + 1);  // without the empty header
}

int run_theory(const TheorySettings& s, const Console& console) {
  const analysis::KernelInput input = input_of(s);
  const auto multiples = s.out.empty() ? std::vector<double>{} : multiples_of(s.sweep);
  Answer answer{.input = input, .numbers = analysis::kernel_numbers(input), .brute_force = {}, .why_no_brute_force = ""};
  const auto slots = analysis::slot_count(input.codes, input.factors());
  if (slots && *slots <= analysis::kMaxBruteForce)
    answer.brute_force = analysis::log_kappa_brute_force(input);
  else
    answer.why_no_brute_force = std::to_string(input.codes) + "^" + std::to_string(input.factors()) + " addresses, brute force walks at most " +
                                std::to_string(analysis::kMaxBruteForce);
  if (!s.out.empty()) {
    const analysis::TheoryResultOptions options{.multiples = multiples, .pairs = s.pairs, .kind = analysis::pair_kind(s.pair_kind), .seed = s.seed};
    trace::write_result(s.out, analysis::theory_result(input, options), s.force);
    if (!console.json) console.note("wrote " + s.out);
  }
  console.out(console.json ? json_of(answer) : text_of(answer));
  return kExitOk;
}

}  // namespace

void add_ramnet_theory(CLI::App& group, Console& console, Action& chosen) {
  CLI::App* sub = group.add_subcommand("theory", "The address kernel of q and k against the exponential it approximates");
  sub->footer(kFooter);
  auto s = std::make_shared<TheorySettings>();
  sub->add_option("--codes", s->codes, "Codes per factor d, at least 2")->required()->option_text("D");
  sub->add_option("--q", s->q, "The query: 2U numbers")->required()->option_text("Q0,Q1,...");
  sub->add_option("--k", s->k, "The key: 2U numbers")->required()->option_text("K0,K1,...");
  CLI::Option* beta = sub->add_option("--beta", s->beta, "Inverse temperature of reads and writes (default beta* of that U)")->option_text("B");
  sub->add_option("--beta-read", s->beta_read, "Of reads alone")->option_text("BR")->excludes(beta);
  sub->add_option("--beta-write", s->beta_write, "Of writes alone")->option_text("BW")->excludes(beta);
  sub->add_flag("--json", console.json, "One JSON document on standard output and nothing else there")->group("Output");
  CLI::Option* out = sub->add_option("--out", s->out, "Write sweeps over beta and over many pairs (HDF5, slotscope-result)")
                         ->group("Output")->option_text("FILE.h5");
  sub->add_flag("--force", s->force, "Overwrite --out")->group("Output")->needs(out);
  const char* sweeps = "Sweeps (with --out)";
  sub->add_option("--sweep", s->sweep, "Multiples of both betas, in equal ratios (default 0.1:10:201)")
      ->group(sweeps)->option_text("LOW:HIGH:COUNT")->needs(out);
  sub->add_option("--pairs", s->pairs, "Pairs of q and k (default 500)")
      ->check(whole_number(1, uint64_t(analysis::kMaxSweepPoints)))->group(sweeps)->option_text("N")->needs(out);
  sub->add_option("--pair-kind", s->pair_kind, "random-angles (default: lengths kept), random-blocks (lengths drawn too) or turned-key")
      ->group(sweeps)->option_text("KIND")->needs(out);
  sub->add_option("--seed", s->seed, "Of the pairs (default 0)")->check(whole_number(0, UINT64_MAX))->group(sweeps)->option_text("N")->needs(out);
  sub->callback([s, &chosen] { chosen = [s](const Console& c) { return run_theory(*s, c); }; });
}

}  // namespace slotscope::cli
