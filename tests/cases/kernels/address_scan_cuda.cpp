// The CUDA scan of RAM-Net's memory against its CPU twin, for every form of the kernel.
#include "kernels/address_scan.h"
#include "tests/cases/case.h"
#include "tests/cases/kernels/address_problem.h"
#include "tests/cases/kernels/guarded.h"

using namespace slotscope::kernels;
using namespace slotscope::testing;

#ifndef SLOTSCOPE_HAS_CUDA

SLOTSCOPE_CASE(equals_cpu) {
  bool thrown = false;
  try {
    address_scan_cuda(AddressScanInput<float>{}, {}, nullptr);
  } catch (const std::logic_error& e) {
    thrown = std::string(e.what()).find("no CUDA") != std::string::npos;
  }
  CHECK(thrown);
  t.skip(t.device() == "cpu" ? "needs a GPU: --device cuda" : "this build has no CUDA kernels");
}

#else

namespace {

// The problem's arrays on the device, scanned there in pieces of `piece` tokens (0: at once) with the carried state.
template <class Real>
struct OnGpu {
  AddressArrays<Real> a;
  bool intact = true;
  float ms = 0;

  OnGpu(const AddressProblem& q, const AddressArrays<Real>& from, int64_t piece = 0) : a(from) {
    Guarded<int32_t> write_index(a.write_index), read_index(a.read_index), read_row(a.read_row);
    Guarded<Real> write_weight(a.write_weight), read_weight(a.read_weight), value(a.value), gamma(a.gamma);
    Guarded<Real> mass(a.mass), state(a.state), output(a.output), strength(a.strength), log_gate(a.log_gate);
    Guarded<Real> reached(a.reached), p(a.p);
    Guarded<uint8_t> written(a.written);
    for (int64_t first = 0; first < q.tokens; first += piece) {
      if (piece == 0) piece = q.tokens;
      const int64_t line = first * q.heads, rank = line * q.top_k;  // pieces are of one batch
      auto in = a.input(q);
      in.tokens = std::min(piece, q.tokens - first);
      in.write_index = write_index.data() + rank, in.write_weight = write_weight.data() + rank;
      in.read_index = read_index.data() + rank, in.read_weight = read_weight.data() + rank;
      in.value = value.data() + line * q.d_v, in.read_row = a.rows > 0 ? read_row.data() + first : nullptr;
      if (in.gamma) in.gamma = gamma.data() + line;
      const AddressScanOutput<Real> out{mass.data(),           state.data(),           written.data(),
                                        output.data() + line * q.d_v, strength.data() + rank, log_gate.data() + rank,
                                        reached.data() + line, p.data()};
      ms += milliseconds([&](cudaStream_t stream) { address_scan_cuda(in, out, stream); });
    }
    a.mass = mass.fetch(intact), a.state = state.fetch(intact), a.written = written.fetch(intact);
    a.output = output.fetch(intact), a.strength = strength.fetch(intact), a.log_gate = log_gate.fetch(intact);
    a.reached = reached.fetch(intact), a.p = p.fetch(intact);
    write_index.fetch(intact), read_index.fetch(intact), read_row.fetch(intact);
    write_weight.fetch(intact), read_weight.fetch(intact), value.fetch(intact), gamma.fetch(intact);
  }
};

template <class Real>
bool same_bits(const std::vector<Real>& a, const std::vector<Real>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Real)) == 0);
}

template <class Real>
bool same_bits(const AddressArrays<Real>& a, const AddressArrays<Real>& b) {
  return same_bits(a.mass, b.mass) && same_bits(a.state, b.state) && same_bits(a.output, b.output) &&
         same_bits(a.strength, b.strength) && same_bits(a.log_gate, b.log_gate) && same_bits(a.reached, b.reached) &&
         same_bits(a.p, b.p) && same_bits(a.written, b.written);
}

template <class Real>
float check_type(slotscope::testing::Context& t, const AddressProblem& q, double tolerance, double& worst) {
  const auto problem = make_address_problem(q).as<Real>();
  const auto expected = scanned_on_cpu(q, problem);
  const OnGpu<Real> got(q, problem), again(q, problem);
  double error = 0;
  const auto compare = [&](const std::vector<Real>& x, const std::vector<Real>& y) {
    if (const double e = address_error(x, y, 1.0); !(e <= error)) error = e;
  };
  compare(got.a.output, expected.output), compare(got.a.mass, expected.mass), compare(got.a.state, expected.state);
  compare(got.a.strength, expected.strength), compare(got.a.log_gate, expected.log_gate);
  compare(got.a.reached, expected.reached), compare(got.a.p, expected.p);
  worst = std::max(worst, error);
  if (!(error <= tolerance)) t.fail(q.text() + ": off by " + to_text(error), __FILE__, __LINE__);
  if (got.a.written != expected.written) t.fail(q.text() + ": written slots differ", __FILE__, __LINE__);
  if (!got.intact || !again.intact) t.fail(q.text() + ": wrote outside its outputs", __FILE__, __LINE__);
  if (!same_bits(got.a, again.a)) t.fail(q.text() + ": two runs differ", __FILE__, __LINE__);
  for (size_t i = 0; i < problem.mass.size(); ++i)  // what no token writes keeps its bits
    if (!expected.written[i] && std::memcmp(&got.a.mass[i], &problem.mass[i], sizeof(Real)) != 0)
      t.fail(q.text() + ": an unwritten slot changed", __FILE__, __LINE__);
  return std::min(got.ms, again.ms);
}

struct Worst {
  double wide = 0, narrow = 0;
};

// The pairs of `tokens` tokens of random weights: errors of float32 grow with the number of writes that a mass sums up.
void check(slotscope::testing::Context& t, const AddressProblem& q, Worst& worst) {
  check_type<double>(t, q, 1e-12, worst.wide);
  check_type<float>(t, q, 2e-5, worst.narrow);
}

void kinds(AddressProblem& q, unsigned bits) {
  q.readout = bits & 1 ? AddressReadout::mass_aware : AddressReadout::standard;
  q.eps = bits & 2 ? 1e-6 : 0;
  q.fresh = bits & 4;
  q.gamma_of_all = 1, q.cumulative = false, q.gamma_per_token = true;
  q.update = bits & 8 ? AddressUpdate::pdma : AddressUpdate::gsu;
  if (bits & 8) q.gamma_per_token = false, q.gamma_of_all = bits & 16 ? 0.5 : 1;
}

}  // namespace

SLOTSCOPE_CASE(equals_cpu) {
  if (!need_gpu(t)) return;
  Worst worst;
  // Every rule, readout and first state; tokens around the size of a tile.
  for (const int64_t tokens : {1, 4, 31, 63, 64, 65, 130})
    for (unsigned bits = 0; bits < 32; ++bits) {
      AddressProblem q;
      q.tokens = tokens, q.seed = bits + 1;
      kinds(q, bits);
      check(t, q, worst);
    }
  // Every number of lanes, at its edges; widths of one block and of several.
  for (const int top_k : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100})
    for (const int d_v : {1, 3, 8, 31, 64, 70, 130}) {
      AddressProblem q;
      q.top_k = top_k, q.d_v = d_v, q.slots = 150, q.tokens = 37, q.seed = unsigned(top_k * 7 + d_v);
      kinds(q, unsigned(top_k * 5 + d_v));
      check(t, q, worst);
    }
  AddressProblem q;  // more ranks than slots
  q.slots = 3, q.top_k = 4;
  check(t, q, worst);
  q.slots = 1, q.top_k = 1, q.batch = 5, q.heads = 9;
  check(t, q, worst);
  t.note("float64 off by at most " + to_text(worst.wide) + ", float32 by " + to_text(worst.narrow));
}

// Memories whose values, and whose masses, do not fit in shared memory, and addresses of thousands of ranks.
SLOTSCOPE_CASE(large_memories) {
  if (!need_gpu(t)) return;
  Worst worst;
  struct {
    int slots, top_k, d_v, tokens;
  } const shapes[] = {{4096, 8, 64, 70}, {4096, 64, 33, 70},  {16384, 32, 16, 70}, {40000, 8, 5, 40}, {70000, 16, 20, 40},
                      {1024, 1024, 64, 20}, {4096, 4096, 9, 12}, {5000, 3000, 300, 6}};
  unsigned bits = 0;
  for (const auto& shape : shapes)
    for (int repeat = 0; repeat < 3; ++repeat) {
      AddressProblem q;
      q.slots = shape.slots, q.top_k = shape.top_k, q.d_v = shape.d_v, q.tokens = shape.tokens, q.batch = 1;
      q.seed = ++bits;
      kinds(q, bits * 5);
      check(t, q, worst);
    }
  t.note("float64 off by at most " + to_text(worst.wide) + ", float32 by " + to_text(worst.narrow));
}

// Pieces with the carried state give the bits of the whole, in every output.
SLOTSCOPE_CASE(pieces_give_the_same_bits) {
  if (!need_gpu(t)) return;
  for (const int top_k : {5, 12, 32, 40, 3000})
    for (unsigned bits = 0; bits < 16; bits += 3) {
      AddressProblem q;
      q.batch = 1, q.tokens = top_k > 1000 ? 9 : 100, q.slots = std::max(60, top_k + 5), q.top_k = top_k, q.seed = bits + 40;
      kinds(q, bits);
      const auto problem = make_address_problem(q).as<float>();
      const OnGpu<float> whole(q, problem);
      for (const int64_t piece : {1, 33, 64})
        if (!same_bits(OnGpu<float>(q, problem, piece).a, whole.a))
          t.fail(q.text() + " in pieces of " + std::to_string(piece) + ": other bits", __FILE__, __LINE__);
    }
}

SLOTSCOPE_CASE(optional_outputs_and_nothing_to_do) {
  if (!need_gpu(t)) return;
  AddressProblem q;
  q.d_v = 40;
  const auto problem = make_address_problem(q);
  const auto expected = scanned_on_cpu(q, problem);
  Guarded<int32_t> write_index(problem.write_index), read_index(problem.read_index);
  Guarded<double> write_weight(problem.write_weight), read_weight(problem.read_weight), value(problem.value);
  Guarded<double> gamma(problem.gamma), mass(problem.mass), state(problem.state), output(problem.output);
  auto in = problem.input(q);
  in.write_index = write_index.data(), in.write_weight = write_weight.data(), in.read_index = read_index.data();
  in.read_weight = read_weight.data(), in.value = value.data(), in.gamma = gamma.data();
  in.read_row = nullptr, in.read_rows = 0;
  address_scan_cuda(in, {mass.data(), state.data(), nullptr, output.data()}, nullptr);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  bool intact = true;
  CHECK_CLOSE(address_error(output.fetch(intact), expected.output, 1.0), 0, 1e-12);
  CHECK_CLOSE(address_error(mass.fetch(intact), expected.mass, 1.0), 0, 1e-12);
  CHECK(intact);
  in.tokens = 0;
  address_scan_cuda(in, {}, nullptr);
  in.tokens = q.tokens, in.batch = 0;
  address_scan_cuda(in, {}, nullptr);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

// The lengths of use: the paper's 340M shape and the migrated models' K, and the same with a larger memory.
SLOTSCOPE_CASE(long_runs) {
  if (!need_gpu(t)) return;
  struct {
    int tokens, heads, slots, top_k, d_v;
    bool mass_aware;
  } const shapes[] = {{1000, 16, 1024, 8, 64, false},   {16384, 16, 1024, 8, 64, false}, {16384, 16, 1024, 32, 64, false},
                      {16384, 16, 1024, 32, 64, true}, {16384, 16, 4096, 32, 64, false}};
  for (const auto& shape : shapes) {
    AddressProblem q;
    q.batch = 1, q.tokens = shape.tokens, q.heads = shape.heads, q.slots = shape.slots, q.top_k = shape.top_k;
    q.d_v = shape.d_v, q.odd_weights = false, q.eps = 1e-6, q.row_step = 0;
    q.readout = shape.mass_aware ? AddressReadout::mass_aware : AddressReadout::standard;
    const auto problem = make_address_problem(q);
    const auto expected = scanned_on_cpu(q, problem);
    const OnGpu<double> warm(q, problem), wide(q, problem);
    const auto narrow_problem = problem.as<float>();
    const OnGpu<float> warm_narrow(q, narrow_problem), narrow(q, narrow_problem);
    const double error = std::max(address_error(wide.a.output, expected.output, 1.0),
                                  address_error(wide.a.state, expected.state, 1.0));
    const double narrow_error = std::max(address_error(narrow.a.output, expected.output, 1.0),
                                         address_error(narrow.a.state, expected.state, 1.0));
    CHECK_CLOSE(error, 0, 1e-12);
    CHECK_CLOSE(narrow_error, 0, 2e-5);
    CHECK(wide.intact && narrow.intact);
    CHECK(same_bits(wide.a, warm.a) && same_bits(narrow.a, warm_narrow.a));
    char text[200];
    std::snprintf(text, sizeof text, "%s: float64 off by %.1e, %.2f ms; float32 by %.1e, %.2f ms", q.text().c_str(), error,
                  double(wide.ms), narrow_error, double(narrow.ms));
    t.note(text);
  }
}

#endif
