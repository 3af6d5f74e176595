// The CUDA search of a product code's best slots: exactly the best of all slots, given the device's own log softmax, and that
// log softmax against the CPU's.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>

#include "kernels/address_decode.h"
#include "tests/cases/case.h"
#include "tests/cases/kernels/guarded.h"

using namespace slotscope::kernels;
using namespace slotscope::testing;

#ifndef SLOTSCOPE_HAS_CUDA

SLOTSCOPE_CASE(best_of_all_slots) {
  bool thrown = false;
  try {
    select_addresses_cuda(AddressDecodeInput<float>{}, {}, nullptr);
  } catch (const std::logic_error& e) {
    thrown = std::string(e.what()).find("no CUDA") != std::string::npos;
  }
  CHECK(thrown);
  t.skip(t.device() == "cpu" ? "needs a GPU: --device cuda" : "this build has no CUDA kernels");
}

#else

namespace {

struct Shape {
  int codes, factors, top_k;
  int64_t batch = 1, tokens = 5;
  int heads = 2;
  SlotOrder order = SlotOrder::factor0_least;
  int direction = 1;
  std::vector<uint8_t> cape = {};  // empty: none
  int64_t first_position = 0;
  bool normalised = false;
  int64_t rows() const { return batch * tokens * heads; }
  std::string text() const {
    return std::to_string(codes) + "^" + std::to_string(factors) + ", K " + std::to_string(top_k) + ", " +
           std::to_string(rows()) + " rows";
  }
};

template <class Real>
struct Found {
  std::vector<int32_t> slot;
  std::vector<Real> weight, score, lost;
  bool intact = true;
  float ms = 0;
};

template <class Real>
AddressDecodeInput<Real> input_of(const Shape& s, const Real* logit, const uint8_t* cape) {
  AddressDecodeInput<Real> in;
  in.logit = logit, in.batch = s.batch, in.tokens = s.tokens, in.heads = s.heads;
  in.factors = s.factors, in.codes = s.codes, in.top_k = s.top_k, in.order = s.order;
  in.cape = s.cape.empty() ? nullptr : cape, in.direction = s.direction, in.first_position = s.first_position;
  in.normalised = s.normalised;
  return in;
}

template <class Real>
Found<Real> empty_of(const Shape& s) {
  const size_t ranks = size_t(s.rows()) * size_t(s.top_k);
  return {std::vector<int32_t>(ranks, -9), std::vector<Real>(ranks, NAN), std::vector<Real>(ranks, NAN),
          std::vector<Real>(size_t(s.rows()), NAN)};
}

template <class Real>
Found<Real> on_gpu(const Shape& s, const std::vector<Real>& logit, bool all = true) {
  Found<Real> f = empty_of<Real>(s);
  Guarded<Real> logits(logit), weight(f.weight), score(f.score), lost(f.lost);
  Guarded<int32_t> slot(f.slot);
  Guarded<uint8_t> cape(s.cape);
  f.ms = milliseconds([&](cudaStream_t stream) {
    select_addresses_cuda(input_of<Real>(s, logits.data(), cape.data()),
                          {slot.data(), weight.data(), all ? score.data() : nullptr, all ? lost.data() : nullptr}, stream);
  });
  f.slot = slot.fetch(f.intact), f.weight = weight.fetch(f.intact);
  f.score = score.fetch(f.intact), f.lost = lost.fetch(f.intact);
  logits.fetch(f.intact), cape.fetch(f.intact);
  return f;
}

template <class Real>
Found<Real> on_cpu(const Shape& s, const std::vector<Real>& logit) {
  Found<Real> f = empty_of<Real>(s);
  select_addresses_cpu(input_of<Real>(s, logit.data(), s.cape.data()),
                       {f.slot.data(), f.weight.data(), f.score.data(), f.lost.data()}, 0, s.rows());
  return f;
}

// The device's log softmax of every factor: the search over one factor with all its codes.
template <class Real>
std::vector<Real> log_p_of(const Shape& s, const std::vector<Real>& logit) {
  Shape one{s.codes, 1, s.codes, 1, s.rows(), s.factors};
  const Found<Real> f = on_gpu(one, logit);
  std::vector<Real> log_p(logit.size(), NAN);
  for (size_t i = 0; i < f.slot.size(); ++i) log_p[i / size_t(s.codes) * size_t(s.codes) + size_t(f.slot[i])] = f.score[i];
  return log_p;
}

// One row against all d_p^U sums, added in the order of the factors and sorted: scores bit for bit, slots where no other slot
// has the same score, else some slot of that score.
template <class Real>
bool row_is_best(const Shape& s, const Found<Real>& f, size_t row, const Real* log_p, int64_t shift) {
  const int64_t slots = address_slots(s.codes, s.factors);
  std::vector<std::pair<Real, int32_t>> all;
  for (int64_t slot = 0; slot < slots; ++slot) {
    std::vector<int> code(size_t(s.factors));
    int64_t rest = slot;
    for (int u = 0; u < s.factors; ++u, rest /= s.codes)
      code[size_t(s.order == SlotOrder::factor0_least ? u : s.factors - 1 - u)] = int(rest % s.codes);
    Real score = 0;
    for (int u = 0; u < s.factors; ++u) score += log_p[u * s.codes + code[size_t(u)]];
    all.push_back({score, int32_t(slot)});
  }
  std::vector<Real> by_slot;
  for (const auto& [score, slot] : all) by_slot.push_back(score);
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.first > b.first || (a.first == b.first && a.second < b.second); });
  std::vector<uint8_t> taken(size_t(slots), 0);
  for (size_t k = 0; k < size_t(s.top_k); ++k) {
    const size_t at = row * size_t(s.top_k) + k;
    if (f.score[at] != all[k].first || f.slot[at] < 0 || f.slot[at] >= slots) return false;
    const size_t slot = size_t((f.slot[at] - shift + slots) % slots);
    if (taken[slot]++ || by_slot[slot] != f.score[at]) return false;
    const bool alone = (k == 0 || all[k - 1].first != all[k].first) &&
                       (k + 1 == all.size() || all[k + 1].first != all[k].first);
    if (alone && slot != size_t(all[k].second)) return false;
    if (k > 0 && f.score[at - 1] == f.score[at] &&  // in one score ascending slots, before they move
        (f.slot[at - 1] - shift + slots) % slots > int64_t(slot))
      return false;
  }
  return true;
}

template <class Real>
std::vector<Real> logits_of(const Shape& s, std::mt19937& random, bool ties) {
  std::vector<Real> logit;
  std::normal_distribution<float> normal(0, 1.5f);
  for (int64_t i = 0; i < s.rows() * s.factors * s.codes; ++i)
    logit.push_back(ties ? Real(int(random() % 3)) : Real(normal(random)));
  return logit;
}

struct Worst {
  double cpu[2] = {0, 0};  // scores against the CPU's: float64, float32
  int64_t rows[2] = {0, 0}, same[2] = {0, 0};
};

template <class Real>
void check_type(slotscope::testing::Context& t, const Shape& s, const std::vector<Real>& logit, bool brute, Worst& worst) {
  const Found<Real> f = on_gpu(s, logit), again = on_gpu(s, logit), cpu = on_cpu(s, logit), few = on_gpu(s, logit, false);
  if (!f.intact || !again.intact || !few.intact) t.fail(s.text() + ": wrote outside its outputs", __FILE__, __LINE__);
  if (f.slot != again.slot || f.score != again.score || f.weight != again.weight || f.lost != again.lost ||
      few.slot != f.slot || few.weight != f.weight)
    t.fail(s.text() + ": two runs differ", __FILE__, __LINE__);
  const bool narrow = sizeof(Real) == 4;
  const double unit = std::numeric_limits<Real>::epsilon(), slots = double(address_slots(s.codes, s.factors));
  std::vector<Real> log_p;
  if (brute) {
    log_p = log_p_of(s, logit);
    Shape taken = s;
    taken.normalised = true;
    const Found<Real> same = on_gpu(taken, log_p);
    if (same.slot != f.slot || same.score != f.score) t.fail(s.text() + ": log softmaxes give others", __FILE__, __LINE__);
  }
  const size_t cells = size_t(s.factors) * size_t(s.codes), K = size_t(s.top_k);
  for (size_t row = 0; row < size_t(s.rows()); ++row) {
    const int64_t position = s.first_position + int64_t(row) / s.heads % s.tokens;
    const bool moves = !s.cape.empty() && s.cape[row % size_t(s.heads)];
    int64_t shift = moves ? position % int64_t(slots) * s.direction : 0;
    shift = (shift + int64_t(slots)) % int64_t(slots);
    if (brute && !row_is_best(s, f, row, &log_p[row * cells], shift))
      t.fail(s.text() + ": row " + std::to_string(row) + " is not the best of all slots", __FILE__, __LINE__);
    bool same = true;
    double error = 0, kept = 0;
    for (size_t k = row * K; k < (row + 1) * K; ++k) {
      same = same && f.score[k] == cpu.score[k] && f.slot[k] == cpu.slot[k];
      const double e = std::abs(double(f.score[k]) - double(cpu.score[k])) / std::max(1.0, std::abs(double(cpu.score[k])));
      if (!(e <= error)) error = e;
      if (!(std::abs(double(f.weight[k]) - std::exp(double(f.score[k]))) <= 2 * unit * std::exp(double(f.score[k]))))
        t.fail(s.text() + ": a weight is not exp of its score", __FILE__, __LINE__);
      kept += double(f.weight[k]);
    }
    const double lost = K == size_t(slots) ? 0 : std::max(0.0, 1 - kept);
    if (!(std::abs(double(f.lost[row]) - lost) <= 8 * unit + double(K) * 1.2e-16)) t.fail(s.text() + ": lost mass", __FILE__, __LINE__);
    if (!(error <= 4 * s.factors * unit)) t.fail(s.text() + ": off from the CPU by " + to_text(error), __FILE__, __LINE__);
    worst.cpu[narrow] = std::max(worst.cpu[narrow], error);
    ++worst.rows[narrow], worst.same[narrow] += same;
  }
}

void check(slotscope::testing::Context& t, const Shape& s, bool ties, bool brute, Worst& worst) {
  std::mt19937 random(unsigned(s.codes * 1000 + s.factors * 100 + s.top_k));
  check_type<double>(t, s, logits_of<double>(s, random, ties), brute, worst);
  check_type<float>(t, s, logits_of<float>(s, random, ties), brute, worst);
}

void tell(slotscope::testing::Context& t, const Worst& w) {
  for (const int i : {0, 1})
    t.note(std::string(i ? "float32" : "float64") + ": scores off from the CPU by at most " + to_text(w.cpu[i]) + "; " +
           std::to_string(w.same[i]) + " of " + std::to_string(w.rows[i]) + " rows equal to the last bit");
}

}  // namespace

SLOTSCOPE_CASE(best_of_all_slots) {
  if (!need_gpu(t)) return;
  Worst worst;
  for (const auto& [codes, factors] : {std::pair{2, 1}, {2, 5}, {2, 11}, {3, 4}, {4, 5}, {5, 3}, {8, 3}, {16, 2}, {64, 1}, {64, 2}})
    for (const int top_k : {1, 2, 7, 8, 9, 16, 17, 31, 32, 33, 64, 65, 128, 129, 300, 1024, 4096})
      for (const bool ties : {false, true}) {
        const int64_t slots = address_slots(codes, factors);
        if (top_k > slots) continue;
        Shape s{codes, factors, top_k};
        if (ties) s.order = SlotOrder::factor0_most;
        check(t, s, ties, true, worst);
        if (top_k < 300 || ties) continue;
        s.top_k = int(slots);
        check(t, s, ties, true, worst);
      }
  for (const int rows : {1, 63, 64, 65, 1000}) check(t, {4, 5, 32, 1, rows, 1}, false, rows < 100, worst);
  tell(t, worst);
}

// Codes and factors of odd numbers, and lists and tables that do not fit in registers or shared memory.
SLOTSCOPE_CASE(odd_shapes) {
  if (!need_gpu(t)) return;
  Worst worst;
  check(t, {1, 1, 1}, false, true, worst);
  check(t, {1, 9, 1}, false, true, worst);
  check(t, {2, 30, 32}, false, false, worst);
  check(t, {2, 20, 100}, true, false, worst);
  check(t, {300, 2, 40}, false, true, worst);
  check(t, {1000, 3, 20}, false, false, worst);
  check(t, {5000, 1, 17}, false, true, worst);
  check(t, {20000, 1, 20}, false, false, worst);
  check(t, {64, 3, 500}, false, false, worst);
  check(t, {4, 8, 20000}, false, false, worst);
  check(t, {4, 8, 65536, 1, 1, 1}, true, true, worst);
  tell(t, worst);
}

SLOTSCOPE_CASE(cape_moves_slots) {
  if (!need_gpu(t)) return;
  Worst worst;
  for (const int direction : {1, -1})
    for (const int64_t first : {int64_t(0), int64_t(1000), int64_t(1) << 40})
      for (const int top_k : {8, 200}) {
        Shape s{3, 6, top_k, 2, 7, 3};
        s.cape = {1, 0, 1}, s.direction = direction, s.first_position = first;
        check(t, s, false, true, worst);
        std::mt19937 random(5);
        const auto logit = logits_of<float>(s, random, false);
        CHECK(on_gpu(s, logit).slot == on_cpu(s, logit).slot);
      }
}

// NaN and infinite logits: the slots of the CPU, NaN where it has NaN.
SLOTSCOPE_CASE(bad_logits) {
  if (!need_gpu(t)) return;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const int top_k : {5, 40, 300}) {
    Shape s{4, 5, top_k, 1, 40, 2};
    std::mt19937 random(9);
    auto logit = logits_of<float>(s, random, false);
    for (size_t i = 0; i < logit.size(); ++i) {
      const unsigned kind = random() % 60;
      if (kind < 3) logit[i] = kind == 0 ? NAN : kind == 1 ? infinity : -infinity;
    }
    for (size_t i = 0; i < 20; ++i) logit[i] = -infinity;  // a row without anything
    for (size_t i = 20; i < 40; ++i) logit[i] = 1e30f;     // all equal
    const auto f = on_gpu(s, logit), cpu = on_cpu(s, logit);
    CHECK(f.intact);
    for (size_t row = 0; row < 80; ++row) {
      std::vector<uint8_t> taken(1024);
      const size_t at = row * size_t(top_k);
      bool nan = false;
      for (size_t k = at; k < at + size_t(top_k); ++k) {
        CHECK(f.slot[k] >= 0 && f.slot[k] < 1024 && !taken[size_t(f.slot[k])]++);
        CHECK(std::isnan(f.score[k]) == std::isnan(cpu.score[k]));
        CHECK(std::isnan(f.weight[k]) == std::isnan(cpu.weight[k]));
        if (std::isnan(f.score[k])) nan = true, CHECK_EQ(f.slot[k], cpu.slot[k]);
      }
      CHECK(std::isnan(f.lost[row]) == (nan || std::isnan(cpu.lost[row])));
    }
    for (size_t k = size_t(top_k); k < size_t(2 * top_k); ++k) CHECK_EQ(f.slot[k], int32_t(k) - top_k);  // ties: ascending
  }
}

SLOTSCOPE_CASE(nothing_to_do_and_nonsense) {
  if (!need_gpu(t)) return;
  AddressDecodeInput<float> in;
  select_addresses_cuda(in, {}, nullptr);
  in.batch = in.tokens = in.heads = 1, in.codes = 4, in.factors = 2;
  for (const int top_k : {0, 17}) {
    in.top_k = top_k;
    bool thrown = false;
    try {
      select_addresses_cuda(in, {}, nullptr);
    } catch (const std::invalid_argument&) {
      thrown = true;
    }
    CHECK(thrown);
  }
}

// The lengths of use: 16,384 tokens of 16 heads, read and write.
SLOTSCOPE_CASE(long_runs) {
  if (!need_gpu(t)) return;
  for (const auto& [codes, factors, top_k] : {std::tuple{4, 5, 8}, {4, 5, 32}, {4, 6, 64}, {16, 3, 32}}) {
    const Shape s{codes, factors, top_k, 2, 16384, 16};
    std::mt19937 random(3);
    const auto logit = logits_of<float>(s, random, false);
    const std::vector<double> wide(logit.begin(), logit.end());
    on_gpu(s, logit, false), on_gpu(s, wide, false);
    const auto f = on_gpu(s, logit), cpu = on_cpu(s, logit);
    const auto d = on_gpu(s, wide, false);
    CHECK(f.intact && d.intact);
    double error = 0;
    int64_t other = 0;
    for (size_t i = 0; i < f.score.size(); ++i) {
      const double e = std::abs(double(f.score[i]) - double(cpu.score[i])) / std::max(1.0, std::abs(double(cpu.score[i])));
      if (!(e <= error)) error = e;
      other += f.slot[i] != cpu.slot[i];
    }
    CHECK_CLOSE(error, 0, 1e-6);
    CHECK(double(other) <= 1e-4 * double(f.slot.size()));
    char text[200];
    std::snprintf(text, sizeof text, "%s: float64 %.2f ms, float32 %.2f ms, scores off by %.1e, %lld of %zu slots other",
                  s.text().c_str(), double(d.ms), double(f.ms), error, static_cast<long long>(other), f.slot.size());
    t.note(text);
  }
}

#endif
