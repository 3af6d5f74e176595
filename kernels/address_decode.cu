#include "kernels/address_decode.h"

#include <cuda_runtime.h>

#include <climits>
#include <stdexcept>
#include <string>

#include "kernels/address_rank.cuh"
#include "kernels/lane_sum.cuh"

// The search of address_decode_cpu.cpp with sorted lists: of a factor's candidates, those with its f-th best code are a list
// that is sorted as it stands, because adding rounds monotonically (but for ties that rounding makes; they are looked for and
// such a list is sorted again). Merging keeps the better of entry i of one list and entry N-1-i of the other: these are the N
// best of both, first falling and then rising.
namespace slotscope::kernels {
namespace {

constexpr int kWarps = 8;
constexpr int kBlockThreads = 256;
constexpr int kWarpMost = 128;  // K up to which a warp keeps the lists of a row in its registers

// Lanes of a warp, or a block, that work on one row.
template <int kLanes>
struct LaneGroup {
  static constexpr int kCount = kLanes;
  __device__ static int thread() { return int(threadIdx.x) % kLanes; }
  __device__ static void sync() { __syncwarp(); }
};
struct BlockGroup {
  static constexpr int kCount = kBlockThreads;
  __device__ static int thread() { return int(threadIdx.x); }
  __device__ static void sync() { __syncthreads(); }
};

// exp and log of float by way of double: right to the last bit but for a few arguments in a million, as those of the C library
// are, so that scores are the CPU's nearly always.
__device__ inline float exp_of(float x) { return float(exp(double(x))); }
__device__ inline float log_of(float x) { return float(log(double(x))); }
__device__ inline double exp_of(double x) { return exp(x); }
__device__ inline double log_of(double x) { return log(x); }

// The codes of every factor of a row, best first.
template <class Real>
struct Factors {
  Real* score;  // [factors, codes] log softmax, descending
  Real* work;   // [factors, codes]
  int* slot;    // [factors, codes] what the code adds to the slot

  __host__ __device__ static size_t bytes(int64_t cells) {
    return size_t(cells) * (2 * sizeof(Real) + sizeof(int)) + (cells % 2 ? sizeof(int) : 0);
  }
  __device__ Factors(char* at, int64_t cells) {
    score = reinterpret_cast<Real*>(at), work = score + cells, slot = reinterpret_cast<int*>(work + cells);
  }

  // The log softmax in the CPU's arithmetic: exps of all cells first, then every cell sums its group in order.
  template <class Group>
  __device__ void fill(const AddressDecodeInput<Real>& in, const Real* logit) const {
    const int codes = in.codes, cells = in.factors * codes;
    const auto largest = [&](int first) {
      Real most = -INFINITY;
      for (int j = first; j < first + codes; ++j) most = most < logit[j] ? logit[j] : most;
      return most;
    };
    for (int i = Group::thread(); i < cells && !in.normalised; i += Group::kCount)
      work[i] = largest(i / codes * codes), score[i] = exp_of(logit[i] - work[i]);
    Group::sync();
    for (int i = Group::thread(); i < cells && in.normalised; i += Group::kCount) work[i] = logit[i];
    for (int i = Group::thread(); i < cells && !in.normalised; i += Group::kCount) {
      const int first = i / codes * codes;
      Real sum = 0, rest = 0;
      for (int j = first; j < first + codes; ++j) {
        const Real x = score[j], next = sum + x;
        rest += sum >= x ? (sum - next) + x : (x - next) + sum;
        sum = next;
      }
      work[i] = logit[i] - (work[i] + log_of(sum + rest));
    }
    Group::sync();
    for (int i = Group::thread(); i < cells; i += Group::kCount) {
      const int factor = i / codes, first = factor * codes, code = i - first;
      const auto mine = ordered(work[i]);
      int rank = 0, step = 1;
      for (int j = 0; j < codes; ++j) {
        const auto other = ordered(work[first + j]);
        rank += other > mine || (other == mine && j < code);
      }
      const int digit = in.order == SlotOrder::factor0_least ? factor : in.factors - 1 - factor;
      for (int u = 0; u < digit && codes > 1; ++u) step *= codes;
      score[first + rank] = work[i], slot[first + rank] = code * step;
    }
    Group::sync();
  }
};

// Where CAPE moves the slots of a row.
template <class Real>
__device__ int64_t shift_of(const AddressDecodeInput<Real>& in, int64_t row, int64_t slots) {
  if (!in.cape || !in.cape[row % in.heads]) return 0;
  const int64_t position = (in.first_position + row / in.heads % in.tokens) % slots;
  return in.direction > 0 ? position : (slots - position) % slots;
}

// Writes one entry; returns its weight.
template <class Real>
__device__ Real put(const AddressDecodeInput<Real>& in, const AddressDecodeOutput<Real>& out, int64_t row, int rank,
                    const Entry<Real>& entry, int64_t shift, int64_t slots) {
  const Real score = entry.score(), weight = exp_of(score);
  const int64_t at = row * in.top_k + rank;
  const int64_t moved = entry.slot() + shift;  // both below the number of slots
  out.slot[at] = int32_t(moved < slots ? moved : moved - slots);
  out.weight[at] = weight;
  if (out.score) out.score[at] = score;
  return weight;
}
template <class Real>
__device__ Real lost_of(Real kept, int top_k, int64_t slots) {
  if (top_k == slots) return 0;
  return kept != kept ? kept : kept < 1 ? 1 - kept : Real(0);
}

// K <= kLanes kPer: a group of lanes per row, the beam in their registers. Rows behind the last one repeat it unseen.
template <class Real, int kLanes, int kPer>
__global__ void __launch_bounds__(32 * kWarps)
    warp_kernel(AddressDecodeInput<Real> in, AddressDecodeOutput<Real> out, int64_t rows, int64_t slots) {
  extern __shared__ double shared_storage[];
  const int lane = int(threadIdx.x) % kLanes, group = int(threadIdx.x) / kLanes, groups = int(blockDim.x) / kLanes;
  const bool there = int64_t(blockIdx.x) * groups + group < rows;
  const int64_t row = there ? int64_t(blockIdx.x) * groups + group : rows - 1;
  using List = LaneList<Real, kLanes, kPer>;
  const int codes = in.codes, cells = in.factors * codes, K = in.top_k;
  const Factors<Real> factors(reinterpret_cast<char*>(shared_storage) + group * Factors<Real>::bytes(cells), cells);
  factors.template fill<LaneGroup<kLanes>>(in, in.logit + row * cells);
  List beam;
  int size = min(codes, K);
#pragma unroll
  for (int e = 0; e < kPer; ++e) {
    const int i = e * kLanes + lane;
    beam.x[e] = i < size ? Entry<Real>::make(Real(0) + factors.score[i], factors.slot[i]) : Entry<Real>::none();
  }
  for (int u = 1; u < in.factors; ++u) {
    const Real* const add = factors.score + u * codes;
    const int* const step = factors.slot + u * codes;
    Real score[kPer];  // of the beam, turned round: entry N-1-i
    int slot[kPer];
#pragma unroll
    for (int e = 0; e < kPer; ++e) {
      const Entry<Real> turned = beam.x[kPer - 1 - e].from_lane_xor(kLanes - 1);
      score[e] = turned.score(), slot[e] = turned.slot();
    }
    List best, list;
    for (int f = 0; f < min(codes, K); ++f) {
      const int reach = min(size, K / (f + 1));
      if (reach == 0) break;
#pragma unroll
      for (int e = 0; e < kPer; ++e) {
        const bool candidate = List::kSize - 1 - (e * kLanes + lane) < reach;
        list.x[e] = candidate ? Entry<Real>::make(score[e] + add[f], slot[e] + step[f]) : Entry<Real>::none();
      }
      if (!list.rising(lane)) list.sort(lane), list.turn();
      if (f == 0) {
        best = list;
        best.turn();
        continue;
      }
#pragma unroll
      for (int e = 0; e < kPer; ++e)
        if (list.x[e] > best.x[e]) best.x[e] = list.x[e];
      best.merge(lane);
    }
    beam = best;
    size = int(min(int64_t(K), int64_t(size) * codes));
  }
  const int64_t shift = shift_of(in, row, slots);
  Real kept = 0;
#pragma unroll
  for (int e = 0; e < kPer; ++e)
    if (there && e * kLanes + lane < K) kept += put(in, out, row, e * kLanes + lane, beam.x[e], shift, slots);
  kept = group_sum<kLanes>(kept);
  if (out.lost && there && lane == 0) out.lost[row] = lost_of(kept, K, slots);
}

// Lists of any length in memory, a power of two of entries, by all threads of a block.
template <class Real>
__device__ void exchange(Entry<Real>* x, int size, int stride, int block) {
  for (int i = int(threadIdx.x); i < size; i += kBlockThreads) {
    const int other = i ^ stride;
    if (other < i) continue;
    const Entry<Real> a = x[i], b = x[other];
    if ((b > a) == ((i & block) == 0)) x[i] = b, x[other] = a;
  }
  __syncthreads();
}
template <class Real>
__device__ void merge(Entry<Real>* x, int size) {
  for (int stride = size / 2; stride > 0; stride /= 2) exchange(x, size, stride, 0);
}
template <class Real>
__device__ void sort(Entry<Real>* x, int size) {
  for (int block = 2; block <= size; block *= 2)
    for (int stride = block / 2; stride > 0; stride /= 2) exchange(x, size, stride, block);
}
template <class Real>
__device__ bool sorted(const Entry<Real>* x, int size) {
  bool ok = true;
  for (int i = int(threadIdx.x); i + 1 < size; i += kBlockThreads) ok = ok && !(x[i + 1] > x[i]);
  return __syncthreads_and(ok);
}

// Any K: a block per row, three lists of `padded` entries and the factors in shared memory or, where they do not fit, in
// `global`, `bytes` for every block.
template <class Real>
__global__ void __launch_bounds__(kBlockThreads)
    block_kernel(AddressDecodeInput<Real> in, AddressDecodeOutput<Real> out, int64_t rows, int64_t slots, int padded,
                 char* global, size_t bytes) {
  extern __shared__ double shared_storage[];
  __shared__ Real sums[kBlockThreads / 32];
  char* const memory = global ? global + blockIdx.x * bytes : reinterpret_cast<char*>(shared_storage);
  const int codes = in.codes, cells = in.factors * codes, K = in.top_k;
  Entry<Real>* beam = reinterpret_cast<Entry<Real>*>(memory);
  Entry<Real>*best = beam + padded, *const list = best + padded;
  const Factors<Real> factors(reinterpret_cast<char*>(list + padded), cells);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    factors.template fill<BlockGroup>(in, in.logit + row * cells);
    int size = min(codes, K);
    for (int i = int(threadIdx.x); i < padded; i += kBlockThreads)
      beam[i] = i < size ? Entry<Real>::make(Real(0) + factors.score[i], factors.slot[i]) : Entry<Real>::none();
    __syncthreads();
    for (int u = 1; u < in.factors; ++u) {
      for (int f = 0; f < min(codes, K); ++f) {
        const int reach = min(size, K / (f + 1));
        if (reach == 0) break;
        Entry<Real>* const to = f == 0 ? best : list;
        const Real add = factors.score[u * codes + f];
        const int step = factors.slot[u * codes + f];
        for (int i = int(threadIdx.x); i < padded; i += kBlockThreads)
          to[i] = i < reach ? Entry<Real>::make(beam[i].score() + add, beam[i].slot() + step) : Entry<Real>::none();
        __syncthreads();
        if (!sorted(to, padded)) sort(to, padded);
        if (f == 0) continue;
        for (int i = int(threadIdx.x); i < padded; i += kBlockThreads)
          if (list[padded - 1 - i] > best[i]) best[i] = list[padded - 1 - i];
        __syncthreads();
        merge(best, padded);
      }
      Entry<Real>* const old = beam;
      beam = best, best = old;
      size = int(min(int64_t(K), int64_t(size) * codes));
    }
    const int64_t shift = shift_of(in, row, slots);
    Real kept = 0;
    for (int i = int(threadIdx.x); i < K; i += kBlockThreads) kept += put(in, out, row, i, beam[i], shift, slots);
    kept = group_sum<32>(kept);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = kept;
    __syncthreads();
    if (out.lost && threadIdx.x == 0) {
      Real all = 0;
      for (const Real sum : sums) all += sum;
      out.lost[row] = lost_of(all, K, slots);
    }
    __syncthreads();
  }
}

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("select_addresses_cuda: ") + what + ": " + cudaGetErrorString(error));
}

int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&value, which, device), "device attribute");
  return value;
}

template <class Kernel>
void allow(Kernel kernel, size_t bytes) {
  if (bytes > 48 * 1024)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)), "shared memory");
}

template <class Real, int kLanes, int kPer>
void launch_warps(const AddressDecodeInput<Real>& in, const AddressDecodeOutput<Real>& out, int64_t rows, int64_t slots,
                  int warps, size_t row_bytes, cudaStream_t stream) {
  const int64_t groups = warps * (32 / kLanes), blocks = (rows + groups - 1) / groups;
  const size_t bytes = size_t(groups) * row_bytes;
  if (blocks > INT_MAX)
    throw std::runtime_error("select_addresses_cuda: " + std::to_string(rows) + " rows are too many for one launch");
  allow(warp_kernel<Real, kLanes, kPer>, bytes);
  warp_kernel<Real, kLanes, kPer><<<unsigned(blocks), 32 * warps, bytes, stream>>>(in, out, rows, slots);
  check(cudaGetLastError(), "launch");
}

template <class Real>
void launch_blocks(const AddressDecodeInput<Real>& in, const AddressDecodeOutput<Real>& out, int64_t rows, int64_t slots,
                   size_t most, cudaStream_t stream) {
  int64_t padded = 1;
  while (padded < in.top_k) padded *= 2;
  const size_t bytes =
      3 * size_t(padded) * sizeof(Entry<Real>) + Factors<Real>::bytes(int64_t(in.factors) * in.codes);
  const bool shared = bytes + 1024 <= most;
  const int64_t limit = shared ? INT_MAX : 2 * attribute(cudaDevAttrMultiProcessorCount);
  const unsigned blocks = unsigned(rows < limit ? rows : limit);
  char* global = nullptr;
  if (!shared) check(cudaMallocAsync(&global, bytes * blocks, stream), "memory for candidates");
  if (shared) allow(block_kernel<Real>, bytes);
  block_kernel<Real>
      <<<blocks, kBlockThreads, shared ? bytes : 0, stream>>>(in, out, rows, slots, int(padded), global, bytes);
  const cudaError_t error = cudaGetLastError();
  if (global) cudaFreeAsync(global, stream);
  check(error, "launch");
}

template <class Real>
void launch(const AddressDecodeInput<Real>& in, const AddressDecodeOutput<Real>& out, void* given) {
  const int64_t rows = in.batch * in.tokens * in.heads, slots = address_slots(in.codes, in.factors);
  if (rows <= 0) return;
  if (slots == 0 || in.top_k < 1 || in.top_k > slots)
    throw std::invalid_argument("select_addresses_cuda: top_k must be from 1 to the number of slots, and that at most 2^30");
  const auto stream = static_cast<cudaStream_t>(given);
  const size_t most = size_t(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  const size_t bytes = Factors<Real>::bytes(int64_t(in.factors) * in.codes);
  int warps = kWarps;
  while (warps > 1 && size_t(warps) * bytes > most / 8) warps /= 2;
  const bool narrow = 4 * size_t(warps) * bytes <= most / 2;  // room for several rows of a warp
  if (in.top_k > kWarpMost || size_t(warps) * bytes > most)
    launch_blocks(in, out, rows, slots, most, stream);
  else if (in.top_k <= 8 && narrow)
    launch_warps<Real, 8, 1>(in, out, rows, slots, warps, bytes, stream);
  else if (in.top_k <= 16 && narrow)
    launch_warps<Real, 16, 1>(in, out, rows, slots, warps, bytes, stream);
  else if (in.top_k <= 32)
    launch_warps<Real, 32, 1>(in, out, rows, slots, warps, bytes, stream);
  else if (in.top_k <= 64)
    launch_warps<Real, 32, 2>(in, out, rows, slots, warps, bytes, stream);
  else
    launch_warps<Real, 32, 4>(in, out, rows, slots, warps, bytes, stream);
}

}  // namespace

void select_addresses_cuda(const AddressDecodeInput<float>& in, const AddressDecodeOutput<float>& out, void* stream) {
  launch(in, out, stream);
}
void select_addresses_cuda(const AddressDecodeInput<double>& in, const AddressDecodeOutput<double>& out, void* stream) {
  launch(in, out, stream);
}

}  // namespace slotscope::kernels
