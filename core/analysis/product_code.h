// Theory of product-softmax addresses over the circular codebook (spec: ramnet 1.4, 2): the address kernel kappa_A in closed form
// and by brute force, its limits, the exponential it approximates, and the bounds of Theorem 2.
//
// Throughout: d = codes per factor, U = factors, M = d^U slots; vectors x, q, k are [2U], factor u at 2u and 2u + 1;
// c_j = (cos 2 pi j/d, sin 2 pi j/d); p_beta(j|x) = softmax_j(beta c_j . x). All functions are pure, in float64, and throw Error for
// d < 2 or d > kMaxCodes, U < 1, sizes that do not fit, and numbers that are not finite or too large to be added (kMaxLogit).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace slotscope::analysis {

inline constexpr int64_t kMaxCodes = int64_t{1} << 20;        // d
inline constexpr int64_t kMaxFactors = int64_t{1} << 20;      // U
inline constexpr int64_t kMaxBruteForce = int64_t{1} << 24;   // d^U of a walk over every address
inline constexpr double kMaxLogit = 1e150;                    // beta |x^u|: products of two stay finite
inline constexpr double kMaxSeriesRadius = 1e6;               // rho of a Bessel series

// --- codebook and addresses ---

// The d unit vectors c_j. Symmetric to the last bit: quarter turns and mirror images are exact, so that ties are ties.
struct CircularCodebook {
  std::vector<double> cos, sin;  // [d]
  int64_t codes() const { return int64_t(cos.size()); }
};
CircularCodebook circular_codebook(int64_t codes);

// d^U, or nothing when that is above INT64_MAX.
std::optional<int64_t> slot_count(int64_t codes, int64_t factors);
// log p(j | x) of one factor, [d]; (x, y) has beta in it already. The largest is found first, so nothing overflows.
std::vector<double> factor_log_softmax(const CircularCodebook& book, double x, double y);
// log p_beta of every factor, [U*d], factor by factor.
std::vector<double> log_softmax(int64_t codes, std::span<const double> x, double beta);
// log of the product distribution over all M flat slot indices, factor 0 least significant (1.2). M <= kMaxBruteForce.
std::vector<double> address_log_probabilities(int64_t codes, std::span<const double> x, double beta);

// --- the partition function Z_d(x) = (1/d) sum_j exp(c_j . x) ---

double log_partition(const CircularCodebook& book, double x, double y);
double log_partition(int64_t codes, double x, double y);

// log I_0(rho), rho >= 0, to about 1e-15 (relative where rho is small): what log Z tends to for d to infinity.
double log_bessel_i0(double rho);
// exp(-rho) I_n(rho) for n = 0 .. (as many as are not negligible, at least `at_least` + 1), rho in [0, kMaxSeriesRadius]. Miller's
// backward recurrence, normalised by e^rho = I_0 + 2 sum I_n, whose terms are all positive.
std::vector<double> scaled_bessel_i(double rho, int64_t at_least);

// Z = I_0(rho) + 2 sum_{l >= 1} I_{l d}(rho) cos(l d arg x) with rho = |x|. Every number has exp(-rho) in it ("scaled"), so that it
// stays in range; where Z is far below I_0 its digits cancel, and log_partition is the better one.
struct PartitionSeries {
  double scaled_i0 = 0;
  double scaled_correction = 0;  // 2 sum of the series
  double scaled_first = 0;       // I_d
  double scaled_z = 0;
  double relative_deviation = 0;  // Z / I_0 - 1
  double log_bound = 0;           // log of 2 e^{rho/2} (rho/2)^d / d!, never below log |Z / I_0 - 1|
};
PartitionSeries partition_series(int64_t codes, double rho, double arg);

// --- the address kernel ---

struct KernelInput {
  int64_t codes = 4;             // d
  std::vector<double> q, k;      // [2U] each
  double beta_read = 1, beta_write = 1;  // >= 0; beta = 0 gives the limit kappa = 1
  int64_t factors() const { return int64_t(q.size()) / 2; }
};
// Throws what the head of this file says.
void check(const KernelInput& input);

// sqrt(2 / tau), the beta at which beta^2 / 2 q.k = q.k / tau.
double beta_star_of_tau(double tau);
// tau = sqrt(2U): the migration's beta*.
double beta_star(int64_t factors);

// What Theorem 2 and its sharper pieces say of an input whose radius is M = max_u max(beta_r |q^u|, beta_w |k^u|).
struct KernelBounds {
  double radius = 0;          // M (not the slot count)
  double log_xi = 0;          // xi = 2 e^M M^d / d!; -inf for M = 0
  double xi = 0;              // 0 .. infinity, never NaN
  // U (M^4 / 4 + 3 xi / (1 - xi)); nothing where xi >= 1: the theorem is silent there.
  std::optional<double> bound;
  std::optional<double> quantisation;  // 3 U xi / (1 - xi) >= |log kappa_A - log kappa_inf|
  double continuous_lower = 0, continuous_upper = 0;  // -U M^4 / 4 <= log kappa_inf - target <= U M^4 / 32
};
KernelBounds kernel_bounds(int64_t codes, int64_t factors, double radius);
// The radius at which xi reaches `xi` (> 0) for this d, by bisection: where Theorem 2 ends for xi = 1.
double radius_of_xi(int64_t codes, double xi);
double kernel_radius(const KernelInput& input);

struct KernelNumbers {
  double log_kappa = 0, kappa = 0;                    // M sum_a r(a) w(a), closed form
  double log_kappa_infinite = 0, kappa_infinite = 0;  // d to infinity: I_0 in place of Z
  double log_kappa_hard = 0, kappa_hard = 0;          // beta_w to infinity: exp(beta_r q.k_hat) / prod_u Z(beta_r q^u)
  std::vector<int64_t> codes_of_k, codes_of_q;        // [U] nearest codes, the lower one of a tie
  bool tied = false;        // some k^u lies between codes (or is 0): the limit is the mean over its nearest codes
  double log_ceiling = 0;   // U log d: kappa_A never exceeds the number of slots
  double q_dot_k = 0;
  double log_target = 0, target = 0;  // (beta_r beta_w / 2) q.k and its exponential; infinity above the range of a double
  double log_error = 0;               // log kappa - log target; keeps its digits for beta to 0, where both agree (d >= 3)
  double log_error_infinite = 0;
  KernelBounds bounds;
};
KernelNumbers kernel_numbers(const KernelInput& input);
// Only log kappa_A.
double log_kappa(const KernelInput& input);
double log_kappa_infinite(const KernelInput& input);

// log of M sum_a r(a) w(a), term by term over all M addresses. Throws Error with advice when M > kMaxBruteForce.
double log_kappa_brute_force(const KernelInput& input);

// --- what a set of keys gets in the limits; `keys` is [N*2U]; every result [N] ---

// softmax_s(q.k_s / tau): full attention.
std::vector<double> attention_weights(std::span<const double> q, std::span<const double> keys, double tau);
// kappa_A(q, k_s) / sum: the mass-aware readout after cumulative averaging of full addresses.
std::vector<double> cumulative_weights(const KernelInput& input, std::span<const double> keys);
// The same for d to infinity.
std::vector<double> infinite_weights(const KernelInput& input, std::span<const double> keys);
// sum_a r(a) w_s(a) / sum_j w_j(a): the standard readout of the same memory. M <= kMaxBruteForce / N.
std::vector<double> cumulative_standard_weights(const KernelInput& input, std::span<const double> keys);
// softmax_s(beta_r q.k_hat_s): hard write, attention over product-quantised keys (ties as in KernelNumbers).
std::vector<double> hard_write_weights(const KernelInput& input, std::span<const double> keys);

// --- positions: CAPE and RoPE (1.4, 5.2) ---

// The slot that flat index `slot` becomes at position t: (slot + direction t) mod M. slot in [0, M), direction +1 or -1, M >= 1.
int64_t cape_slot(int64_t slot, int64_t slots, int64_t t, int direction);
// Digit by digit without carry, slot in [0, d^U): what CAPE is not, except for U = 1 or digits that do not carry.
int64_t carry_free_slot(int64_t slot, int64_t codes, int64_t factors, int64_t t, int direction);
// Blocks of x turned by direction * t * 2 pi / d^(u+1): the rotation whose rate CAPE has.
std::vector<double> rope_rotated(int64_t codes, std::span<const double> x, int64_t t, int direction);

struct PositionComparison {  // log probabilities over all M slots
  std::vector<double> unshifted, cape, rope, carry_free;
  double cape_minus_rope = 0, cape_minus_carry_free = 0;  // largest absolute differences
};
PositionComparison compare_positions(int64_t codes, std::span<const double> x, double beta, int64_t t, int direction = 1);

}  // namespace slotscope::analysis
