#include "kernels/value_field.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/address_decode.h"

namespace slotscope::kernels {
namespace {

constexpr int kThreads = 256, kTileX = 32, kTileY = kThreads / kTileX, kTerms = 32;
constexpr int kMostChannels = 4;
constexpr size_t kScratch = size_t(128) << 20;  // of kept addresses: a panel's rows go through it in portions

// Products are rounded before they are added, as on the CPU.
__device__ inline double add_product(double sum, double a, double b) { return __dadd_rn(sum, __dmul_rn(a, b)); }

// A block's cells: 32 columns of 8 rows of the grid.
struct Cell {
  int lx, ly, first_x, first_y, x, y;
  bool inside;
  __device__ Cell(int nx, int ny) {
    const int across = (nx + kTileX - 1) / kTileX;
    lx = int(threadIdx.x) % kTileX, ly = int(threadIdx.x) / kTileX;
    first_x = int(blockIdx.x) % across * kTileX, first_y = int(blockIdx.x) / across * kTileY;
    x = first_x + lx, y = first_y + ly, inside = x < nx && y < ny;
  }
};
unsigned blocks_of(int nx, int ny) {
  return unsigned((nx + kTileX - 1) / kTileX) * unsigned((ny + kTileY - 1) / kTileY);
}

__global__ void __launch_bounds__(kThreads) exponential_kernel(ExponentialField<double> in) {
  __shared__ double sx[kTileX][kTerms + 1], sy[kTileY][kTerms + 1], payload[kTerms * kMostChannels], weight[kTerms];
  const Cell cell(in.nx, in.ny);
  double most = -INFINITY, by = 0, sum[kMostChannels] = {};
  for (const bool adding : {false, true})
    for (int first = 0; first < in.terms; first += kTerms) {
      const int terms = min(kTerms, in.terms - first);
      __syncthreads();
      for (int i = int(threadIdx.x); i < (kTileX + kTileY) * kTerms; i += kThreads) {
        const int row = i / kTerms, f = i % kTerms;
        const bool is_x = row < kTileX;
        const int at = is_x ? cell.first_x + row : cell.first_y + row - kTileX;
        const bool there = f < terms && at < (is_x ? in.nx : in.ny);
        const double score = there ? (is_x ? in.score_x : in.score_y)[int64_t(at) * in.terms + first + f] : 0.0;
        (is_x ? sx[row] : sy[row - kTileX])[f] = score;
      }
      if (adding)
        for (int i = int(threadIdx.x); i < terms * in.channels; i += kThreads)
          payload[i] = in.payload[int64_t(first) * in.channels + i];
      if (adding && int(threadIdx.x) < terms) weight[threadIdx.x] = in.weight ? in.weight[first + threadIdx.x] : 1.0;
      __syncthreads();
      for (int f = 0; f < terms; ++f) {
        const double e = sx[cell.lx][f] + sy[cell.ly][f];
        if (!adding) {
          most = most < e ? e : most;
          continue;
        }
        const double w = exp(e - most);
        by = add_product(by, w, weight[f]);
#pragma unroll
        for (int c = 0; c < kMostChannels; ++c)
          if (c < in.channels) sum[c] = add_product(sum[c], w, payload[f * in.channels + c]);
      }
    }
  if (!cell.inside) return;
#pragma unroll
  for (int c = 0; c < kMostChannels; ++c)
    if (c < in.channels) in.field[(int64_t(cell.y) * in.nx + cell.x) * in.channels + c] = by == 0 ? 0.0 : sum[c] / by;
}

// What a cell has read: channels of the numerator, the divisor, the read mass.
struct Sums {
  double x[kMostChannels + 2] = {};
  __device__ void add(double p, const double* column, int wide, int64_t step) {
#pragma unroll
    for (int k = 0; k < kMostChannels + 2; ++k)
      if (k < wide) x[k] = add_product(x[k], p, column[k * step]);
  }
};

__device__ void put_cell(const AddressField<double>& in, int64_t cell, const Sums& sums) {
  double divisor = 0, read_mass = 0;
#pragma unroll
  for (int k = 0; k < kMostChannels + 2; ++k) {
    if (k == in.channels) divisor = sums.x[k];
    if (k == in.channels + 1) read_mass = sums.x[k];
  }
  const bool divides = in.mass_aware || in.divide;
  const double by = in.mass_aware ? divisor : read_mass;
  const bool empty = divides && by < kLeastDivisor<double>;
  in.read_mass[cell] = read_mass;
  if (in.empty) in.empty[cell] = empty;
#pragma unroll
  for (int c = 0; c < kMostChannels; ++c)
    if (c < in.channels) in.field[cell * in.channels + c] = !divides ? sums.x[c] : empty ? 0.0 : sums.x[c] / by;
}

// All slots of two factors; logits are the softmaxes of the factors already. What a grid column reads of each code of factor 1,
// [codes, wide, nx].
__global__ void __launch_bounds__(kThreads) fold_kernel(AddressField<double> in, const double* column, double* folded) {
  const int wide = in.channels + 2;
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= int64_t(in.codes) * wide * in.nx) return;
  const int ix = int(i % in.nx), k = int(i / in.nx % wide), code1 = int(i / in.nx / wide);
  double sum = 0;
  for (int code0 = 0; code0 < in.codes; ++code0)
    sum = add_product(sum, in.logit_x[int64_t(ix) * in.codes + code0],
                      column[(int64_t(code1) * in.codes + code0) * wide + k]);
  folded[i] = sum;
}
__global__ void __launch_bounds__(kThreads) all_of_two_kernel(AddressField<double> in, const double* folded) {
  const Cell cell(in.nx, in.ny);
  if (!cell.inside) return;
  const int wide = in.channels + 2;
  Sums sums;
  for (int code = 0; code < in.codes; ++code)
    sums.add(in.logit_y[int64_t(cell.y) * in.codes + code], folded + int64_t(code) * wide * in.nx + cell.x, wide, in.nx);
  put_cell(in, int64_t(cell.y) * in.nx + cell.x, sums);
}

// All codes of one factor: log softmax of the summed logits, in the CPU's order.
__global__ void __launch_bounds__(kThreads) all_of_one_kernel(AddressField<double> in, const double* column) {
  const Cell cell(in.nx, in.ny);
  if (!cell.inside) return;
  const double *x = in.logit_x + int64_t(cell.x) * in.codes, *y = in.logit_y + int64_t(cell.y) * in.codes;
  double most = -INFINITY, sum = 0, rest = 0;
  for (int j = 0; j < in.codes; ++j) most = most < x[j] + y[j] ? x[j] + y[j] : most;
  const auto logit = [&](int j) {
    const double e = x[j] + y[j];
    return !in.nearest_only ? e : e == most ? 0.0 : -INFINITY;
  };
  const double top = in.nearest_only ? 0.0 : most;
  for (int j = 0; j < in.codes; ++j) {
    const double e = exp(logit(j) - top), next = sum + e;
    rest += sum >= e ? (sum - next) + e : (e - next) + sum;
    sum = next;
  }
  const double log_sum = top + log(sum + rest);
  const int wide = in.channels + 2;
  Sums sums;
  for (int j = 0; j < in.codes; ++j) sums.add(exp(logit(j) - log_sum), column + int64_t(j) * wide, wide, 1);
  put_cell(in, int64_t(cell.y) * in.nx + cell.x, sums);
}

// Kept slots, a few rows of cells at a time: tables of every cell for the search, and what it found.
__global__ void __launch_bounds__(kThreads)
    cell_logits_kernel(AddressField<double> in, int first_row, int64_t cells, double* logit) {
  const int wide = in.factors * in.codes;
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= cells * wide) return;
  const int j = int(i % wide), code = j % in.codes;
  const int64_t cell = i / wide, ix = cell % in.nx, iy = first_row + cell / in.nx;
  const double x = in.logit_x[ix * in.codes + code], y = in.logit_y[iy * in.codes + code];
  logit[i] = in.factors == 1 ? x + y : j < in.codes ? x : y;
}
__global__ void __launch_bounds__(kThreads) keep_nearest_kernel(int codes, int64_t rows, double* logit) {
  const int64_t row = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= rows) return;
  double most = -INFINITY;
  for (int j = 0; j < codes; ++j) most = most < logit[row * codes + j] ? logit[row * codes + j] : most;
  for (int j = 0; j < codes; ++j) logit[row * codes + j] = logit[row * codes + j] == most ? 0.0 : -INFINITY;
}
__global__ void __launch_bounds__(kThreads)
    gather_kernel(AddressField<double> in, int first_row, int64_t cells, const int32_t* slot, const double* weight,
                  const double* column) {
  const int64_t cell = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (cell >= cells) return;
  const int wide = in.channels + 2;
  Sums sums;
  for (int64_t k = cell * in.top_k; k < (cell + 1) * in.top_k; ++k) sums.add(weight[k], column + int64_t(slot[k]) * wide, wide, 1);
  put_cell(in, int64_t(first_row) * in.nx + cell, sums);
}

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string("value field on the GPU: ") + what + ": " + cudaGetErrorString(error));
}

unsigned blocks_for(int64_t threads) {
  const int64_t blocks = (threads + kThreads - 1) / kThreads;
  if (blocks > INT_MAX) throw std::runtime_error("value field on the GPU: too many cells for one launch");
  return unsigned(blocks);
}

int64_t slots_of(const AddressField<double>& in) {
  return in.factors == 2 ? int64_t(in.codes) * in.codes : in.codes;
}

// The tables of a factor as the CPU makes them: its log softmax or, with `plain`, its softmax.
std::vector<double> softmaxes(const double* logit, int rows, int codes, bool nearest_only, bool plain) {
  std::vector<double> p(logit, logit + int64_t(rows) * codes);
  for (int row = 0; row < rows; ++row) {
    double* at = &p[size_t(row) * size_t(codes)];
    if (nearest_only) {
      const double most = *std::max_element(at, at + codes);
      for (int j = 0; j < codes; ++j) at[j] = at[j] == most ? 0.0 : -std::numeric_limits<double>::infinity();
    }
    log_softmax(at, codes, at);
    if (plain)
      for (int j = 0; j < codes; ++j) at[j] = std::exp(at[j]);
  }
  return p;
}

std::vector<double> slot_columns(const AddressField<double>& in) {
  std::vector<double> column;
  for (int64_t a = 0; a < slots_of(in); ++a) {
    for (int c = 0; c < in.channels; ++c)
      column.push_back(in.mass_aware ? in.mass[a] * in.value[a * in.channels + c] : in.value[a * in.channels + c]);
    column.push_back(in.mass[a]), column.push_back(in.mass[a] > 0);
  }
  return column;
}

// Memory that grows, on the device or pinned on the host.
template <bool kPinned>
class Memory {
 public:
  ~Memory() { release(); }
  char* get(size_t bytes) {
    if (bytes > size_) {
      release();
      check(kPinned ? cudaMallocHost(&at_, bytes) : cudaMalloc(&at_, bytes), "memory");
      size_ = bytes;
    }
    return static_cast<char*>(at_);
  }

 private:
  void release() {
    if (at_) kPinned ? cudaFreeHost(at_) : cudaFree(at_);
    at_ = nullptr, size_ = 0;
  }
  void* at_ = nullptr;
  size_t size_ = 0;
};

}  // namespace

// A field on its way: what went up, what comes back. Three of them take turns, so that copies and kernels overlap.
struct FieldGpu::Lane {
  cudaStream_t stream = nullptr;
  Memory<true> up, down;
  Memory<false> device, scratch;
  std::vector<std::pair<const void*, size_t>> inputs;
  std::vector<std::pair<void*, size_t>> outputs;  // host arrays that wait for their bytes

  ~Lane() {
    if (stream) cudaStreamDestroy(stream);
  }
  static size_t padded(size_t bytes) { return (bytes + 255) / 256 * 256; }
  template <class T>
  static size_t total(const T& parts) {
    size_t all = 0;
    for (const auto& part : parts) all += padded(part.second);
    return all;
  }

  // Waits for the field of before and hands it over.
  void collect() {
    if (!stream) check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    check(cudaStreamSynchronize(stream), "kernel");
    const char* from = outputs.empty() ? nullptr : down.get(0);
    for (const auto& [to, bytes] : outputs) std::memcpy(to, from, bytes), from += padded(bytes);
    outputs.clear(), inputs.clear();
  }
  // Device addresses of inputs and outputs, in order; the inputs are under way.
  std::vector<char*> place() {
    const size_t in_bytes = total(inputs), out_bytes = total(outputs);
    char *at = device.get(in_bytes + out_bytes), *host = up.get(in_bytes), *const begin = at;
    down.get(out_bytes);
    std::vector<char*> places;
    for (const auto& [from, bytes] : inputs) {
      std::memcpy(host + (at - begin), from, bytes);
      places.push_back(at), at += padded(bytes);
    }
    for (const auto& output : outputs) places.push_back(at), at += padded(output.second);
    check(cudaMemcpyAsync(begin, host, in_bytes, cudaMemcpyHostToDevice, stream), "copy to the device");
    return places;
  }
  void fetch() {
    char* const from = device.get(0) + total(inputs);
    check(cudaGetLastError(), "launch");
    check(cudaMemcpyAsync(down.get(0), from, total(outputs), cudaMemcpyDeviceToHost, stream), "copy from the device");
  }

  void run(ExponentialField<double> in) {
    const size_t cells = size_t(in.nx) * size_t(in.ny), terms = size_t(in.terms), one = sizeof(double);
    inputs = {{in.score_x, size_t(in.nx) * terms * one},
              {in.score_y, size_t(in.ny) * terms * one},
              {in.payload, terms * size_t(in.channels) * one}};
    if (in.weight) inputs.push_back({in.weight, terms * one});
    outputs = {{in.field, cells * size_t(in.channels) * one}};
    const auto at = place();
    const auto real = [&](size_t i) { return reinterpret_cast<double*>(at[i]); };
    in.score_x = real(0), in.score_y = real(1), in.payload = real(2), in.field = real(at.size() - 1);
    if (in.weight) in.weight = real(3);
    exponential_kernel<<<blocks_of(in.nx, in.ny), kThreads, 0, stream>>>(in);
    fetch();
  }

  void run(AddressField<double> in) {
    const size_t cells = size_t(in.nx) * size_t(in.ny), one = sizeof(double), codes = size_t(in.codes);
    const bool all = in.top_k >= slots_of(in), two = in.factors == 2;
    std::vector<double> x, y;
    if (two) {  // sets of kept slots are decided by the CPU's bits
      x = softmaxes(in.logit_x, in.nx, in.codes, in.nearest_only, all), in.logit_x = x.data();
      y = softmaxes(in.logit_y, in.ny, in.codes, in.nearest_only, all), in.logit_y = y.data();
    }
    const auto column = slot_columns(in);
    inputs = {{in.logit_x, size_t(in.nx) * codes * one}, {in.logit_y, size_t(in.ny) * codes * one}, {column.data(), column.size() * one}};
    outputs = {{in.field, cells * size_t(in.channels) * one}, {in.read_mass, cells * one}};
    if (in.empty) outputs.push_back({in.empty, cells});
    const auto at = place();
    const auto real = [&](size_t i) { return reinterpret_cast<double*>(at[i]); };
    in.logit_x = real(0), in.logit_y = real(1), in.mass = in.value = nullptr;
    in.field = real(3), in.read_mass = real(4);
    if (in.empty) in.empty = reinterpret_cast<uint8_t*>(at[5]);
    const double* const columns = real(2);
    if (!all) {
      run_kept(in, columns);
    } else if (two) {
      const int64_t folds = int64_t(in.codes) * (in.channels + 2) * in.nx;
      double* const folded = reinterpret_cast<double*>(scratch.get(size_t(folds) * one));
      fold_kernel<<<blocks_for(folds), kThreads, 0, stream>>>(in, columns, folded);
      all_of_two_kernel<<<blocks_of(in.nx, in.ny), kThreads, 0, stream>>>(in, folded);
    } else {
      all_of_one_kernel<<<blocks_of(in.nx, in.ny), kThreads, 0, stream>>>(in, columns);
    }
    fetch();
  }

  void run_kept(const AddressField<double>& in, const double* column) {
    const int64_t wide = int64_t(in.factors) * in.codes, K = in.top_k;
    const size_t row_bytes = size_t(in.nx) * (size_t(wide + K) * sizeof(double) + size_t(K) * sizeof(int32_t));
    const int rows = int(std::clamp<size_t>(kScratch / row_bytes, 1, size_t(in.ny)));
    char* const memory = scratch.get(row_bytes * size_t(rows));
    double* const logit = reinterpret_cast<double*>(memory);
    double* const weight = logit + int64_t(rows) * in.nx * wide;
    int32_t* const slot = reinterpret_cast<int32_t*>(weight + int64_t(rows) * in.nx * K);
    AddressDecodeInput<double> decode;
    decode.logit = logit, decode.batch = decode.heads = 1;
    decode.factors = in.factors, decode.codes = in.codes, decode.top_k = int(K);
    decode.normalised = in.factors == 2;
    for (int first = 0; first < in.ny; first += rows) {
      const int64_t cells = int64_t(std::min(rows, in.ny - first)) * in.nx;
      cell_logits_kernel<<<blocks_for(cells * wide), kThreads, 0, stream>>>(in, first, cells, logit);
      if (in.nearest_only && in.factors == 1)
        keep_nearest_kernel<<<blocks_for(cells), kThreads, 0, stream>>>(in.codes, cells, logit);
      decode.tokens = cells;
      AddressDecodeOutput<double> found;
      found.slot = slot, found.weight = weight;
      select_addresses_cuda(decode, found, stream);
      gather_kernel<<<blocks_for(cells), kThreads, 0, stream>>>(in, first, cells, slot, weight, column);
    }
  }
};

struct FieldGpu::Lanes {
  Lane lane[3];
  size_t next = 0;
};

bool FieldGpu::takes(const ExponentialField<double>& in) {
  return in.nx > 0 && in.ny > 0 && in.terms > 0 && in.channels > 0 && in.channels <= kMostChannels;
}
bool FieldGpu::takes(const AddressField<double>& in) {
  const bool shape = in.nx > 0 && in.ny > 0 && in.codes > 0 && (in.factors == 1 || in.factors == 2);
  return shape && in.channels > 0 && in.channels <= kMostChannels && in.top_k > 0 &&
         (in.top_k <= kMostKept || in.top_k >= slots_of(in));
}

FieldGpu::FieldGpu() : lanes_(std::make_unique<Lanes>()) {
  for (Lane& lane : lanes_->lane) lane.collect();  // a device that does not answer says so now
}
FieldGpu::~FieldGpu() = default;

template <class Field>
void FieldGpu::start_on_lane(const Field& in) {
  if (!takes(in)) throw std::invalid_argument("value field on the GPU: this shape is for the CPU");
  Lane& lane = lanes_->lane[lanes_->next++ % 3];
  lane.collect();
  try {
    lane.run(in);
  } catch (...) {
    lane.outputs.clear();  // nothing will come back
    throw;
  }
}
void FieldGpu::start(const ExponentialField<double>& in) { start_on_lane(in); }
void FieldGpu::start(const AddressField<double>& in) { start_on_lane(in); }
void FieldGpu::discard() noexcept {
  for (Lane& lane : lanes_->lane) lane.outputs.clear();
}
void FieldGpu::finish() {
  for (size_t i = 0; i < 3; ++i) lanes_->lane[(lanes_->next + i) % 3].collect();
}

}  // namespace slotscope::kernels
