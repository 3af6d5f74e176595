// Token-to-token matrices of one head, row by row and never whole (spec: ramnet 1.7, 4; kernels 3.4; raven-analysis "Overlap"):
// how far the read address of token t meets the write address of token s <= t, what of that the memory's gates leave, the rows of
// an attention model, and how they differ. Rows are tokens that read (t), columns tokens that wrote (s).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/analysis/addresses.h"
#include "core/analysis/grid.h"
#include "core/progress.h"

namespace slotscope::analysis {

// A part [first, last) of one row: dense values, with a list of those that something was added to.
class RowBuffer {
 public:
  // Empties it for the columns [first, last). Costs what was touched before.
  void reset(int64_t first, int64_t last);
  void add(int64_t column, double value) {
    const size_t i = size_t(column - first_);
    if (!seen_[i]) seen_[i] = 1, touched_.push_back(column);
    value_[i] += value;
  }
  int64_t first() const { return first_; }
  int64_t last() const { return last_; }
  double at(int64_t column) const { return value_[size_t(column - first_)]; }
  std::span<const double> values() const { return {value_.data(), size_t(last_ - first_)}; }
  const std::vector<int64_t>& touched() const { return touched_; }
  void scale(double factor) {
    for (const int64_t c : touched_) value_[size_t(c - first_)] *= factor;
  }

 private:
  int64_t first_ = 0, last_ = 0;
  std::vector<double> value_;
  std::vector<uint8_t> seen_;
  std::vector<int64_t> touched_;
};

// All calls are safe from several threads.
class TokenMatrix {
 public:
  virtual ~TokenMatrix() = default;
  int64_t tokens() const { return tokens_; }
  // What one value is: "overlap", "A[t,s]", ...
  const std::string& name() const { return name_; }
  bool is_signed() const { return signed_; }
  // Whether there is a row of token t.
  virtual bool has_row(int64_t t) const = 0;
  // Adds the values of row t to `row`, which has been reset to columns within [0, t]; columns to which nothing is added are 0.
  // Returns the first column from which on values are known (0; more where tokens in between were not captured).
  virtual int64_t add_row(int64_t t, RowBuffer& row) const = 0;
  // Columns that hold a value at all: captured tokens, in increasing order. Empty: all.
  virtual const std::vector<int64_t>& columns() const;

 protected:
  TokenMatrix(int64_t tokens, std::string name, bool is_signed = false)
      : tokens_(tokens), name_(std::move(name)), signed_(is_signed) {}

 private:
  int64_t tokens_;
  std::string name_;
  bool signed_;
};

// dot: sum_a r_t(a) w_s(a) of the read and the write address (routes: of the two routes). min: sum_i min(r_t[i], r_s[i]);
// write: sum_i min of the write strengths. Only dot is defined where reads have addresses of their own.
enum class OverlapKind : uint8_t { dot, min, write };
// Throws Error when it is not defined for these addresses (says why).
std::shared_ptr<const TokenMatrix> overlap_matrix(std::shared_ptr<const Addresses>, OverlapKind = OverlapKind::dot);
// A[t,s] = sum_a p_t(a) strength_s(a) exp(sum_{j=s+1..t} f_j(a)) for every t (spec: ramnet 1.7). Throws Error with no_induced, and
// where reads have no addresses.
std::shared_ptr<const TokenMatrix> induced_matrix(std::shared_ptr<const Addresses>);
// A[t,j] of a head's captured read tokens, whatever its family (HeadData::attribution). Throws Error with the reason when there is
// no such row.
std::shared_ptr<const TokenMatrix> attribution_matrix(std::shared_ptr<const HeadData>, int query_head);
// The attention of one query head at its captured read tokens, read from the file as rows are asked for; the same numbers as
// attribution_matrix has. Throws Error when the layer is no attention or no reads were captured.
std::shared_ptr<const TokenMatrix> attention_matrix(std::shared_ptr<const trace::Trace>, int run, int layer, int query_head);

// What the recurrent layer's token-to-token weights are known as: induced_matrix where every row is, else attribution_matrix at
// the captured read tokens (`data`; null: not wanted). Throws Error with both reasons.
std::shared_ptr<const TokenMatrix> recurrent_matrix(std::shared_ptr<const Addresses>, std::shared_ptr<const HeadData> data,
                                                    int query_head);
// Token-to-token weights of any layer of a trace: attention_matrix, else recurrent_matrix. Throws Error.
std::shared_ptr<const TokenMatrix> trace_matrix(std::shared_ptr<const trace::Trace>, int run, int layer, int query_head,
                                                Progress* = nullptr);
// How many tokens, from the first on, two runs have in common (by id): rows beyond are about different texts.
int64_t common_tokens(const trace::RunInfo& a, const trace::RunInfo& b);
// A matrix beside one of `tokens` tokens: rows t < `rows` only.
std::shared_ptr<const TokenMatrix> first_rows(std::shared_ptr<const TokenMatrix>, int64_t tokens, int64_t rows);

// The square part [first, first + n) of a matrix as tile() gives it: values [n, n]. NaN: not known. Throws Error for other sizes.
std::shared_ptr<const TokenMatrix> stored_matrix(std::vector<double> values, int64_t first, int64_t n, std::string name, bool is_signed);

// Every row divided by its sum over all columns. A row whose sum is 0 is missing mass: has_row is true, all values are 0.
std::shared_ptr<const TokenMatrix> row_normalised(std::shared_ptr<const TokenMatrix>);
// a - b, of rows that both have. Throws Error when their numbers of tokens differ.
std::shared_ptr<const TokenMatrix> difference(std::shared_ptr<const TokenMatrix> a, std::shared_ptr<const TokenMatrix> b);

// Rows [t0, t1) x columns [s0, s1), row-major: 0 where s > t, NaN where the row or the column was not captured or the value is not
// known. Throws Error for a range outside [0, T) or of more than kMostTileCells cells.
inline constexpr int64_t kMostTileCells = int64_t(1) << 26;
std::vector<double> tile(const TokenMatrix&, int64_t t0, int64_t t1, int64_t s0, int64_t s1, Progress* = nullptr);

struct MatrixRequest {
  int64_t t0 = 0, t1 = 0, s0 = 0, s1 = 0;
  int max_rows = 1024, max_columns = 1024;  // pixels
  int threads = 0;                          // 0: as many as the machine has, at most 8
};
// Pixels: of every block of cells the largest value (of a signed matrix the largest magnitude, sign kept) and the mean over the
// known cells with s <= t, zeros included. In both `slots_per_row` is how many tokens t a row has, from t0 on.
struct MatrixGrid {
  SlotGrid max, mean;
  int64_t t0 = 0, t1 = 0, s0 = 0, s1 = 0;
  int64_t missing_rows = 0;  // tokens t of the window without a row
  int64_t unknown_cells = 0;
  double cell_mean = 0;  // over all finite cells of the window; NaN when there are none
};
// Empty (rows = 0) when progress asks to stop. Memory: the pixels, and per thread one row of s1 - s0 values.
MatrixGrid pixels(const TokenMatrix&, const MatrixRequest&, Progress* = nullptr);

// How far the rows of `a` are from those of `b`, each divided by its sum: spec ramnet 4. Rows that are all 0 are missing mass: they
// are counted and passed over (NaN), as are rows that one of the two does not have or that hold negative or unknown values.
struct RowDivergences {
  int64_t first = 0;              // token of the first entry
  std::vector<double> js, kl;     // nats: Jensen-Shannon, and forward KL(b || a) with b the teacher
  int64_t compared = 0;           // rows with a number
  int64_t zero_a = 0, zero_b = 0; // rows of both that are all 0 in a; in b only
  int64_t missing = 0;            // rows without both
  int64_t undefined = 0;          // rows with negative or unknown values
  int64_t infinite_kl = 0;        // rows where `a` is 0 and `b` is not (Top-K drops slots): their KL is infinite
  double mean_js = 0, mean_kl = 0;  // over rows t >= 1 with a number; NaN when there is none
};
// Rows [t0, t1). Empty js when progress asks to stop. Throws Error when the numbers of tokens differ.
RowDivergences compare_rows(const TokenMatrix& a, const TokenMatrix& b, int64_t t0, int64_t t1, Progress* = nullptr);

// Sum of each row over all columns; NaN where there is no row or part of it is not known. [t1 - t0].
std::vector<double> row_sums(const TokenMatrix&, int64_t t0, int64_t t1, Progress* = nullptr);

}  // namespace slotscope::analysis
