// Fields of attention-like memories over a grid of queries (spec: ramnet 3; RAM-Net Figures 1 and 4). A query (ix, iy) has an x
// part and a y part (two angles, or two coordinates), and every score is a sum over the two parts: tables with one row per
// column and per row of the grid hold all there is to know about the queries. What stands in the tables is made by
// core/analysis/value_field.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

namespace slotscope::kernels {

// Fields are [ny, nx, channels]: cell (ix, iy) begins at (iy * nx + ix) * channels.

// field = sum_f e_f payload[f] / sum_f e_f weight[f], e_f = exp(score_x[ix, f] + score_y[iy, f] - their largest sum over f).
// Softmax attention: terms = keys, payload = their values, weight 1. Positive random features: terms = features.
template <class Real>
struct ExponentialField {
  const Real* score_x = nullptr;  // [nx, terms]
  const Real* score_y = nullptr;  // [ny, terms]
  const Real* payload = nullptr;  // [terms, channels]
  const Real* weight = nullptr;   // [terms], positive; null: all 1
  int nx = 0, ny = 0, terms = 0, channels = 0;
  Real* field = nullptr;  // [ny, nx, channels]
};

template <class Real>
inline constexpr Real kLeastDivisor = std::numeric_limits<Real>::min() / std::numeric_limits<Real>::epsilon();

// Reads a slot memory with a product address. Two factors: x logits address factor 0, y logits factor 1, slot = code_0 + codes *
// code_1. One factor: the logit of a code is the sum of its x and y entries. M = codes^factors slots.
//   p over slots = product of the factors' softmaxes; only the top_k largest are kept, ties to the lower slot, and not
//   renormalised (kernels/address_decode.h); top_k >= M keeps all.
//   read_mass = sum of the kept p over slots with mass > 0
//   standard:   field = sum p value; with `divide` this over read_mass
//   mass-aware: field = sum p mass value / sum p mass
// A field whose divisor is 0, or so small that its digits are lost (below kLeastDivisor), is 0 and the cell is empty.
template <class Real>
struct AddressField {
  const Real* logit_x = nullptr;  // [nx, codes]
  const Real* logit_y = nullptr;  // [ny, codes]
  const Real* mass = nullptr;     // [M]
  const Real* value = nullptr;    // [M, channels]
  int nx = 0, ny = 0, factors = 0, codes = 0, channels = 0;
  int64_t top_k = 0;
  bool mass_aware = false, divide = false;
  // An infinite beta: a factor's largest logits share its probability, all others have none. Tables are those of beta 1.
  bool nearest_only = false;
  Real* field = nullptr;      // [ny, nx, channels]
  Real* read_mass = nullptr;  // [ny, nx]
  uint8_t* empty = nullptr;   // [ny, nx] 1 where the divisor of mass-aware or `divide` is too small; may be null
};

// What a query reads does not depend on what is stored: kept addresses of the cells, to be used again while keys move.
// Null arrays: not known yet.
template <class Real>
struct AddressReads {
  const int32_t* slot = nullptr;  // [ny, nx, K], K = min(top_k, M)
  const Real* weight = nullptr;   // [ny, nx, K]
};

// Rows iy of [first, last); rows do not depend on each other. Sums in the order of terms, or of the address's ranks (all
// slots: per factor, ascending codes, factor 0 inside).
template <class Real>
void exponential_field_cpu(const ExponentialField<Real>&, int first, int last);
template <class Real>
void address_field_cpu(const AddressField<Real>&, int first, int last, const AddressReads<Real>& known = {});
// Fills slot and weight [ny, nx, K] for rows [first, last).
template <class Real>
void address_reads_cpu(const AddressField<Real>&, int32_t* slot, Real* weight, int first, int last);

extern template void exponential_field_cpu(const ExponentialField<float>&, int, int);
extern template void exponential_field_cpu(const ExponentialField<double>&, int, int);
extern template void address_field_cpu(const AddressField<float>&, int, int, const AddressReads<float>&);
extern template void address_field_cpu(const AddressField<double>&, int, int, const AddressReads<double>&);
extern template void address_reads_cpu(const AddressField<float>&, int32_t*, float*, int, int);
extern template void address_reads_cpu(const AddressField<double>&, int32_t*, double*, int, int);

// The same fields, all rows, on the current CUDA device; arrays are in host memory. Fields follow each other without waiting:
// start copies what it needs before it returns, finish returns when every field that was started is in its arrays (which must
// live until then). All slots of two factors come out with the bits of the CPU; kept slots are the CPU's slots, their weights
// and all other fields differ in the last bits of exp and log (relative 1e-14 or so). Memory of the device and of copies is
// kept from field to field. Not to be used from two threads at once. Throws std::runtime_error with the CUDA message,
// std::invalid_argument for what it does not take, std::logic_error (the constructor) in a build without CUDA.
class FieldGpu {
 public:
  static constexpr int64_t kMostKept = 1024;  // kept slots, unless all are: beyond it the search is no faster than the CPU's
  FieldGpu();
  ~FieldGpu();
  static bool takes(const ExponentialField<double>&);
  static bool takes(const AddressField<double>&);
  void start(const ExponentialField<double>&);
  void start(const AddressField<double>&);
  void finish();
  void discard() noexcept;  // forgets the fields on their way: their arrays may go

 private:
  struct Lane;
  struct Lanes;
  template <class Field>
  void start_on_lane(const Field&);
  std::unique_ptr<Lanes> lanes_;
};

}  // namespace slotscope::kernels
