// Product softmax and exact Top-K: golden cases, brute force with many ties, NaN, CAPE (spec: ramnet 1.2 to 1.4).
#include "kernels/address_decode.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "tests/cases/case.h"

using namespace slotscope::kernels;

namespace {

template <class Real>
struct Decoded {
  std::vector<int32_t> slot;
  std::vector<Real> weight, score, lost;
};

template <class Real>
Decoded<Real> decode(const AddressDecodeInput<Real>& in) {
  const int64_t rows = in.batch * in.tokens * in.heads;
  Decoded<Real> out{std::vector<int32_t>(size_t(rows * in.top_k), -7), std::vector<Real>(size_t(rows * in.top_k)),
                    std::vector<Real>(size_t(rows * in.top_k)), std::vector<Real>(size_t(rows))};
  select_addresses_cpu<Real>(in, {out.slot.data(), out.weight.data(), out.score.data(), out.lost.data()}, 0, rows);
  return out;
}

template <class Real>
AddressDecodeInput<Real> one_row(const std::vector<Real>& logit, int factors, int codes, int top_k,
                                 SlotOrder order = SlotOrder::factor0_least) {
  AddressDecodeInput<Real> in;
  in.logit = logit.data();
  in.batch = in.tokens = in.heads = 1;
  in.factors = factors, in.codes = codes, in.top_k = top_k, in.order = order;
  return in;
}

// Every slot's score, sorted; digits by division, as the definition has them.
template <class Real>
std::vector<std::pair<Real, int32_t>> brute_force(const std::vector<Real>& logit, int factors, int codes, SlotOrder order) {
  std::vector<Real> log_p(logit.size());
  for (int u = 0; u < factors; ++u) log_softmax(&logit[size_t(u * codes)], codes, &log_p[size_t(u * codes)]);
  const int64_t slots = address_slots(codes, factors);
  std::vector<std::pair<Real, int32_t>> all;
  for (int64_t slot = 0; slot < slots; ++slot) {
    Real score = 0;
    for (int u = 0; u < factors; ++u) {
      int64_t rest = slot;
      for (int d = order == SlotOrder::factor0_least ? u : factors - 1 - u; d > 0; --d) rest /= codes;
      score += log_p[size_t(u * codes + int(rest % codes))];
    }
    all.emplace_back(score, int32_t(slot));
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  return all;
}

// Scores must be those of brute force bit for bit; slots where the score is told apart from its neighbours. With logits
// whose sums round to nothing (`exact`), all slots.
template <class Real>
int compare(slotscope::testing::Context& t, const std::vector<Real>& logit, int factors, int codes, int top_k,
            SlotOrder order, bool exact) {
  const Decoded<Real> got = decode(one_row(logit, factors, codes, top_k, order));
  const auto all = brute_force(logit, factors, codes, order);
  int tied = 0;
  for (int k = 0; k < top_k; ++k) {
    const size_t i = size_t(k);
    CHECK(std::memcmp(&got.score[i], &all[i].first, sizeof(Real)) == 0);
    const Real weight = std::exp(all[i].first);
    CHECK(std::memcmp(&got.weight[i], &weight, sizeof(Real)) == 0);
    const bool tie = (i > 0 && all[i - 1].first == all[i].first) || (i + 1 < all.size() && all[i + 1].first == all[i].first);
    tied += tie;
    if (exact || !tie) CHECK_EQ(got.slot[i], all[i].second);
  }
  return tied;
}

}  // namespace

SLOTSCOPE_CASE(golden_top_k) {
  std::ifstream file(t.data("golden/ramnet/reference.json"));
  const auto cases = nlohmann::json::parse(file).at("topk_decoder");
  for (const auto& c : cases) {
    std::vector<double> logit;
    for (const auto& row : c.at("logits"))
      for (const double x : row) logit.push_back(x);
    const int U = c.at("U").get<int>(), codes = c.at("d_p").get<int>();
    const int K = std::min<int>(c.at("K").get<int>(), int(address_slots(codes, U)));  // K beyond M: no truncation
    const auto got = decode(one_row(logit, U, codes, K));
    CHECK_EQ(got.slot, c.at("slots").get<std::vector<int32_t>>());
    for (size_t k = 0; k < size_t(K); ++k) {
      const double score = c.at("log_weights")[k], weight = c.at("weights")[k];
      CHECK_EQ(got.score[k], score);  // to the last bit
      CHECK_CLOSE(got.weight[k], weight, 1e-12 * weight);
    }
    CHECK_CLOSE(got.lost[0], 1 - c.at("retained_mass").get<double>(), 1e-12);
  }
  CHECK_EQ(cases.size(), size_t(10));
}

SLOTSCOPE_CASE(agrees_with_brute_force_up_to_4096_slots) {
  std::mt19937 random(5);
  int64_t tied = 0, entries = 0;
  for (int round = 0; round < 1500; ++round) {
    const int codes = 2 + int(random() % 15);
    int most = 1;
    while (address_slots(codes, most + 1) > 0 && address_slots(codes, most + 1) <= 4096) ++most;
    const int factors = 1 + int(random() % unsigned(most));
    const int slots = int(address_slots(codes, factors));
    const int top_k = round % 4 == 0 ? slots : 1 + int(random() % unsigned(std::min(slots, 100)));
    const SlotOrder order = round % 2 ? SlotOrder::factor0_least : SlotOrder::factor0_most;
    const bool coarse = round % 3 != 0;  // many equal logits
    std::vector<double> wide;
    std::vector<float> narrow;
    for (int i = 0; i < factors * codes; ++i) {
      const double x = coarse ? double(random() % 3) : double(random()) / double(random.max()) * 8 - 4;
      wide.push_back(x), narrow.push_back(float(x));
    }
    tied += compare(t, wide, factors, codes, top_k, order, false);
    tied += compare(t, narrow, factors, codes, top_k, order, false);
    entries += 2 * top_k;
  }
  CHECK(tied > entries / 10);
  t.note(std::to_string(tied) + " of " + std::to_string(entries) + " entries were tied");
}

// All probabilities equal to a power of two have logarithms whose sums do not depend on the way: here ties must be
// broken by the slot, all of them.
SLOTSCOPE_CASE(ties_go_to_the_lower_slot) {
  for (const SlotOrder order : {SlotOrder::factor0_least, SlotOrder::factor0_most})
    for (const int codes : {2, 4, 8})
      for (int factors = 1; factors <= 4; ++factors) {
        const int slots = int(address_slots(codes, factors));
        const std::vector<double> equal(size_t(factors * codes), -3.25);
        for (const int top_k : {1, 2, slots / 2, slots - 1, slots})
          if (top_k > 0) CHECK_EQ(compare(t, equal, factors, codes, top_k, order, true), top_k);
        // Two levels in every factor: slots of upper codes only are tied among themselves.
        std::vector<double> halves;
        for (int i = 0; i < factors * codes; ++i) halves.push_back(i % codes < codes / 2 ? 0 : 900);
        compare(t, halves, factors, codes, int(std::max<int64_t>(1, address_slots(codes / 2, factors))), order, true);
      }
}

SLOTSCOPE_CASE(lost_probability) {
  std::mt19937 random(8);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> logit;
    for (int i = 0; i < 12; ++i) logit.push_back(double(random()) / double(random.max()) * 6);
    const auto all = brute_force(logit, 3, 4, SlotOrder::factor0_least);
    const int top_k = 1 + int(random() % 64);
    double lost = 0;
    for (size_t i = size_t(top_k); i < all.size(); ++i) lost += std::exp(all[i].first);
    CHECK_CLOSE(decode(one_row(logit, 3, 4, top_k)).lost[0], lost, 1e-14);
  }
}

SLOTSCOPE_CASE(extreme_logits) {
  const double inf = std::numeric_limits<double>::infinity();
  // A code without probability is chosen last and weighs nothing.
  const auto got = decode(one_row<double>({0, -inf, 1, 0}, 2, 2, 4));
  CHECK_EQ(got.slot, (std::vector<int32_t>{0, 2, 1, 3}));
  CHECK_EQ(got.weight[2], 0.0);
  CHECK_EQ(got.weight[3], 0.0);
  CHECK_EQ(got.lost[0], 0.0);
  const auto far = decode(one_row<double>({1e308, -1e308, 700, -700}, 2, 2, 2));
  CHECK_EQ(far.slot, (std::vector<int32_t>{0, 2}));
  CHECK_EQ(far.weight[0], 1.0);
  // NaN and infinity give NaN in that factor and so in every slot; the slots are distinct all the same.
  for (const double bad : {double(NAN), inf}) {
    auto nan = decode(one_row<double>({bad, 0, 1, 2, 0, 0, 0, 1}, 2, 4, 5));
    std::sort(nan.slot.begin(), nan.slot.end());
    CHECK(std::adjacent_find(nan.slot.begin(), nan.slot.end()) == nan.slot.end());
    CHECK(nan.slot.front() >= 0 && nan.slot.back() < 16);
    for (const double w : nan.weight) CHECK(std::isnan(w));
    CHECK(std::isnan(nan.lost[0]));
  }
  CHECK_EQ(address_slots(4, 5), int64_t(1024));
  CHECK_EQ(address_slots(1, 1 << 30), int64_t(1));
  CHECK_EQ(address_slots(2, 30), int64_t(1) << 30);
  CHECK_EQ(address_slots(2, 31), int64_t(0));
  CHECK_EQ(address_slots(2147483647, 5), int64_t(0));
  CHECK_EQ(address_slots(0, 3), int64_t(0));
  CHECK_EQ(address_slots(3, 0), int64_t(0));
}

// CAPE moves the slots of its heads by the position, modulo the number of slots, whatever the row's place in the array.
SLOTSCOPE_CASE(cape_moves_flat_slots) {
  std::mt19937 random(3);
  const int batch = 2, tokens = 40, heads = 3, factors = 2, codes = 3, top_k = 4, slots = 9;
  std::vector<float> logit;
  for (int i = 0; i < batch * tokens * heads * factors * codes; ++i)
    logit.push_back(float(random()) / float(random.max()) * 5);
  AddressDecodeInput<float> in;
  in.logit = logit.data();
  in.batch = batch, in.tokens = tokens, in.heads = heads, in.factors = factors, in.codes = codes, in.top_k = top_k;
  const auto still = decode(in);
  const uint8_t cape[] = {1, 0, 1};
  in.cape = cape;
  for (const int direction : {1, -1})
    for (const int64_t first : {int64_t(0), int64_t(7), (int64_t(1) << 40) + 5}) {
      in.direction = direction, in.first_position = first;
      const auto moved = decode(in);
      for (int b = 0; b < batch; ++b)
        for (int s = 0; s < tokens; ++s)
          for (int h = 0; h < heads; ++h)
            for (int k = 0; k < top_k; ++k) {
              const size_t i = size_t(((b * tokens + s) * heads + h) * top_k + k);
              const int64_t by = cape[h] ? direction * (first + s) : 0;
              CHECK_EQ(int64_t(moved.slot[i]), (((still.slot[i] + by) % slots) + slots) % slots);
              CHECK_EQ(moved.weight[i], still.weight[i]);
            }
      CHECK_EQ(moved.lost, still.lost);
    }
}

// Tables that are log softmaxes already are taken as they are.
SLOTSCOPE_CASE(normalised_tables) {
  std::mt19937 random(4);
  const int rows = 30, factors = 3, codes = 5;
  std::vector<float> logit, table(size_t(rows * factors * codes));
  for (int i = 0; i < rows * factors * codes; ++i) logit.push_back(float(random()) / float(random.max()) * 6);
  for (int i = 0; i < rows * factors; ++i) log_softmax(&logit[size_t(i * codes)], codes, &table[size_t(i * codes)]);
  AddressDecodeInput<float> in;
  in.logit = logit.data();
  in.batch = 1, in.tokens = rows, in.heads = 1, in.factors = factors, in.codes = codes, in.top_k = 17;
  const auto from_logits = decode(in);
  in.logit = table.data(), in.normalised = true;
  const auto from_table = decode(in);
  CHECK_EQ(from_table.slot, from_logits.slot);
  CHECK_EQ(from_table.score, from_logits.score);
  CHECK_EQ(from_table.lost, from_logits.lost);
}
