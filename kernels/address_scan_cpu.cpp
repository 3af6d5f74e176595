#include "kernels/address_scan.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/address_gate.h"

// One body compiled for several instruction sets: elements do not depend on each other and products are never contracted
// (see the -ffp-contract=off of this file), so every variant gives the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define SLOTSCOPE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SLOTSCOPE_CLONES
#endif

namespace slotscope::kernels {
namespace {

#define SLOTSCOPE_DEFINE_PRIMITIVES(Real)                                                     \
  SLOTSCOPE_CLONES void move(Real* s, const Real* v, int width, Real keep, Real strength) {   \
    for (int i = 0; i < width; ++i) s[i] = keep * s[i] + strength * v[i];                     \
  }                                                                                           \
  SLOTSCOPE_CLONES void add(Real* o, const Real* s, int width, Real p) {                      \
    for (int i = 0; i < width; ++i) o[i] += p * s[i];                                         \
  }
SLOTSCOPE_DEFINE_PRIMITIVES(float)
SLOTSCOPE_DEFINE_PRIMITIVES(double)
#undef SLOTSCOPE_DEFINE_PRIMITIVES

// One (batch, head) pair.
template <class Real>
class Memory {
 public:
  Memory(const AddressScanInput<Real>& in, const AddressScanOutput<Real>& out, int64_t pair)
      : in_(in),
        out_(out),
        batch_(pair / in.heads),
        head_(pair % in.heads),
        mass_(out.mass + pair * in.slots),
        state_(out.state + pair * in.slots * in.d_v),
        written_(out.written ? out.written + pair * in.slots : nullptr),
        p_(size_t(in.top_k)) {}

  void token(int64_t t) {
    const int64_t at = (batch_ * in_.tokens + t) * in_.heads + head_;
    const Real* value = in_.value + at * in_.d_v;
    const Real gamma = in_.gamma ? in_.gamma[at] : in_.gamma_of_all;
    for (int64_t i = at * in_.top_k; i < (at + 1) * in_.top_k; ++i) write(i, gamma, value);
    read(at);
    if (in_.read_row && in_.read_row[t] >= 0 && in_.read_row[t] < in_.read_rows) store_row(at, in_.read_row[t]);
  }

 private:
  bool valid(int32_t slot) const { return slot >= 0 && slot < in_.slots; }

  void write(int64_t i, Real gamma, const Real* value) {
    const int32_t slot = in_.write_index[i];
    const Real w = in_.write_weight[i];
    Real strength = 0, log_gate = 0;
    if (valid(slot) && !(w <= 0)) {
      const Real old = mass_[slot];
      Real keep;
      if (in_.update == AddressUpdate::gsu) {
        const Real kept = gsu_retention(w, gamma, in_.cumulative) * old, total = kept + w + in_.eps;
        mass_[slot] = kept + w;
        keep = (kept + in_.eps) / total;
        strength = w / total;
        if (out_.log_gate) log_gate = gsu_log_keep_per_weight(w, kept, in_.eps);
      } else {
        keep = pdma_retention(w, gamma);
        mass_[slot] = keep * old + w;
        strength = w;
        if (out_.log_gate) log_gate = pdma_log_keep_per_weight(w, gamma);
      }
      move(state_ + int64_t(slot) * in_.d_v, value, in_.d_v, keep, strength);
      if (written_) written_[slot] = 1;
    }
    if (out_.strength) out_.strength[i] = strength;
    if (out_.log_gate) out_.log_gate[i] = log_gate;
  }

  void read(int64_t at) {
    const int64_t first = at * in_.top_k;
    Real reached = 0, sum = 0;
    for (int k = 0; k < in_.top_k; ++k) {
      const int32_t slot = in_.read_index[first + k];
      p_[size_t(k)] = 0;
      if (!valid(slot)) continue;
      const Real r = in_.read_weight[first + k], m = mass_[slot], divisor = m + in_.eps;
      sum += r * m;
      if (written_ ? written_[slot] != 0 : m != 0) reached += r;
      const Real weight = in_.readout == AddressReadout::mass_aware ? r * m : r;
      p_[size_t(k)] = in_.update == AddressUpdate::gsu ? weight : divisor == 0 ? Real(0) : weight / divisor;
    }
    Real* o = out_.output + at * in_.d_v;
    std::fill(o, o + in_.d_v, Real(0));
    for (int k = 0; k < in_.top_k; ++k) {
      const int32_t slot = in_.read_index[first + k];
      if (!valid(slot)) continue;
      if (in_.readout == AddressReadout::mass_aware) p_[size_t(k)] = sum == 0 ? Real(0) : p_[size_t(k)] / sum;
      add(o, state_ + int64_t(slot) * in_.d_v, in_.d_v, p_[size_t(k)]);
    }
    if (out_.read_mass_written) out_.read_mass_written[at] = reached;
  }

  void store_row(int64_t at, int64_t row) {
    Real* to = out_.read_weight + ((batch_ * in_.read_rows + row) * in_.heads + head_) * in_.slots;
    std::fill(to, to + in_.slots, Real(0));
    for (int k = 0; k < in_.top_k; ++k)
      if (const int32_t slot = in_.read_index[at * in_.top_k + k]; valid(slot)) to[slot] = p_[size_t(k)];
  }

  const AddressScanInput<Real>& in_;
  const AddressScanOutput<Real>& out_;
  int64_t batch_, head_;
  Real *mass_, *state_;
  uint8_t* written_;
  std::vector<Real> p_;  // of the token's read slots
};

}  // namespace

template <class Real>
void check_address_scan(const AddressScanInput<Real>& in, const AddressScanOutput<Real>& out) {
  const auto need = [](bool ok, const char* what) {
    if (!ok) throw std::invalid_argument(std::string("address_scan: ") + what);
  };
  need(in.batch >= 0 && in.tokens >= 0 && in.heads >= 0 && in.read_rows >= 0, "a size is negative");
  need(in.slots >= 1 && in.top_k >= 1 && in.d_v >= 1, "slots, top_k and d_v must be at least 1");
  need(in.eps >= 0, "eps must not be negative");
  if (in.update == AddressUpdate::pdma) {
    need(!in.gamma, "the PDMA update has one gamma for all tokens");
    need(in.gamma_of_all >= 0, "gamma of the PDMA update must not be negative");
    need(!in.cumulative, "the PDMA update is cumulative by gamma 0, not by a flag");
    need(!out.read_mass_written || out.written, "read_mass_written of the PDMA update needs `written`");
  }
  if (in.batch == 0 || in.tokens == 0 || in.heads == 0) return;
  need(in.write_index && in.write_weight && in.read_index && in.read_weight && in.value, "an input is missing");
  need(out.mass && out.state && out.output, "mass, state and output are needed");
  need(!in.read_row || out.read_weight, "read_row needs read_weight");
}

template <class Real>
void address_scan_cpu(const AddressScanInput<Real>& in, const AddressScanOutput<Real>& out, int64_t first, int64_t last) {
  check_address_scan(in, out);
  for (int64_t pair = first; pair < last; ++pair) {
    Memory<Real> memory(in, out, pair);
    for (int64_t t = 0; t < in.tokens; ++t) memory.token(t);
  }
}

template void check_address_scan(const AddressScanInput<float>&, const AddressScanOutput<float>&);
template void check_address_scan(const AddressScanInput<double>&, const AddressScanOutput<double>&);
template void address_scan_cpu(const AddressScanInput<float>&, const AddressScanOutput<float>&, int64_t, int64_t);
template void address_scan_cpu(const AddressScanInput<double>&, const AddressScanOutput<double>&, int64_t, int64_t);

#ifndef SLOTSCOPE_HAS_CUDA
void address_scan_cuda(const AddressScanInput<float>&, const AddressScanOutput<float>&, void*) {
  throw std::logic_error("address_scan_cuda: this build has no CUDA kernels");
}
void address_scan_cuda(const AddressScanInput<double>&, const AddressScanOutput<double>&, void*) {
  throw std::logic_error("address_scan_cuda: this build has no CUDA kernels");
}
#endif

}  // namespace slotscope::kernels
