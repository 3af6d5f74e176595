// Codebook, partition function, modified Bessel functions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "core/analysis/product_code.h"
#include "core/analysis/product_code_internal.h"
#include "core/error.h"
#include "core/formats/config.h"

namespace slotscope::analysis {

using internal::log_sum_exp;

namespace internal {

void check_codes(int64_t codes) {
  if (codes >= 2 && codes <= kMaxCodes) return;
  throw Error({.item = "codes per factor (d_p)",
               .found = std::to_string(codes),
               .expected = "2 to " + std::to_string(kMaxCodes),
               .advice = codes == 1 ? "With one code every address is the same: no query can be told from another." : ""},
              Error::Kind::usage);
}

void check_vector(std::span<const double> x, double beta, const char* name) {
  if (x.empty() || x.size() % 2 != 0 || int64_t(x.size()) / 2 > kMaxFactors)
    throw Error({.item = name,
                 .found = std::to_string(x.size()) + " numbers",
                 .expected = "two for each factor, 1 to " + std::to_string(kMaxFactors) + " factors"},
                Error::Kind::usage);
  for (size_t i = 0; i < x.size(); ++i)
    if (!(std::abs(x[i] * beta) <= kMaxLogit))
      throw Error({.item = std::string(name) + ", number " + std::to_string(i),
                   .found = formats::number_text(x[i]) + (beta == 1 ? "" : " with beta " + formats::number_text(beta)),
                   .expected = "finite, and with beta at most 1e150"},
                  Error::Kind::usage);
}

int64_t checked_slots(int64_t codes, int64_t factors, int64_t limit, const char* what) {
  const auto slots = slot_count(codes, factors);
  if (slots && *slots <= limit) return *slots;
  throw Error({.item = what,
               .found = std::to_string(codes) + "^" + std::to_string(factors) +
                        (slots ? " = " + std::to_string(*slots) : std::string()) + " addresses",
               .expected = "at most " + std::to_string(limit),
               .advice = "The closed form has no such limit; fewer factors or codes make every address countable."},
              Error::Kind::usage);
}

double log_sum_exp(std::span<const double> values) {
  const double most = *std::max_element(values.begin(), values.end());
  if (!std::isfinite(most)) return most;
  double sum = 0;
  for (const double v : values) sum += std::exp(v - most);
  return most + std::log(sum);
}

double log1p_minus(double z) {
  if (std::abs(z) > 0.5) return std::log1p(z) - z;
  double sum = 0, power = -z * z;
  for (int k = 2; k < 80; ++k, power *= -z) {
    sum += power / k;
    if (std::abs(power) < 1e-18 * std::abs(sum)) break;
  }
  return sum;
}

}  // namespace internal

CircularCodebook circular_codebook(int64_t codes) {
  internal::check_codes(codes);
  CircularCodebook book;
  book.cos.resize(size_t(codes));
  book.sin.resize(size_t(codes));
  for (int64_t j = 0; j < codes; ++j) {
    // Angle within its quarter turn is rest / codes of it; beyond the half of that, the mirror image.
    const int64_t quarter = 4 * j / codes, rest = 4 * j % codes;
    const int64_t part = std::min(rest, codes - rest);
    const double angle = std::numbers::pi / 2 * double(part) / double(codes);
    double c = std::cos(angle), s = std::sin(angle);
    if (2 * rest == codes) c = s = std::numbers::sqrt2 / 2;
    if (2 * rest > codes) std::swap(c, s);
    const double turned[4][2] = {{c, s}, {-s, c}, {-c, -s}, {s, -c}};
    book.cos[size_t(j)] = turned[quarter][0] + 0.0;  // -0 becomes 0
    book.sin[size_t(j)] = turned[quarter][1] + 0.0;
  }
  return book;
}

std::optional<int64_t> slot_count(int64_t codes, int64_t factors) {
  internal::check_codes(codes);
  if (factors < 1)
    throw Error({.item = "factors (U)", .found = std::to_string(factors), .expected = "at least 1"}, Error::Kind::usage);
  int64_t slots = 1;
  for (int64_t u = 0; u < factors; ++u) {
    if (slots > std::numeric_limits<int64_t>::max() / codes) return std::nullopt;
    slots *= codes;
  }
  return slots;
}

std::vector<double> factor_log_softmax(const CircularCodebook& book, double x, double y) {
  std::vector<double> out(book.cos.size());
  for (size_t j = 0; j < out.size(); ++j) out[j] = book.cos[j] * x + book.sin[j] * y;
  const double most = *std::max_element(out.begin(), out.end());
  double sum = 0;
  for (double& v : out) sum += std::exp(v -= most);
  const double log_sum = std::log(sum);
  for (double& v : out) v -= log_sum;
  return out;
}

double log_partition(const CircularCodebook& book, double x, double y) {
  std::vector<double> logits(book.cos.size());
  for (size_t j = 0; j < logits.size(); ++j) logits[j] = book.cos[j] * x + book.sin[j] * y;
  return log_sum_exp(logits) - std::log(double(logits.size()));
}

double log_partition(int64_t codes, double x, double y) {
  const double point[] = {x, y};
  internal::check_vector(point, 1, "x");
  return log_partition(circular_codebook(codes), x, y);
}

namespace {

double checked_radius(double rho) {
  if (rho >= 0 && rho <= kMaxLogit) return rho;
  throw Error({.item = "radius of a Bessel function", .found = std::to_string(rho), .expected = "0 to 1e150"},
              Error::Kind::usage);
}

// I_0 - 1 by its power series, whose terms are all positive. rho <= 30.
double bessel_i0_minus_1(double rho) {
  const double quarter = rho * rho / 4;
  double term = 1, sum = 0;
  for (int k = 1; k < 500; ++k) {
    term *= quarter / (double(k) * k);
    sum += term;
    if (!(term > 1e-18 * sum)) break;
  }
  return sum;
}

}  // namespace

namespace internal {

double log_scaled_bessel_i0(double rho) {
  if (rho <= 30) return std::log1p(bessel_i0_minus_1(rho)) - rho;
  // e^-rho I_0 ~ 1 / sqrt(2 pi rho) sum ((2k-1)!!)^2 / (k! (8 rho)^k); from 30 on the smallest term is below e^-60.
  double term = 1, sum = 0;
  for (int k = 1; k < 40; ++k) {
    term *= double(2 * k - 1) * (2 * k - 1) / (8.0 * k * rho);
    sum += term;
    if (!(term > 1e-18 * sum)) break;
  }
  return std::log1p(sum) - 0.5 * std::log(2 * std::numbers::pi * rho);
}

double log_bessel_excess(double rho) {
  if (rho > 1) return log_scaled_bessel_i0(rho) + rho - rho * rho / 4;
  const double quarter = rho * rho / 4;
  double term = quarter, above = 0;  // I_0 - 1 - rho^2 / 4
  for (int k = 2; k < 60; ++k) {
    term *= quarter / (double(k) * k);
    above += term;
    if (!(term > 1e-18 * above)) break;
  }
  return log1p_minus(quarter + above) + above;
}

}  // namespace internal

double log_bessel_i0(double rho) {
  checked_radius(rho);
  return rho <= 30 ? std::log1p(bessel_i0_minus_1(rho)) : internal::log_scaled_bessel_i0(rho) + rho;
}

std::vector<double> scaled_bessel_i(double rho, int64_t at_least) {
  if (!(rho >= 0 && rho <= kMaxSeriesRadius))
    throw Error({.item = "radius of a Bessel series",
                 .found = std::to_string(rho),
                 .expected = "0 to 1e6",
                 .advice = "The partition function itself has no such limit."},
                Error::Kind::usage);
  if (at_least < 0 || at_least > kMaxCodes)
    throw Error({.item = "order of a Bessel function", .found = std::to_string(at_least),
                 .expected = "0 to " + std::to_string(kMaxCodes)}, Error::Kind::usage);
  // I_n / I_0 falls like exp(-n^2 / 2 rho) and faster: beyond `last` everything is below 1e-40 of I_0.
  const int64_t needed = int64_t(std::ceil(14 * std::sqrt(rho))) + 60;
  const int64_t last = std::max(needed, at_least + 60);
  std::vector<double> out(size_t(last) + 1, 0.0);
  if (rho <= 1) {  // power series: (rho/2)^n / n! sum_k (rho^2/4)^k n! / (k! (n + k)!)
    double lead = std::exp(-rho);
    for (int64_t n = 0; n <= last; ++n) {
      if (n > 0) lead *= rho / 2 / double(n);
      double term = 1, sum = 0;
      for (int k = 1; k < 30; ++k) {
        sum += term;
        term *= rho * rho / 4 / (k * double(n + k));
        if (!(term > 1e-18 * sum)) break;
      }
      out[size_t(n)] = lead * sum;
    }
    return out;
  }
  double above = 0, here = 1e-300, sum = 0;
  out[size_t(last)] = here;
  for (int64_t n = last; n > 0; --n) {
    const double below = above + 2.0 * double(n) / rho * here;
    above = here;
    here = below;
    out[size_t(n) - 1] = here;
    if (here > 1e250) {  // keep in range: what is lost at the top is below 1e-500 of I_0
      for (int64_t i = n - 1; i <= last && out[size_t(i)] > 0; ++i) out[size_t(i)] *= 1e-250;
      above *= 1e-250;
      here *= 1e-250;
    }
  }
  for (int64_t n = last; n > 0; --n) sum += 2 * out[size_t(n)];
  sum += out[0];
  for (double& v : out) v /= sum;
  return out;
}

PartitionSeries partition_series(int64_t codes, double rho, double arg) {
  internal::check_codes(codes);
  if (!std::isfinite(arg))
    throw Error({.item = "angle", .found = std::to_string(arg), .expected = "a finite number"}, Error::Kind::usage);
  const auto bessel = scaled_bessel_i(rho, codes);
  PartitionSeries out;
  out.scaled_i0 = bessel[0];
  out.scaled_first = bessel[size_t(codes)];
  for (int64_t n = (int64_t(bessel.size()) - 1) / codes * codes; n > 0; n -= codes)  // smallest first
    out.scaled_correction += 2 * bessel[size_t(n)] * std::cos(double(n) * arg);
  out.scaled_z = out.scaled_i0 + out.scaled_correction;
  out.relative_deviation = out.scaled_correction / out.scaled_i0;
  out.log_bound = rho == 0 ? -std::numeric_limits<double>::infinity()
                           : std::numbers::ln2 + rho / 2 + double(codes) * std::log(rho / 2) -
                                 std::lgamma(double(codes) + 1);
  return out;
}

}  // namespace slotscope::analysis
