#include "kernels/address_decode.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace slotscope::kernels {
namespace {

template <class Real>
struct Candidate {
  Real score;
  int32_t slot;
};

// A strict total order: score descending, NaN first, then slot ascending.
template <class Real>
bool before(const Candidate<Real>& a, const Candidate<Real>& b) {
  if (a.score > b.score) return true;
  if (a.score < b.score) return false;
  if (a.score == b.score) return a.slot < b.slot;
  const bool a_nan = std::isnan(a.score), b_nan = std::isnan(b.score);
  return a_nan != b_nan ? a_nan : a.slot < b.slot;
}

// One row after another; the buffers are kept.
template <class Real>
class Decoder {
 public:
  explicit Decoder(const AddressDecodeInput<Real>& in)
      : in_(in),
        slots_(address_slots(in.codes, in.factors)),
        log_p_(size_t(in.codes)),
        sorted_(size_t(in.codes)),
        step_(size_t(in.factors)) {
    int64_t step = 1;
    for (int u = 0; u < in.factors; ++u, step *= in.codes)
      step_[size_t(in.order == SlotOrder::factor0_least ? u : in.factors - 1 - u)] = int32_t(step);
  }

  // The K best, best first. The K best prefixes suffice: with the same suffix, whatever beats a prefix beats all that begins
  // with it. In a factor's list only entries (b, f) with (b+1)(f+1) <= K can be among the K best, because all (b', f')
  // with b' <= b, f' <= f are at least as good (spec: ramnet 1.3).
  const std::vector<Candidate<Real>>& row(const Real* logit) {
    const int64_t K = in_.top_k;
    beam_.assign(1, {Real(0), 0});
    for (int u = 0; u < in_.factors; ++u) {
      sort_factor(logit + int64_t(u) * in_.codes, step_[size_t(u)]);
      next_.clear();
      const int64_t width = std::min<int64_t>(in_.codes, K);
      for (int64_t f = 0; f < width; ++f) {
        const int64_t reach = std::min<int64_t>(int64_t(beam_.size()), K / (f + 1));
        if (reach == 0) break;
        for (int64_t b = 0; b < reach; ++b)
          next_.push_back({beam_[size_t(b)].score + sorted_[size_t(f)].score, beam_[size_t(b)].slot + sorted_[size_t(f)].slot});
      }
      const size_t keep = std::min<size_t>(next_.size(), size_t(K));
      std::partial_sort(next_.begin(), next_.begin() + std::ptrdiff_t(keep), next_.end(), before<Real>);
      next_.resize(keep);
      std::swap(beam_, next_);
    }
    return beam_;
  }

  int64_t slots() const { return slots_; }

 private:
  void sort_factor(const Real* logit, int32_t step) {
    if (in_.normalised)
      std::copy(logit, logit + in_.codes, log_p_.begin());
    else
      log_softmax(logit, in_.codes, log_p_.data());
    for (int j = 0; j < in_.codes; ++j) sorted_[size_t(j)] = {log_p_[size_t(j)], j * step};
    std::sort(sorted_.begin(), sorted_.end(), before<Real>);
  }

  const AddressDecodeInput<Real>& in_;
  int64_t slots_;
  std::vector<Real> log_p_;
  std::vector<Candidate<Real>> sorted_;
  std::vector<int32_t> step_;
  std::vector<Candidate<Real>> beam_, next_;
};

}  // namespace

int64_t address_slots(int codes, int factors) {
  if (codes < 1 || factors < 1) return 0;
  if (codes == 1) return 1;
  int64_t slots = 1;
  for (int u = 0; u < factors; ++u) {
    slots *= codes;
    if (slots > kMaxAddressSlots) return 0;
  }
  return slots;
}

template <class Real>
void log_softmax(const Real* logit, int n, Real* log_p) {
  Real most = -std::numeric_limits<Real>::infinity();
  for (int j = 0; j < n; ++j) most = std::max(most, logit[j]);
  Real sum = 0, rest = 0;  // the sum with what rounding took from it, so that it is right to the last bit for common n
  for (int j = 0; j < n; ++j) {
    const Real x = std::exp(logit[j] - most), next = sum + x;
    rest += sum >= x ? (sum - next) + x : (x - next) + sum;
    sum = next;
  }
  const Real log_sum = most + std::log(sum + rest);
  for (int j = 0; j < n; ++j) log_p[j] = logit[j] - log_sum;
}

template <class Real>
void select_addresses_cpu(const AddressDecodeInput<Real>& in, const AddressDecodeOutput<Real>& out, int64_t first,
                          int64_t last) {
  Decoder<Real> decoder(in);
  const int64_t K = in.top_k, M = decoder.slots(), row_logits = int64_t(in.factors) * in.codes;
  for (int64_t row = first; row < last; ++row) {
    const auto& best = decoder.row(in.logit + row * row_logits);
    int64_t shift = 0;
    if (in.cape && in.cape[row % in.heads]) {
      const int64_t position = (in.first_position + row / in.heads % in.tokens) % M;
      shift = in.direction > 0 ? position : (M - position) % M;
    }
    Real kept = 0;
    for (int64_t k = 0; k < K; ++k) {
      const Real weight = std::exp(best[size_t(k)].score);
      kept += weight;
      out.slot[row * K + k] = int32_t((best[size_t(k)].slot + shift) % M);
      out.weight[row * K + k] = weight;
      if (out.score) out.score[row * K + k] = best[size_t(k)].score;
    }
    if (out.lost) out.lost[row] = K == M ? Real(0) : std::isnan(kept) ? kept : std::max(Real(0), 1 - kept);
  }
}

template void select_addresses_cpu(const AddressDecodeInput<float>&, const AddressDecodeOutput<float>&, int64_t, int64_t);
template void select_addresses_cpu(const AddressDecodeInput<double>&, const AddressDecodeOutput<double>&, int64_t, int64_t);
template void log_softmax(const float*, int, float*);
template void log_softmax(const double*, int, double*);

#ifndef SLOTSCOPE_HAS_CUDA
void select_addresses_cuda(const AddressDecodeInput<float>&, const AddressDecodeOutput<float>&, void*) {
  throw std::logic_error("select_addresses_cuda: this build has no CUDA kernels");
}
void select_addresses_cuda(const AddressDecodeInput<double>&, const AddressDecodeOutput<double>&, void*) {
  throw std::logic_error("select_addresses_cuda: this build has no CUDA kernels");
}
#endif

}  // namespace slotscope::kernels
