// RAM-Net's memory scan against the reference numbers, against dense sums in long double, at its limits and cut into pieces.
#include "kernels/address_scan.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "kernels/address_gate.h"
#include "tests/cases/case.h"
#include "tests/cases/kernels/address_problem.h"

using namespace slotscope::kernels;
using namespace slotscope::testing;
using Json = nlohmann::json;

namespace {

using Rule = AddressUpdate;
using Readout = AddressReadout;
using Wide = long double;

// Everything dense: addresses as vectors over all slots, the gate through the logistic function, the value by the difference
// v - s, and the token-to-token weights A as products of what each token keeps of each slot.
struct Twin {
  std::vector<Wide> output, mass, state, p, reached;
};

Wide twin_keep(const AddressProblem& q, Wide w, Wide gamma) {
  if (q.update == Rule::pdma) return w == 1 && q.gamma_of_all == 0 ? 1 : std::pow(1 - w, Wide(q.gamma_of_all));
  if (q.cumulative || w == 0) return 1;
  if (w == 1) return 0;
  return 1 / (1 + std::exp(std::log(w / (1 - w)) + gamma));
}

Twin twin(const AddressProblem& q, const AddressArrays<double>& a) {
  const size_t M = size_t(q.slots), K = size_t(q.top_k), D = size_t(q.d_v);
  Twin r{std::vector<Wide>(a.output.size()), {a.mass.begin(), a.mass.end()}, {a.state.begin(), a.state.end()},
         std::vector<Wide>(a.p.size()),      std::vector<Wide>(a.reached.size())};
  std::vector<uint8_t> written = a.written;
  const Wide eps = q.eps;
  for (size_t pair = 0; pair < q.pairs(); ++pair) {
    const size_t b = pair / size_t(q.heads), head = pair % size_t(q.heads);
    Wide* m = &r.mass[pair * M];
    for (size_t t = 0; t < size_t(q.tokens); ++t) {
      const size_t at = (b * size_t(q.tokens) + t) * size_t(q.heads) + head;
      std::vector<Wide> w(M), read(M);
      for (size_t k = at * K; k < (at + 1) * K; ++k) {
        if (a.write_index[k] >= 0 && a.write_index[k] < q.slots) w[size_t(a.write_index[k])] = a.write_weight[k];
        if (a.read_index[k] >= 0 && a.read_index[k] < q.slots) read[size_t(a.read_index[k])] = a.read_weight[k];
      }
      const Wide gamma = q.gamma_per_token ? a.gamma[at] : q.gamma_of_all;
      Wide all = 0;
      for (size_t j = 0; j < M; ++j) {
        const Wide keep = twin_keep(q, w[j], gamma);
        m[j] = keep * m[j] + w[j];
        if (w[j] > 0) written[pair * M + j] = 1;
        for (size_t c = 0; c < D; ++c) {
          Wide& s = r.state[(pair * M + j) * D + c];
          const Wide v = a.value[at * D + c];
          if (q.update == Rule::pdma)
            s = keep * s + w[j] * v;
          else if (w[j] > 0)
            s += w[j] / (m[j] + eps) * (v - s);
        }
        all += read[j] * m[j];
        if (written[pair * M + j]) r.reached[at] += read[j];
      }
      for (size_t j = 0; j < M; ++j) {
        Wide p = read[j];
        if (q.readout == Readout::mass_aware) p = all == 0 ? 0 : p * m[j] / all;
        if (q.update == Rule::pdma) p /= m[j] + eps;
        for (size_t c = 0; c < D; ++c) r.output[at * D + c] += p * r.state[(pair * M + j) * D + c];
        if (const int32_t row = a.read_row[t]; row >= 0)
          r.p[((b * size_t(a.rows) + size_t(row)) * size_t(q.heads) + head) * M + j] = p;
      }
    }
  }
  return r;
}

// sum_s A[t,s] v_s at the tokens whose p is known, from p, strength and log_gate alone (a fresh memory).
std::vector<double> through_weights(const AddressProblem& q, const AddressArrays<double>& a) {
  const size_t M = size_t(q.slots), K = size_t(q.top_k), D = size_t(q.d_v), H = size_t(q.heads), T = size_t(q.tokens);
  std::vector<double> output;
  for (size_t pair = 0; pair < q.pairs(); ++pair)
    for (size_t t = 0; t < T; ++t) {
      if (a.read_row[t] < 0) continue;
      const size_t b = pair / H, head = pair % H;
      const double* p = &a.p[((b * size_t(a.rows) + size_t(a.read_row[t])) * H + head) * M];
      std::vector<Wide> left(p, p + M);  // p times what later tokens keep, walking back in time
      std::vector<Wide> sum(D);
      for (size_t s = t + 1; s-- > 0;) {
        const size_t at = (b * T + s) * H + head;
        for (size_t k = at * K; k < (at + 1) * K; ++k) {
          if (a.strength[k] == 0) continue;
          Wide& here = left[size_t(a.write_index[k])];
          for (size_t c = 0; c < D; ++c) sum[c] += here * a.strength[k] * a.value[at * D + c];
          here *= std::exp(Wide(a.log_gate[k]) * a.write_weight[k]);
        }
      }
      for (const Wide x : sum) output.push_back(double(x));
    }
  return output;
}

std::vector<double> outputs_at_rows(const AddressProblem& q, const AddressArrays<double>& a) {
  std::vector<double> output;
  for (size_t pair = 0; pair < q.pairs(); ++pair)
    for (size_t t = 0; t < size_t(q.tokens); ++t) {
      if (a.read_row[t] < 0) continue;
      const size_t b = pair / size_t(q.heads), head = pair % size_t(q.heads);
      const size_t at = ((b * size_t(q.tokens) + t) * size_t(q.heads) + head) * size_t(q.d_v);
      output.insert(output.end(), a.output.begin() + std::ptrdiff_t(at), a.output.begin() + std::ptrdiff_t(at) + q.d_v);
    }
  return output;
}

const Json& reference(slotscope::testing::Context& t) {
  static const Json all = [&] {
    std::ifstream file(t.data("golden/ramnet/reference.json"));
    return Json::parse(file);
  }();
  return all.at("memory");
}

// The six tokens of the reference, with p of each.
AddressArrays<double> reference_problem(const Json& memory, const Json& run, AddressProblem& q) {
  q.batch = 1, q.tokens = 6, q.heads = 1, q.slots = 9, q.top_k = 4, q.d_v = 2, q.odd_weights = false;
  AddressArrays<double> a = make_address_problem(q);
  a.read_row = {0, 1, 2, 3, 4, 5}, a.rows = 6, a.p.assign(54, NAN);
  a.gamma = memory.at("gamma").get<std::vector<double>>();
  const auto flat = [](const Json& lists) {
    std::vector<double> all;
    for (const Json& list : lists)
      for (const Json& x : list) all.push_back(x.get<double>());
    return all;
  };
  a.value = flat(memory.at("values"));
  a.write_weight = flat(run.at("write_weights")), a.read_weight = flat(run.at("read_weights"));
  const auto slots = [&](const Json& lists) {
    const auto all = flat(lists);
    return std::vector<int32_t>(all.begin(), all.end());
  };
  a.write_index = slots(run.at("write_slots")), a.read_index = slots(run.at("read_slots"));
  return a;
}

double worst_difference(const std::vector<double>& got, size_t first, const Json& expected) {
  double most = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(got[first + i] - expected[i].get<double>());
    if (!(error <= most)) most = error;
  }
  return most;
}

const Readout kReadouts[] = {Readout::standard, Readout::mass_aware};

}  // namespace

SLOTSCOPE_CASE(reference_runs) {
  const Json& memory = reference(t);
  int runs = 0;
  for (const auto& [name, run] : memory.at("runs").items()) {
    for (const Readout readout : kReadouts) {
      const std::string out = readout == Readout::standard ? "out_standard" : "out_mass_aware";
      for (const bool pdma : {false, true}) {
        AddressProblem q;
        q.readout = readout;
        if (pdma) q.update = Rule::pdma, q.gamma_of_all = 0.5, q.eps = 1e-6, q.gamma_per_token = false;
        const Json& steps = run.at(pdma ? "pdma_gamma0.5_eps1e-6" : "gsu_eps0");
        const auto all = scanned_on_cpu(q, reference_problem(memory, run, q));
        for (size_t i = 0; i < 6; ++i) CHECK_CLOSE(worst_difference(all.output, 2 * i, steps[i].at(out)), 0, 1e-12);
        for (int64_t length = 1; length <= 6; ++length) {  // the state after each token
          AddressProblem part = q;
          auto a = reference_problem(memory, run, part);
          part.tokens = length;
          a = scanned_on_cpu(part, a);
          const Json& step = steps[size_t(length) - 1];
          CHECK_CLOSE(worst_difference(a.mass, 0, step.at("mass")), 0, 1e-12);
          for (size_t j = 0; j < 9; ++j) CHECK_CLOSE(worst_difference(a.state, 2 * j, step.at("state")[j]), 0, 1e-12);
          double read_mass = 0;
          for (size_t k = size_t(length) * 4 - 4; k < size_t(length) * 4; ++k)
            read_mass += a.read_weight[k] * a.mass[size_t(a.read_index[k])];
          CHECK_CLOSE(read_mass, step.at("read_mass").get<double>(), 1e-12);
        }
        ++runs;
      }
      AddressProblem q;
      q.readout = readout, q.eps = 1e-6;
      const auto a = scanned_on_cpu(q, reference_problem(memory, run, q));
      for (size_t i = 0; i < 6; ++i)
        CHECK_CLOSE(worst_difference(a.output, 2 * i, run.at("gsu_eps1e-6_" + out)[i]), 0, 1e-12);
    }
  }
  CHECK_EQ(runs, 12);
}

// A of ramnet 1.7 out of p, strength and log_gate: value columns that pick one token each give its entries.
SLOTSCOPE_CASE(reference_token_weights) {
  const Json& memory = reference(t);
  for (const auto& [name, run] : memory.at("runs").items())
    for (const Readout readout : kReadouts) {
      AddressProblem q;
      q.readout = readout;
      auto a = reference_problem(memory, run, q);
      q.d_v = 6;
      a.value.assign(36, 0), a.state.assign(54, 0), a.output.assign(36, NAN);
      for (size_t i = 0; i < 6; ++i) a.value[i * 7] = 1;
      a = scanned_on_cpu(q, a);
      const Json& rows = run.at(readout == Readout::standard ? "induced_attention_standard" : "induced_attention_mass_aware");
      const auto weights = through_weights(q, a);
      for (size_t i = 0; i < 6; ++i) {
        CHECK_EQ(rows[i].size(), i + 1);
        CHECK_CLOSE(worst_difference(weights, 6 * i, rows[i]), 0, 1e-12);
        CHECK_CLOSE(worst_difference(a.output, 6 * i, rows[i]), 0, 1e-12);
        double sum = 0;
        for (const Json& x : rows[i]) sum += x.get<double>();
        if (readout == Readout::standard) CHECK_CLOSE(a.reached[i], sum, 1e-12);
      }
    }
}

SLOTSCOPE_CASE(reference_gate) {
  int tried = 0;
  for (const Json& c : reference(t).at("retention_gate")) {
    const double w = c.at("w").get<double>(), gamma = c.at("gamma").get<double>(), rho = c.at("retention").get<double>();
    CHECK_CLOSE(gsu_retention(w, gamma), rho, 1e-12 * rho);
    if (float(rho) > 1e-37f) CHECK_CLOSE(gsu_retention(float(w), float(gamma)), rho, (w > 0.99 ? 0.03 : 1e-5) * rho);
    ++tried;
  }
  CHECK(tried >= 30);
}

// K = M: what gamma -> -inf tends to is kernel attention, and the flag gives it exactly.
SLOTSCOPE_CASE(cumulative_limit) {
  const Json& memory = reference(t);
  const Json& limit = memory.at("cumulative_limit_full_K");
  const auto softmax = [](const Json& groups, int32_t slot) {
    double weight = 1;
    for (const Json& group : groups) {
      double sum = 0;
      for (const Json& x : group) sum += std::exp(x.get<double>());
      weight *= std::exp(group[size_t(slot % 3)].get<double>()) / sum;
      slot /= 3;
    }
    return weight;
  };
  AddressProblem q;
  auto a = reference_problem(memory, memory.at("runs").at("nope"), q);
  q.top_k = 9, q.readout = Readout::mass_aware;
  a.write_index.clear(), a.write_weight.clear(), a.read_weight.clear();
  for (size_t i = 0; i < 6; ++i)
    for (int32_t slot = 0; slot < 9; ++slot) {
      a.write_index.push_back(slot);
      a.write_weight.push_back(softmax(memory.at("write_logits")[i], slot));
      a.read_weight.push_back(softmax(memory.at("read_logits")[i], slot));
    }
  a.read_index = a.write_index, a.strength.assign(54, NAN), a.log_gate.assign(54, NAN);
  for (const int way : {0, 1, 2}) {
    AddressProblem p = q;
    auto b = a;
    if (way == 0) p.cumulative = true;
    if (way == 1) p.gamma_per_token = false, p.gamma_of_all = -std::numeric_limits<double>::infinity();
    if (way == 2) b.gamma.assign(6, -60);
    b = scanned_on_cpu(p, b);
    for (size_t i = 0; i < 6; ++i) {
      CHECK_CLOSE(worst_difference(b.output, 2 * i, limit.at("kernel_attention_output")[i]), 0, 1e-12);
      CHECK_CLOSE(worst_difference(b.output, 2 * i, limit.at("steps")[i].at("out_mass_aware")), 0, 1e-12);
    }
    CHECK_CLOSE(worst_difference(b.mass, 0, limit.at("steps")[5].at("mass")), 0, 1e-12);
  }
  for (const Json& step : limit.at("approach")) {  // gaps of the standard readout
    AddressProblem p = q;
    p.gamma_per_token = false, p.gamma_of_all = step.at("gamma").get<double>(), p.readout = Readout::standard;
    const auto b = scanned_on_cpu(p, a);
    double gap = 0;
    for (size_t i = 0; i < 6; ++i)
      gap = std::max(gap, worst_difference(b.output, 2 * i, limit.at("steps")[i].at("out_standard")));
    CHECK_CLOSE(gap, step.at("max_abs_gap_to_limit").get<double>(), 1e-14);
  }
}

SLOTSCOPE_CASE(against_dense_sums) {
  double worst_wide = 0, worst_narrow = 0;
  int tried = 0;
  for (unsigned seed = 1; seed <= 240; ++seed) {
    std::mt19937 random(seed);
    AddressProblem q;
    q.seed = seed;
    q.batch = 1 + int64_t(random() % 2), q.heads = 1 + int(random() % 3), q.tokens = 1 + int64_t(random() % 60);
    q.slots = 1 + int(random() % 40), q.top_k = 1 + int(random() % unsigned(std::min(q.slots + 1, 12)));
    q.d_v = 1 + int(random() % 21);
    q.update = seed % 3 ? Rule::gsu : Rule::pdma;
    q.readout = kReadouts[random() % 2];
    q.eps = std::vector<double>{0, 1e-6, 1e-2}[random() % 3];
    q.fresh = random() % 2;
    if (q.update == Rule::pdma)
      q.gamma_per_token = false, q.gamma_of_all = std::vector<double>{0, 0.5, 1, 2.5}[random() % 4];
    else
      q.gamma_per_token = random() % 4, q.gamma_of_all = -1.5, q.cumulative = random() % 6 == 0;
    const auto problem = make_address_problem(q);
    const Twin expected = twin(q, problem);
    const auto a = scanned_on_cpu(q, problem);
    const auto n = scanned_on_cpu(q, problem.as<float>());
    double wide = 0, narrow = 0;
    const auto compare = [&](const auto& x, const auto& y, const auto& z) {
      const double e = address_error(x, z, 1.0), f = address_error(y, z, 1.0);
      if (!(e <= wide)) wide = e;
      if (!(f <= narrow)) narrow = f;
    };
    compare(a.output, n.output, expected.output);
    compare(a.mass, n.mass, expected.mass);
    compare(a.state, n.state, expected.state);
    compare(a.p, n.p, expected.p);
    compare(a.reached, n.reached, expected.reached);
    CHECK_CLOSE(wide, 0, 1e-12);
    CHECK_CLOSE(narrow, 0, 5e-6);
    worst_wide = std::max(worst_wide, wide), worst_narrow = std::max(worst_narrow, narrow);
    if (q.fresh) CHECK_CLOSE(address_error(through_weights(q, a), outputs_at_rows(q, a), 1.0), 0, 1e-12);
    ++tried;
  }
  CHECK_EQ(tried, 240);
  t.note("float64 off by at most " + to_text(worst_wide) + ", float32 by " + to_text(worst_narrow));
}

// strength and what is kept add up to 1, and the log of what is kept is right to its last digits however small the share.
SLOTSCOPE_CASE(gates_without_cancellation) {
  for (const double eps : {0.0, 1e-6, 1e-2})
    for (const double kept : {0.0, 1e-12, 1e-3, 0.3, 1.0, 40.0})
      for (const double w : {1e-30, 1e-17, 1e-9, 1e-3, 0.2, 0.9, 1.0}) {
        const Wide share = Wide(w) / (Wide(kept) + w + eps), left = (Wide(kept) + eps) / (Wide(kept) + w + eps);
        const double expected = double((share < 0.5L ? std::log1p(-share) : std::log(left)) / Wide(w));
        const double got = gsu_log_keep_per_weight(w, kept, eps);
        CHECK(std::isinf(expected) ? got == expected : std::abs(got - expected) <= 1e-14 * std::abs(expected));
        const float narrow = gsu_log_keep_per_weight(float(w), float(kept), float(eps));
        CHECK(std::isinf(expected) ? double(narrow) == expected
                                   : std::abs(double(narrow) - expected) <= 2e-6 * std::abs(expected));
      }
  for (const double gamma : {0.0, 0.3, 1.0, 4.0})
    for (const double w : {1e-300, 1e-17, 1e-6, 0.5, 0.999, 1.0}) {
      const double f = pdma_log_keep_per_weight(w, gamma) * w;
      const double expected = gamma == 0 ? 0 : double(gamma * std::log1p(-Wide(w)));
      CHECK(std::isinf(expected) ? f == expected : std::abs(f - expected) <= 1e-14 * std::abs(expected));
      CHECK_CLOSE(pdma_retention(w, gamma), std::exp(expected), 1e-14);
    }
  CHECK_EQ(pdma_retention(1.0, 0.0), 1.0);  // 0^0 = 1
  CHECK_EQ(pdma_retention(1.0, 2.0), 0.0);
  CHECK_EQ(pdma_log_keep_per_weight(1e-310, 3.0), -3.0);
}

SLOTSCOPE_CASE(limits_of_the_gate) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double w : {1e-300, 1e-9, 0.25, 0.5, 0.999}) {
    CHECK_EQ(gsu_retention(w, -infinity), 1.0);
    CHECK_EQ(gsu_retention(w, infinity), 0.0);
    CHECK_EQ(gsu_retention(w, 1e300), 0.0);
    CHECK_EQ(gsu_retention(w, -1e300), 1.0);
    CHECK_EQ(gsu_retention(w, infinity, true), 1.0);
    CHECK_CLOSE(gsu_retention(w, 0.0), 1 - w, 1e-15);
    // The two branches meet, and rho falls as gamma grows.
    CHECK_CLOSE(gsu_retention(w, -1e-12), gsu_retention(w, 1e-12), 1e-12);
    double before = 1;
    for (double gamma = -50; gamma <= 50; gamma += 0.5) {
      const double rho = gsu_retention(w, gamma);
      CHECK(rho <= before && rho >= 0);
      before = rho;
    }
  }
  for (const double gamma : {-infinity, -3.0, 0.0, 3.0, infinity}) {
    CHECK_EQ(gsu_retention(0.0, gamma), 1.0);
    CHECK_EQ(gsu_retention(1.0, gamma), 0.0);
    CHECK_EQ(gsu_retention(std::nextafter(1.0, 2.0), gamma), 0.0);  // exp of a sum of logs may round above 1
    CHECK_EQ(gsu_retention(1.0, gamma, true), 1.0);
    CHECK_EQ(gsu_retention(0.0f, float(gamma)), 1.0f);
    CHECK_EQ(gsu_retention(1.0f, float(gamma)), 0.0f);
  }
  CHECK(std::isnan(gsu_retention(double(NAN), 0.0)));
  CHECK(std::isnan(gsu_retention(0.5, double(NAN))));
}

// gamma +inf overwrites: the last value with weight stands in the slot, to the bit. w = 1 does, whatever gamma.
SLOTSCOPE_CASE(overwriting) {
  for (const bool by_gamma : {true, false}) {
    AddressProblem q;
    q.batch = 1, q.heads = 1, q.tokens = 40, q.slots = 5, q.top_k = 1, q.odd_weights = false;
    auto a = make_address_problem(q);
    if (by_gamma)
      a.gamma.assign(40, std::numeric_limits<double>::infinity());
    else
      a.write_weight.assign(40, 1.0);
    const auto b = scanned_on_cpu(q, a);
    for (int slot = 0; slot < 5; ++slot)
      for (size_t i = 40; i-- > 0;) {
        if (a.write_index[i] != slot || a.write_weight[i] == 0) continue;
        CHECK_EQ(b.mass[size_t(slot)], a.write_weight[i]);
        for (size_t c = 0; c < 3; ++c) CHECK_EQ(b.state[size_t(slot) * 3 + c], a.value[i * 3 + c]);
        break;
      }
  }
}

// All-equal weights on all slots, cumulative: every slot holds the mean of the values, and both readouts return it.
SLOTSCOPE_CASE(equal_addresses_average) {
  for (const Readout readout : kReadouts) {
    AddressProblem q;
    q.batch = 1, q.heads = 1, q.tokens = 50, q.slots = 8, q.top_k = 8, q.odd_weights = false;
    q.cumulative = true, q.readout = readout;
    auto a = make_address_problem(q);
    a.write_weight.assign(400, 0.125), a.read_weight.assign(400, 0.125);
    a = scanned_on_cpu(q, a);
    std::vector<double> sum(3);
    for (size_t i = 0; i < 50; ++i)
      for (size_t c = 0; c < 3; ++c) {
        sum[c] += a.value[i * 3 + c];
        CHECK_CLOSE(a.output[i * 3 + c], sum[c] / double(i + 1), 1e-14);
      }
    for (const double m : a.mass) CHECK_EQ(m, 6.25);
  }
}

SLOTSCOPE_CASE(only_written_slots_change) {
  for (const Rule rule : {Rule::gsu, Rule::pdma}) {
    AddressProblem q;
    q.slots = 50, q.tokens = 9, q.fresh = false, q.update = rule, q.gamma_per_token = rule == Rule::gsu;
    q.gamma_of_all = 1;
    const auto before = make_address_problem(q);
    const auto after = scanned_on_cpu(q, before);
    std::vector<uint8_t> touched(q.pairs() * 50);
    for (size_t i = 0; i < before.write_index.size(); ++i) {
      const size_t line = i / 4, pair = line / size_t(q.heads) / size_t(q.tokens) * size_t(q.heads) + line % size_t(q.heads);
      const int32_t slot = before.write_index[i];
      if (slot >= 0 && slot < 50 && before.write_weight[i] > 0) touched[pair * 50 + size_t(slot)] = 1;
      else CHECK(after.strength[i] == 0 && after.log_gate[i] == 0);
    }
    int kept = 0;
    for (size_t i = 0; i < touched.size(); ++i) {
      CHECK_EQ(after.written[i], uint8_t(before.written[i] | touched[i]));
      if (touched[i]) continue;
      ++kept;
      CHECK_EQ(after.mass[i], before.mass[i]);
      for (size_t c = 0; c < 3; ++c) CHECK_EQ(after.state[i * 3 + c], before.state[i * 3 + c]);
    }
    CHECK(kept > 20);
  }
}

// Under PDMA a slot whose z is 1/M again and whose value is 0 has been written all the same.
SLOTSCOPE_CASE(written_is_remembered) {
  AddressProblem q;
  q.batch = 1, q.heads = 1, q.tokens = 1, q.slots = 1, q.top_k = 1, q.d_v = 1, q.odd_weights = false;
  q.update = Rule::pdma, q.gamma_per_token = false, q.gamma_of_all = 1;
  auto a = make_address_problem(q);
  a.write_weight = {0.25}, a.read_weight = {0.5}, a.value = {0};
  const auto b = scanned_on_cpu(q, a);
  CHECK_EQ(b.mass[0], 1.0);
  CHECK_EQ(b.reached[0], 0.5);
  a.write_weight = {0};
  CHECK_EQ(scanned_on_cpu(q, a).reached[0], 0.0);
}

// Pieces with the carried state give the bits of the whole, in every output.
SLOTSCOPE_CASE(pieces_give_the_same_bits) {
  for (const int kind : {0, 1, 2, 3}) {
    AddressProblem q;
    q.batch = 1, q.tokens = 47, q.eps = 1e-6, q.readout = kReadouts[kind % 2], q.seed = unsigned(kind) + 3;
    if (kind > 1) q.update = Rule::pdma, q.gamma_per_token = false, q.gamma_of_all = 0.5;
    const auto problem = make_address_problem(q).as<float>();
    const auto whole = scanned_on_cpu(q, problem);
    for (const int64_t piece : {1, 5, 46}) {
      auto a = problem;
      for (int64_t first = 0; first < q.tokens; first += piece) {
        auto in = a.input(q);
        auto out = a.result();
        const int64_t line = first * q.heads;
        in.tokens = std::min(piece, q.tokens - first);
        in.write_index += line * q.top_k, in.write_weight += line * q.top_k;
        in.read_index += line * q.top_k, in.read_weight += line * q.top_k;
        in.value += line * q.d_v, in.read_row += first;
        if (in.gamma) in.gamma += line;
        out.output += line * q.d_v, out.strength += line * q.top_k, out.log_gate += line * q.top_k;
        out.read_mass_written += line;
        address_scan_cpu(in, out, 0, q.heads);
      }
      CHECK(a.output == whole.output && a.mass == whole.mass && a.state == whole.state);
      CHECK(a.strength == whole.strength && a.log_gate == whole.log_gate && a.reached == whole.reached);
      CHECK(a.p == whole.p && a.written == whole.written);
    }
  }
}

// What is not wanted may be null and changes nothing else.
SLOTSCOPE_CASE(optional_outputs) {
  AddressProblem q;
  const auto problem = make_address_problem(q);
  const auto whole = scanned_on_cpu(q, problem);
  auto a = problem;
  auto in = a.input(q);
  in.read_row = nullptr;
  address_scan_cpu<double>(in, {a.mass.data(), a.state.data(), nullptr, a.output.data()}, 0, 4);
  CHECK(a.output == whole.output && a.mass == whole.mass && a.state == whole.state);
  CHECK(std::isnan(a.strength[0]) && std::isnan(a.reached[0]));
  a = problem;  // without the flags GSU tells by the mass
  auto out = a.result();
  out.written = nullptr;
  address_scan_cpu(a.input(q), out, 0, 4);
  CHECK(a.reached == whole.reached);
}

SLOTSCOPE_CASE(refuses_what_makes_no_sense) {
  AddressProblem q;
  auto a = make_address_problem(q);
  const auto refused = [&](const char* word, auto change) {
    auto in = a.input(q);
    auto out = a.result();
    change(in, out);
    std::string text;
    try {
      address_scan_cpu(in, out, 0, 1);
    } catch (const std::invalid_argument& e) {
      text = e.what();
    }
    if (text.find(word) == std::string::npos) t.fail(std::string(word) + " not in '" + text + "'", __FILE__, __LINE__);
  };
  refused("eps", [](auto& in, auto&) { in.eps = -1; });
  refused("eps", [](auto& in, auto&) { in.eps = NAN; });
  refused("negative", [](auto& in, auto&) { in.tokens = -1; });
  refused("top_k", [](auto& in, auto&) { in.top_k = 0; });
  refused("input", [](auto& in, auto&) { in.value = nullptr; });
  refused("output", [](auto&, auto& out) { out.output = nullptr; });
  refused("read_weight", [](auto&, auto& out) { out.read_weight = nullptr; });
  refused("one gamma", [](auto& in, auto&) { in.update = Rule::pdma; });
  refused("gamma", [](auto& in, auto&) { in.update = Rule::pdma, in.gamma = nullptr, in.gamma_of_all = -0.5; });
  refused("flag", [](auto& in, auto&) { in.update = Rule::pdma, in.gamma = nullptr, in.cumulative = true; });
  refused("written", [](auto& in, auto& out) { in.update = Rule::pdma, in.gamma = nullptr, out.written = nullptr; });
}
