// The fast form of the RAM-Net scan. Columns of a memory's values never meet, but for the masses that decide how strong a
// write is. A block owns a few value columns of one (batch, head) pair and keeps them in shared memory, with a copy of the
// masses; a group of lanes, one lane per rank, owns one column. Tokens come in pieces through three tiles of shared memory:
// while value warps scan piece i, the first warp scans the masses of piece i + 1, and the ranks of piece i + 2 are on their
// way. Every slot sees the operations of the recurrence in its order and every sum is a fixed tree over the ranks, so results
// depend neither on pieces nor on calls.
#pragma once

#include "kernels/address_gate.h"
#include "kernels/address_scan.h"
#include "kernels/lane_sum.cuh"

namespace slotscope::kernels {
namespace {

constexpr int kMostWarps = 8;  // of a block that scan values
constexpr int kBatch = 4;      // tokens whose ranks are in registers at once

struct Plan {
  int piece = 0, warps = 0, slices = 0;  // tokens of a tile, value warps, blocks of a pair
  bool shared_state = false;
  size_t bytes = 0;  // of shared memory
};

// One piece of tokens. Slots that are not written (or read) are -1.
template <class Real>
struct Tile {
  Real* keep;      // [piece, top_k] of the mass, then the mass that is kept, then of the value
  Real* strength;  // [piece, top_k] w, then strength
  Real* p;         // [piece, top_k] r, then the read weight
  Real* seen;      // [piece, top_k] mass of the read slot, negative when the slot was never written
  Real* value;     // [piece, columns] v, then o
  int* write_slot;
  int* read_slot;

  __host__ __device__ static size_t bytes(int piece, int top_k, int columns) {
    return size_t(piece) * (size_t(top_k) * (4 * sizeof(Real) + 2 * sizeof(int)) + size_t(columns) * sizeof(Real));
  }
  __device__ Tile(char* at, int piece, int top_k, int columns) {
    const int ranks = piece * top_k;
    keep = reinterpret_cast<Real*>(at);
    strength = keep + ranks;
    p = strength + ranks;
    seen = p + ranks;
    value = seen + ranks;
    write_slot = reinterpret_cast<int*>(value + piece * columns);
    read_slot = write_slot + ranks;
  }
};

// Distance of two columns in shared memory: groups that touch the same slot of their columns meet in different banks.
__host__ __device__ int column_stride(int slots) { return (slots + 31) / 32 * 32 + 8; }

// kBatch sums at once, each added in the tree of group_sum. Afterwards the lanes [i n, (i+1) n), n = kLanes / 4, of a group
// hold sum i.
template <int kLanes, class Real>
__device__ Real batch_sum(const Real (&x)[kBatch], int lane) {
  static_assert(kBatch == 4, "two halvings");
  const bool upper = lane & (kLanes / 2), odd = lane & (kLanes / 4);
  Real a = upper ? x[2] : x[0], b = upper ? x[3] : x[1];
  a += __shfl_xor_sync(0xffffffffu, upper ? x[0] : x[2], kLanes / 2, kLanes);
  b += __shfl_xor_sync(0xffffffffu, upper ? x[1] : x[3], kLanes / 2, kLanes);
  Real sum = odd ? b : a;
  sum += __shfl_xor_sync(0xffffffffu, odd ? a : b, kLanes / 4, kLanes);
#pragma unroll
  for (int step = kLanes / 8; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step, kLanes);
  return sum;
}

template <class Real, int kLanes, bool kShared>
struct Scan {
  const AddressScanInput<Real>& in;
  const AddressScanOutput<Real>& out;
  const Plan& plan;
  int64_t pair, batch, head;
  int slice, columns, column_bits = 0, first_column, K, thread, threads, lane, group;  // thread: among the value warps
  bool needs_mass;
  Real *mass, *state;
  uint8_t* written;
  char* tiles;

  __device__ Scan(const AddressScanInput<Real>& i, const AddressScanOutput<Real>& o, const Plan& p, char* memory)
      : in(i), out(o), plan(p) {
    pair = blockIdx.x / plan.slices, slice = int(blockIdx.x % plan.slices);
    batch = pair / in.heads, head = pair % in.heads;
    columns = plan.warps * (32 / kLanes), first_column = slice * columns;  // columns: a power of two
    while (1 << column_bits < columns) ++column_bits;
    K = in.top_k, thread = int(threadIdx.x) - 32, threads = plan.warps * 32;
    lane = int(threadIdx.x) % kLanes, group = thread / kLanes;
    needs_mass = in.update == AddressUpdate::pdma || in.readout == AddressReadout::mass_aware ||
                 (slice == 0 && out.read_mass_written);
    tiles = memory;
    mass = reinterpret_cast<Real*>(memory + 3 * Tile<Real>::bytes(plan.piece, K, columns));
    state = mass + column_stride(in.slots);
    written = reinterpret_cast<uint8_t*>(state + (kShared ? columns * column_stride(in.slots) : 0));
  }

  __device__ Tile<Real> tile(int64_t piece) const {
    return Tile<Real>(tiles + int(piece % 3) * Tile<Real>::bytes(plan.piece, K, columns), plan.piece, K, columns);
  }
  __device__ int64_t line(int64_t piece, int token) const {
    return (batch * in.tokens + piece * plan.piece + token) * in.heads + head;
  }
  __device__ bool inside(int64_t piece, int token) const { return piece * plan.piece + token < in.tokens; }
  // A slot of a column of the block.
  __device__ Real& slot(int column, int index) const {
    if constexpr (kShared)
      return state[column * column_stride(in.slots) + index];
    else
      return out.state[(pair * in.slots + index) * in.d_v + first_column + column];
  }

  // All threads: state between global and shared memory.
  template <bool kIn>
  __device__ void move_state(Real* mass_after, uint8_t* written_after) const {
    const int64_t base = pair * in.slots;
    for (int i = int(threadIdx.x); i < in.slots; i += int(blockDim.x)) {
      if constexpr (kIn) {
        mass[i] = out.mass[base + i];
        if (out.written) written[i] = out.written[base + i];
      } else if (slice == 0) {
        mass_after[base + i] = mass[i];
        if (out.written) written_after[base + i] = written[i];
      }
    }
    if constexpr (kShared)
      for (int i = int(threadIdx.x); i < in.slots * columns; i += int(blockDim.x)) {
        const int index = i >> column_bits, column = i & (columns - 1);
        if (first_column + column >= in.d_v) continue;
        Real& global = out.state[(base + index) * in.d_v + first_column + column];
        if constexpr (kIn)
          slot(column, index) = global;
        else
          global = slot(column, index);
      }
  }

  // One rank of a token as it stands in global memory; nothing where the token or the rank does not exist.
  struct Rank {
    Real w = 0, r = 0, gamma = 0;
    int write = -1, read = -1;
  };
  __device__ Rank rank_of(int64_t piece, int token, int k) const {
    Rank rank;
    if (!inside(piece, token) || k >= K) return rank;
    const int64_t at = line(piece, token), i = at * K + k;
    rank.w = in.write_weight[i], rank.r = in.read_weight[i];
    rank.write = in.write_index[i], rank.read = in.read_index[i];
    rank.gamma = in.gamma ? in.gamma[at] : in.gamma_of_all;
    return rank;
  }
  __device__ void put_rank(const Tile<Real>& to, int i, const Rank& rank) const {
    const Real w = rank.w;
    to.write_slot[i] = rank.write >= 0 && rank.write < in.slots && !(w <= 0) ? rank.write : -1;
    to.keep[i] = in.update == AddressUpdate::gsu ? gsu_retention(w, rank.gamma, in.cumulative) : pdma_retention(w, rank.gamma);
    to.strength[i] = w;
    to.read_slot[i] = rank.read >= 0 && rank.read < in.slots ? rank.read : -1;
    to.p[i] = rank.r;
  }
  // Value warps: a piece into its tile, with what writes keep of the mass. A few loads are on their way at once.
  __device__ void load(int64_t piece) const {
    const Tile<Real> to = tile(piece);
    const int groups = threads / kLanes;
    for (int first = 0; first < K; first += kLanes)
      for (int base = group; base < plan.piece; base += kBatch * groups) {
        Rank rank[kBatch];
#pragma unroll
        for (int u = 0; u < kBatch; ++u) rank[u] = rank_of(piece, base + u * groups, first + lane);
#pragma unroll
        for (int u = 0; u < kBatch; ++u)
          if (const int token = base + u * groups; token < plan.piece && first + lane < K)
            put_rank(to, token * K + first + lane, rank[u]);
      }
    for (int base = thread; base < plan.piece * columns; base += kBatch * threads) {
      Real v[kBatch];
#pragma unroll
      for (int u = 0; u < kBatch; ++u) {
        const int i = base + u * threads, token = i >> column_bits, column = first_column + (i & (columns - 1));
        const bool there = token < plan.piece && inside(piece, token) && column < in.d_v;
        v[u] = there ? in.value[line(piece, token) * in.d_v + column] : Real(0);
      }
#pragma unroll
      for (int u = 0; u < kBatch; ++u)
        if (base + u * threads < plan.piece * columns) to.value[base + u * threads] = v[u];
    }
  }

  // Value warps: the outputs of a piece; each thread where it loads values.
  __device__ void store(int64_t piece) const {
    const Tile<Real> from = tile(piece);
    for (int i = thread; i < plan.piece * columns; i += threads) {
      const int token = i >> column_bits, column = first_column + (i & (columns - 1));
      if (inside(piece, token) && column < in.d_v) out.output[line(piece, token) * in.d_v + column] = from.value[i];
    }
  }

  // The first warp: masses token by token.
  __device__ void write_mass(const Tile<Real>& at, int i, int index, Real w, Real keep) const {
    if (index < 0) return;
    const Real kept = keep * mass[index];
    mass[index] = kept + w;
    if (in.update == AddressUpdate::gsu) at.keep[i] = kept;
    if (out.written) written[index] = 1;
  }
  __device__ void see_mass(const Tile<Real>& at, int i, int index) const {
    if (index < 0) return;
    const Real m = mass[index];
    at.seen[i] = (out.written ? written[index] != 0 : m != 0) ? m : -m;
  }
  __device__ void scan_masses(int64_t piece) const {
    const Tile<Real> at = tile(piece);
    const int rank = int(threadIdx.x);  // of 32 lanes
    for (int first = 0; first < plan.piece; first += kBatch) {
      if (K <= 32) {
        int write[kBatch], read[kBatch];
        Real w[kBatch], keep[kBatch];
#pragma unroll
        for (int u = 0; u < kBatch; ++u) {
          const int i = (first + u) * K + rank;
          write[u] = rank < K ? at.write_slot[i] : -1, read[u] = rank < K ? at.read_slot[i] : -1;
          w[u] = rank < K ? at.strength[i] : Real(0), keep[u] = rank < K ? at.keep[i] : Real(0);
        }
#pragma unroll
        for (int u = 0; u < kBatch; ++u) {
          write_mass(at, (first + u) * K + rank, write[u], w[u], keep[u]);
          __syncwarp();
          if (needs_mass) see_mass(at, (first + u) * K + rank, read[u]);
          __syncwarp();
        }
      } else {
        for (int token = first; token < first + kBatch; ++token) {
          for (int i = token * K + rank; i < (token + 1) * K; i += 32)
            write_mass(at, i, at.write_slot[i], at.strength[i], at.keep[i]);
          __syncwarp();
          if (needs_mass)
            for (int i = token * K + rank; i < (token + 1) * K; i += 32) see_mass(at, i, at.read_slot[i]);
          __syncwarp();
        }
      }
    }
  }

  // Value warps, a group per token: from masses to what is kept, written and read; what the caller wants to know of them.
  __device__ void weigh(int64_t piece) const {
    const Tile<Real> at = tile(piece);
    for (int token = group; token < plan.piece; token += threads / kLanes) {
      const bool tells = slice == 0 && inside(piece, token);
      const int64_t line_at = tells ? line(piece, token) : 0;
      weigh_writes(at, token, tells, line_at);
      weigh_reads(at, token, tells, line_at);
      const int row = tells && in.read_row ? in.read_row[piece * plan.piece + token] : -1;
      Real* const to = out.read_weight + ((batch * in.read_rows + row) * in.heads + head) * in.slots;
      const bool wanted = row >= 0 && row < in.read_rows;
      if (wanted)
        for (int m = lane; m < in.slots; m += kLanes) to[m] = 0;
      __syncwarp();
      if (wanted)
        for (int k = lane; k < K; k += kLanes)
          if (const int index = at.read_slot[token * K + k]; index >= 0) to[index] = at.p[token * K + k];
    }
  }
  __device__ void weigh_writes(const Tile<Real>& at, int token, bool tells, int64_t line_at) const {
    for (int k = lane; k < K; k += kLanes) {
      const int i = token * K + k;
      const bool gsu = in.update == AddressUpdate::gsu, any = at.write_slot[i] >= 0;
      const Real w = at.strength[i], kept = at.keep[i];
      Real strength = w;
      if (any && gsu) {
        const Real total = kept + w + in.eps;
        strength = w / total;
        at.keep[i] = (kept + in.eps) / total;
        at.strength[i] = strength;
      }
      if (tells && out.strength) out.strength[line_at * K + k] = any ? strength : Real(0);
      if (tells && out.log_gate)
        out.log_gate[line_at * K + k] = !any  ? Real(0)
                                        : gsu ? gsu_log_keep_per_weight(w, kept, in.eps)
                                              : pdma_log_keep_per_weight(w, in.gamma_of_all);
    }
  }
  __device__ void weigh_reads(const Tile<Real>& at, int token, bool tells, int64_t line_at) const {
    if (!needs_mass) return;
    Real sum = 0, reached = 0;
    for (int k = lane; k < K; k += kLanes) {
      const int i = token * K + k;
      if (at.read_slot[i] < 0) continue;
      const Real r = at.p[i], seen = at.seen[i];
      sum += r * fabs(seen);
      if (!signbit(seen)) reached += r;
    }
    sum = group_sum<kLanes>(sum), reached = group_sum<kLanes>(reached);
    for (int k = lane; k < K; k += kLanes) {
      const int i = token * K + k;
      if (at.read_slot[i] < 0) continue;
      const Real m = fabs(at.seen[i]), divisor = m + in.eps;
      Real p = at.p[i];
      if (in.readout == AddressReadout::mass_aware) p = p * m;
      if (in.update == AddressUpdate::pdma) p = divisor == 0 ? Real(0) : p / divisor;
      if (in.readout == AddressReadout::mass_aware) p = sum == 0 ? Real(0) : p / sum;
      at.p[i] = p;
    }
    if (tells && out.read_mass_written && lane == 0) out.read_mass_written[line_at] = reached;
  }

  // Value warps, a group per column: write and read, token by token. Outputs take the place of the values.
  __device__ void scan_values(int64_t piece) const {
    const Tile<Real> at = tile(piece);
    const int column = group;
    const bool there = first_column + column < in.d_v;
    for (int first = 0; first < plan.piece; first += kBatch) {
      Real part[kBatch];
      if (kLanes < 32 || K <= kLanes)
        few_ranks(at, first, column, there, part);
      else
        many_ranks(at, first, column, there, part);
      const Real sum = batch_sum<kLanes>(part, lane);
      if (lane % (kLanes / kBatch) == 0) at.value[(first + lane / (kLanes / kBatch)) * columns + column] = sum;
    }
  }
  // At most a rank per lane: all that the tokens bring is loaded before the first one.
  __device__ void few_ranks(const Tile<Real>& at, int first, int column, bool there, Real (&part)[kBatch]) const {
    int write[kBatch], read[kBatch];
    Real keep[kBatch], add[kBatch], p[kBatch];
    const bool active = there && lane < K;
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const int i = (first + u) * K + lane;
      write[u] = active ? at.write_slot[i] : -1, read[u] = active ? at.read_slot[i] : -1;
      keep[u] = active ? at.keep[i] : Real(0), p[u] = active ? at.p[i] : Real(0);
      add[u] = active ? at.strength[i] * at.value[(first + u) * columns + column] : Real(0);
    }
    __syncwarp();
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      if (write[u] >= 0) {
        Real& s = slot(column, write[u]);
        s = keep[u] * s + add[u];
      }
      __syncwarp();
      part[u] = read[u] >= 0 ? p[u] * slot(column, read[u]) : Real(0);
      __syncwarp();
    }
  }
  __device__ void many_ranks(const Tile<Real>& at, int first, int column, bool there, Real (&part)[kBatch]) const {
    const int ranks = there ? K : 0;
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const int base = (first + u) * K;
      const Real v = at.value[(first + u) * columns + column];
      for (int k = lane; k < ranks; k += kLanes) {
        if (at.write_slot[base + k] < 0) continue;
        Real& s = slot(column, at.write_slot[base + k]);
        s = at.keep[base + k] * s + at.strength[base + k] * v;
      }
      __syncwarp();
      part[u] = 0;
      for (int k = lane; k < ranks; k += kLanes)
        if (at.read_slot[base + k] >= 0) part[u] += at.p[base + k] * slot(column, at.read_slot[base + k]);
      __syncwarp();
    }
  }
};

// All value warps, and not the warp of the masses.
__device__ void value_barrier(int threads) { asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory"); }

template <class Real, int kLanes, bool kShared>
__global__ void __launch_bounds__(32 * (kMostWarps + 1), 1)
    scan_kernel(AddressScanInput<Real> in, AddressScanOutput<Real> out, Real* mass_after, uint8_t* written_after, Plan plan) {
  extern __shared__ double shared_storage[];
  const Scan<Real, kLanes, kShared> scan(in, out, plan, reinterpret_cast<char*>(shared_storage));
  const bool masses = threadIdx.x < 32;
  const int64_t pieces = (in.tokens + plan.piece - 1) / plan.piece;
  scan.template move_state<true>(nullptr, nullptr);
  if (!masses) {
    scan.load(0);
    if (pieces > 1) scan.load(1);
  }
  __syncthreads();
  if (masses) scan.scan_masses(0);
  __syncthreads();
  for (int64_t i = 0; i < pieces; ++i) {
    if (masses) {
      if (i + 1 < pieces) scan.scan_masses(i + 1);
    } else {
      if (i > 0) scan.store(i - 1);
      if (i + 2 < pieces) scan.load(i + 2);
      scan.weigh(i);
      value_barrier(scan.threads);
      scan.scan_values(i);
    }
    __syncthreads();
  }
  if (!masses) scan.store(pieces - 1);
  scan.template move_state<false>(mass_after, written_after);
}

}  // namespace
}  // namespace slotscope::kernels
