#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "kernels/address_decode.h"
#include "kernels/value_field.h"

namespace slotscope::kernels {
namespace {

template <class Real>
int64_t slots_of(const AddressField<Real>& in) {
  return in.factors == 2 ? int64_t(in.codes) * in.codes : in.codes;
}

// Writes one cell from its sums: numerator [channels], its divisor, the read mass.
template <class Real>
void put_cell(const AddressField<Real>& in, int64_t cell, const Real* sum, Real divisor, Real read_mass) {
  in.read_mass[cell] = read_mass;
  Real* out = in.field + cell * in.channels;
  if (!in.mass_aware && !in.divide) {
    std::copy(sum, sum + in.channels, out);
    if (in.empty) in.empty[cell] = 0;
    return;
  }
  const Real by = in.mass_aware ? divisor : read_mass;
  const bool empty = by < kLeastDivisor<Real>;
  if (in.empty) in.empty[cell] = empty;
  for (int c = 0; c < in.channels; ++c) out[c] = empty ? Real(0) : sum[c] / by;
}

// What a slot adds per unit of p: [channels] of the numerator, its share of the divisor, 1 where it was written.
template <class Real>
std::vector<Real> slot_columns(const AddressField<Real>& in) {
  const int64_t M = slots_of(in), wide = in.channels + 2;
  std::vector<Real> column(size_t(M * wide));
  for (int64_t a = 0; a < M; ++a) {
    Real* to = &column[size_t(a * wide)];
    for (int c = 0; c < in.channels; ++c)
      to[c] = in.mass_aware ? in.mass[a] * in.value[a * in.channels + c] : in.value[a * in.channels + c];
    to[in.channels] = in.mass[a];
    to[in.channels + 1] = in.mass[a] > 0;
  }
  return column;
}

template <class Real>
void keep_nearest(Real* logit, int n) {
  const Real most = *std::max_element(logit, logit + n);
  for (int j = 0; j < n; ++j) logit[j] = logit[j] == most ? Real(0) : -std::numeric_limits<Real>::infinity();
}

template <class Real>
void softmax_row(const AddressField<Real>& in, const Real* logit, Real* p) {
  const int n = in.codes;
  std::copy(logit, logit + n, p);
  if (in.nearest_only) keep_nearest(p, n);
  log_softmax(p, n, p);
  for (int j = 0; j < n; ++j) p[j] = std::exp(p[j]);
}

// All slots of two factors: what a grid column reads of each code of factor 1 is made once and serves all rows.
template <class Real>
void all_slots_of_two(const AddressField<Real>& in, int first, int last) {
  const int d = in.codes, wide = in.channels + 2;
  const auto column = slot_columns(in);
  std::vector<Real> folded(size_t(in.nx) * size_t(d) * size_t(wide)), p(static_cast<size_t>(d)), sum(static_cast<size_t>(wide));
  for (int ix = 0; ix < in.nx; ++ix) {
    softmax_row(in, in.logit_x + int64_t(ix) * d, p.data());
    for (int code1 = 0; code1 < d; ++code1) {
      Real* to = &folded[(size_t(ix) * size_t(d) + size_t(code1)) * size_t(wide)];
      const Real* from = &column[size_t(code1) * size_t(d) * size_t(wide)];
      for (int code0 = 0; code0 < d; ++code0)
        for (int k = 0; k < wide; ++k) to[k] += p[size_t(code0)] * from[code0 * wide + k];
    }
  }
  for (int iy = first; iy < last; ++iy) {
    softmax_row(in, in.logit_y + int64_t(iy) * d, p.data());
    for (int ix = 0; ix < in.nx; ++ix) {
      const Real* from = &folded[size_t(ix) * size_t(d) * size_t(wide)];
      std::fill(sum.begin(), sum.end(), Real(0));
      for (int code1 = 0; code1 < d; ++code1)
        for (int k = 0; k < wide; ++k) sum[size_t(k)] += p[size_t(code1)] * from[code1 * wide + k];
      put_cell(in, int64_t(iy) * in.nx + ix, sum.data(), sum[size_t(in.channels)], sum[size_t(in.channels) + 1]);
    }
  }
}

template <class Real>
void add_logits(const AddressField<Real>& in, int ix, int iy, Real* logit) {
  for (int j = 0; j < in.codes; ++j) {
    const Real x = in.logit_x[int64_t(ix) * in.codes + j], y = in.logit_y[int64_t(iy) * in.codes + j];
    if (in.factors == 2)
      logit[j] = x, logit[in.codes + j] = y;
    else
      logit[j] = x + y;
  }
}

template <class Real>
void all_slots_of_one(const AddressField<Real>& in, int first, int last) {
  const int d = in.codes, wide = in.channels + 2;
  const auto column = slot_columns(in);
  std::vector<Real> p(static_cast<size_t>(d)), logit(static_cast<size_t>(d)), sum(static_cast<size_t>(wide));
  for (int iy = first; iy < last; ++iy)
    for (int ix = 0; ix < in.nx; ++ix) {
      add_logits(in, ix, iy, logit.data());
      softmax_row(in, logit.data(), p.data());
      std::fill(sum.begin(), sum.end(), Real(0));
      for (int code = 0; code < d; ++code)
        for (int k = 0; k < wide; ++k) sum[size_t(k)] += p[size_t(code)] * column[size_t(code) * size_t(wide) + size_t(k)];
      put_cell(in, int64_t(iy) * in.nx + ix, sum.data(), sum[size_t(in.channels)], sum[size_t(in.channels) + 1]);
    }
}

// Decodes one row of cells after another; the buffers are kept.
template <class Real>
class RowReader {
 public:
  explicit RowReader(const AddressField<Real>& in)
      : in_(in), wide_(size_t(in.factors) * size_t(in.codes)), logit_(size_t(in.nx) * wide_) {
    decode_.logit = logit_.data();
    decode_.batch = 1, decode_.tokens = in.nx, decode_.heads = 1;
    decode_.factors = in.factors, decode_.codes = in.codes;
    decode_.top_k = int(std::min(in.top_k, slots_of(in)));
  }
  void read(int iy, int32_t* slot, Real* weight) {
    for (int ix = 0; ix < in_.nx; ++ix) {
      Real* logit = &logit_[size_t(ix) * wide_];
      add_logits(in_, ix, iy, logit);
      if (in_.nearest_only)
        for (int u = 0; u < in_.factors; ++u) keep_nearest(logit + u * in_.codes, in_.codes);
    }
    AddressDecodeOutput<Real> out;
    out.slot = slot, out.weight = weight;
    select_addresses_cpu(decode_, out, 0, in_.nx);
  }

 private:
  const AddressField<Real>& in_;
  size_t wide_;
  std::vector<Real> logit_;
  AddressDecodeInput<Real> decode_;
};

template <class Real>
void kept_slots(const AddressField<Real>& in, int first, int last, const AddressReads<Real>& known) {
  const int64_t K = in.top_k, row = int64_t(in.nx) * K;
  const int wide = in.channels + 2;
  const auto column = slot_columns(in);
  RowReader<Real> reader(in);
  std::vector<int32_t> slot(known.slot ? 0 : size_t(row));
  std::vector<Real> weight(known.slot ? 0 : size_t(row)), sum(static_cast<size_t>(wide));
  for (int iy = first; iy < last; ++iy) {
    if (!known.slot) reader.read(iy, slot.data(), weight.data());
    const int32_t* slots = known.slot ? known.slot + iy * row : slot.data();
    const Real* weights = known.slot ? known.weight + iy * row : weight.data();
    for (int ix = 0; ix < in.nx; ++ix) {
      std::fill(sum.begin(), sum.end(), Real(0));
      for (int64_t k = 0; k < K; ++k) {
        const Real p = weights[ix * K + k];
        const Real* from = &column[size_t(slots[ix * K + k]) * size_t(wide)];
        for (int c = 0; c < wide; ++c) sum[size_t(c)] += p * from[c];
      }
      put_cell(in, int64_t(iy) * in.nx + ix, sum.data(), sum[size_t(in.channels)], sum[size_t(in.channels) + 1]);
    }
  }
}

}  // namespace

template <class Real>
void exponential_field_cpu(const ExponentialField<Real>& in, int first, int last) {
  std::vector<Real> e(static_cast<size_t>(in.terms)), sum(static_cast<size_t>(in.channels));
  for (int iy = first; iy < last; ++iy)
    for (int ix = 0; ix < in.nx; ++ix) {
      const Real *x = in.score_x + int64_t(ix) * in.terms, *y = in.score_y + int64_t(iy) * in.terms;
      Real most = -std::numeric_limits<Real>::infinity(), by = 0;
      for (int f = 0; f < in.terms; ++f) most = std::max(most, e[size_t(f)] = x[f] + y[f]);
      std::fill(sum.begin(), sum.end(), Real(0));
      for (int f = 0; f < in.terms; ++f) {
        const Real w = std::exp(e[size_t(f)] - most);
        by += in.weight ? w * in.weight[f] : w;
        for (int c = 0; c < in.channels; ++c) sum[size_t(c)] += w * in.payload[int64_t(f) * in.channels + c];
      }
      for (int c = 0; c < in.channels; ++c)
        in.field[(int64_t(iy) * in.nx + ix) * in.channels + c] = by == 0 ? Real(0) : sum[size_t(c)] / by;
    }
}

template <class Real>
void address_field_cpu(const AddressField<Real>& in, int first, int last, const AddressReads<Real>& known) {
  if (in.top_k < slots_of(in))
    kept_slots(in, first, last, known);
  else if (in.factors == 2)
    all_slots_of_two(in, first, last);
  else
    all_slots_of_one(in, first, last);
}

template <class Real>
void address_reads_cpu(const AddressField<Real>& in, int32_t* slot, Real* weight, int first, int last) {
  const int64_t row = int64_t(in.nx) * std::min(in.top_k, slots_of(in));
  RowReader<Real> reader(in);
  for (int iy = first; iy < last; ++iy) reader.read(iy, slot + iy * row, weight + iy * row);
}

template void exponential_field_cpu(const ExponentialField<float>&, int, int);
template void exponential_field_cpu(const ExponentialField<double>&, int, int);
template void address_field_cpu(const AddressField<float>&, int, int, const AddressReads<float>&);
template void address_field_cpu(const AddressField<double>&, int, int, const AddressReads<double>&);
template void address_reads_cpu(const AddressField<float>&, int32_t*, float*, int, int);
template void address_reads_cpu(const AddressField<double>&, int32_t*, double*, int, int);

#ifndef SLOTSCOPE_HAS_CUDA
struct FieldGpu::Lanes {};
FieldGpu::FieldGpu() { throw std::logic_error("value field on the GPU: this build has no CUDA kernels"); }
FieldGpu::~FieldGpu() = default;
bool FieldGpu::takes(const ExponentialField<double>&) { return false; }
bool FieldGpu::takes(const AddressField<double>&) { return false; }
void FieldGpu::start(const ExponentialField<double>&) {}
void FieldGpu::start(const AddressField<double>&) {}
void FieldGpu::finish() {}
void FieldGpu::discard() noexcept {}
#endif

}  // namespace slotscope::kernels
