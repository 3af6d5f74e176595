// Shared by product_code*.cpp only.
#pragma once

#include <cstdint>
#include <span>

namespace slotscope::analysis::internal {

void check_codes(int64_t codes);
// Two numbers a factor, finite, and beta times each within kMaxLogit. `name`: of the vector in the message.
void check_vector(std::span<const double> x, double beta, const char* name);
// d^U where it is at most `limit`; Error with advice otherwise.
int64_t checked_slots(int64_t codes, int64_t factors, int64_t limit, const char* what);

double log_sum_exp(std::span<const double> values);  // not empty; the largest is taken out first
double log1p_minus(double z);                        // log(1 + z) - z, with its digits for small z
double log_scaled_bessel_i0(double rho);             // log I_0(rho) - rho
double log_bessel_excess(double rho);                // log I_0(rho) - rho^2 / 4, with its digits for small rho

}  // namespace slotscope::analysis::internal
