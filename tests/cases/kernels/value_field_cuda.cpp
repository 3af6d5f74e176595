// Value fields on the GPU against those on the CPU.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <stdexcept>

#include "kernels/value_field.h"
#include "tests/cases/case.h"
#include "tests/cases/kernels/guarded.h"

using namespace slotscope::kernels;

#ifndef SLOTSCOPE_HAS_CUDA

SLOTSCOPE_CASE(equals_cpu) {
  bool thrown = false;
  try {
    FieldGpu gpu;
  } catch (const std::logic_error& e) {
    thrown = std::string(e.what()).find("no CUDA") != std::string::npos;
  }
  CHECK(thrown);
  t.skip(t.device() == "cpu" ? "needs a GPU: --device cuda" : "this build has no CUDA kernels");
}

#else

namespace {

constexpr double kGuard = -7.5;  // behind every output

struct Outputs {
  std::vector<double> field, read_mass;
  std::vector<uint8_t> empty;
  bool intact(size_t cells, size_t channels) const {
    return field.size() == cells * channels + 1 && field.back() == kGuard && read_mass.back() == kGuard && empty.back() == 99;
  }
  static Outputs make(size_t cells, size_t channels) {
    Outputs o{std::vector<double>(cells * channels + 1, NAN), std::vector<double>(cells + 1, NAN),
              std::vector<uint8_t>(cells + 1, 7)};
    o.field.back() = o.read_mass.back() = kGuard, o.empty.back() = 99;
    return o;
  }
};

struct Tables {
  std::vector<double> x, y, a, b;  // score or logit tables; payload and weight, or mass and value
};

std::vector<double> random_table(std::mt19937& random, size_t n, double low, double high) {
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<double> v;
  for (size_t i = 0; i < n; ++i) v.push_back(uniform(random));
  return v;
}

ExponentialField<double> exponential(Tables& tables, int nx, int ny, int terms, int channels, bool weights, unsigned seed) {
  std::mt19937 random(seed);
  tables.x = random_table(random, size_t(nx) * size_t(terms), -3, 3);
  tables.y = random_table(random, size_t(ny) * size_t(terms), -3, 3);
  tables.a = random_table(random, size_t(terms) * size_t(channels), -1, 1);
  tables.b = random_table(random, size_t(terms), 0.1, 2);
  ExponentialField<double> in;
  in.score_x = tables.x.data(), in.score_y = tables.y.data(), in.payload = tables.a.data();
  in.weight = weights ? tables.b.data() : nullptr;
  in.nx = nx, in.ny = ny, in.terms = terms, in.channels = channels;
  return in;
}

// Logits of a circular code over a grid of angles: near ties in plenty, as in the figures.
AddressField<double> address(Tables& tables, int nx, int ny, int factors, int codes, int64_t top_k, int channels, unsigned seed) {
  std::mt19937 random(seed);
  const auto logits = [&](int n) {
    std::vector<double> v;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < codes; ++j) v.push_back(1.3 * std::cos(2 * M_PI * ((i + 0.5) / n - double(j) / codes)));
    return v;
  };
  tables.x = logits(nx), tables.y = logits(ny);
  const size_t slots = size_t(factors == 2 ? codes * codes : codes);
  tables.a = random_table(random, slots, 0, 1);
  for (double& m : tables.a)
    if (random() % 3 == 0) m = 0;
  tables.b = random_table(random, slots * size_t(channels), -1, 1);
  AddressField<double> in;
  in.logit_x = tables.x.data(), in.logit_y = tables.y.data(), in.mass = tables.a.data(), in.value = tables.b.data();
  in.nx = nx, in.ny = ny, in.factors = factors, in.codes = codes, in.channels = channels, in.top_k = top_k;
  return in;
}

void point_to(ExponentialField<double>& in, Outputs& o) { in.field = o.field.data(); }
void point_to(AddressField<double>& in, Outputs& o) {
  in.field = o.field.data(), in.read_mass = o.read_mass.data(), in.empty = o.empty.data();
}
void on_cpu(const ExponentialField<double>& in) { exponential_field_cpu(in, 0, in.ny); }
void on_cpu(const AddressField<double>& in) { address_field_cpu(in, 0, in.ny); }

double worst(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double error = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ? 0 : std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i]));
    if (!(error <= most)) most = error;
  }
  return most;
}

// Largest difference from the CPU; counts a failure when outputs are spoilt or a second run differs.
template <class Field>
double difference(slotscope::testing::Context& t, FieldGpu& gpu, Field in) {
  const size_t cells = size_t(in.nx) * size_t(in.ny), channels = size_t(in.channels);
  Outputs cpu = Outputs::make(cells, channels), one = cpu, two = cpu;
  point_to(in, cpu), on_cpu(in);
  point_to(in, one), gpu.start(in);
  point_to(in, two), gpu.start(in);
  gpu.finish();
  CHECK(one.intact(cells, channels) && two.intact(cells, channels));
  CHECK(one.empty == cpu.empty);
  CHECK(worst(one.field, two.field) == 0 && worst(one.read_mass, two.read_mass) == 0);
  return std::max(worst(one.field, cpu.field), worst(one.read_mass, cpu.read_mass));
}

}  // namespace

SLOTSCOPE_CASE(equals_cpu) {
  if (!slotscope::testing::need_gpu(t)) return;
  FieldGpu gpu;
  Tables tables;
  double exponentials = 0, kept = 0, all_of_one = 0;
  const std::pair<int, int> grids[] = {{1, 1}, {31, 9}, {32, 8}, {33, 7}, {64, 65}};
  for (const auto& [nx, ny] : grids)
    for (const int terms : {1, 31, 32, 33, 100})
      for (const int channels : {1, 3})
        exponentials = std::max(
            exponentials, difference(t, gpu, exponential(tables, nx, ny, terms, channels, terms % 2, unsigned(terms + nx))));
  CHECK_CLOSE(exponentials, 0, 1e-13);
  for (const auto& [nx, ny] : grids)
    for (const int factors : {1, 2})
      for (const int codes : {2, 3, 4, 16})
        for (const int top_k : {1, 3, 4, 30, 200, 100000})
          for (const int kind : {0, 1, 2, 3}) {
            if (nx * ny > 1000 && top_k > 4 && codes == 16 && kind % 2) continue;  // enough of the slow ones
            auto in = address(tables, nx, ny, factors, codes, top_k, 1 + 2 * (kind % 2), unsigned(codes + top_k + kind));
            in.mass_aware = kind == 1, in.divide = kind == 2, in.nearest_only = kind == 3;
            const double error = difference(t, gpu, in);
            const bool all = top_k >= (factors == 2 ? codes * codes : codes);
            if (!all)
              kept = std::max(kept, error);
            else if (factors == 1)
              all_of_one = std::max(all_of_one, error);
            else
              CHECK_EQ(error, 0.0);  // the CPU's bits
          }
  CHECK_CLOSE(kept, 0, 1e-12);
  CHECK_CLOSE(all_of_one, 0, 1e-12);
  t.note("off from the CPU by at most " + slotscope::testing::to_text(exponentials) + " (exponentials), " +
         slotscope::testing::to_text(kept) + " (kept slots), " + slotscope::testing::to_text(all_of_one) + " (one factor)");
}

SLOTSCOPE_CASE(says_what_it_takes) {
  if (!slotscope::testing::need_gpu(t)) return;
  FieldGpu gpu;
  Tables tables;
  CHECK(FieldGpu::takes(address(tables, 2, 2, 2, 64, 1024, 3, 1)));
  CHECK(FieldGpu::takes(address(tables, 2, 2, 2, 64, 4096, 3, 1)));
  CHECK(!FieldGpu::takes(address(tables, 2, 2, 2, 64, 1025, 3, 1)));
  CHECK(!FieldGpu::takes(address(tables, 2, 2, 2, 4, 3, 9, 1)));
  CHECK(!FieldGpu::takes(address(tables, 2, 2, 3, 4, 3, 1, 1)));
  bool thrown = false;
  try {
    gpu.start(address(tables, 2, 2, 2, 64, 1025, 3, 1));
  } catch (const std::invalid_argument&) {
    thrown = true;
  }
  CHECK(thrown);
  gpu.finish();
  gpu.finish();  // nothing is on its way
}

// 24 panels of 512 x 512 with 64 keys: three rows of full attention and quantised keys, features, and RAM-Net memories.
SLOTSCOPE_CASE(panels_of_a_figure) {
  if (!slotscope::testing::need_gpu(t)) return;
  constexpr int kGrid = 512;
  std::vector<Tables> tables(24);
  std::vector<Outputs> outputs;
  std::vector<ExponentialField<double>> exponentials;
  std::vector<AddressField<double>> addresses;
  for (unsigned i = 0; i < 24; ++i) {
    outputs.push_back(Outputs::make(kGrid * kGrid, 1));
    switch (i % 8) {
      case 0:
      case 1: exponentials.push_back(exponential(tables[i], kGrid, kGrid, 64, 1, false, i)); break;
      case 2: exponentials.push_back(exponential(tables[i], kGrid, kGrid, 128, 1, true, i)); break;
      case 3: addresses.push_back(address(tables[i], kGrid, kGrid, 2, 4, 16, 1, i)); break;
      case 4: addresses.push_back(address(tables[i], kGrid, kGrid, 2, 4, 4, 1, i)); break;
      case 5: addresses.push_back(address(tables[i], kGrid, kGrid, 2, 16, 256, 1, i)); break;
      case 6: addresses.push_back(address(tables[i], kGrid, kGrid, 2, 16, 64, 1, i)); break;
      case 7:
        addresses.push_back(address(tables[i], kGrid, kGrid, 2, 8, 32, 1, i));
        addresses.back().mass_aware = true;
    }
  }
  FieldGpu gpu;
  std::vector<double> ms;
  for (int run = 0; run < 6; ++run) {  // the first ones take memory and load kernels
    size_t next = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (auto& in : exponentials) point_to(in, outputs[next++]), gpu.start(in);
    for (auto& in : addresses) point_to(in, outputs[next++]), gpu.start(in);
    gpu.finish();
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  for (size_t i = exponentials.size(); i < 24; i += 5) {  // a panel of every kind of memory
    AddressField<double> in = addresses[i - exponentials.size()];
    Outputs cpu = Outputs::make(kGrid * kGrid, 1);
    point_to(in, cpu), on_cpu(in);
    CHECK_CLOSE(worst(outputs[i].field, cpu.field), 0, 1e-12);
  }
  std::sort(ms.begin() + 1, ms.end());
  char text[200];
  std::snprintf(text, sizeof text, "24 panels of 512 x 512, 64 keys, into host memory: first %.1f ms, then %.1f to %.1f ms", ms[0],
                ms[1], ms.back());
  t.note(text);
  CHECK(ms[1] <= 30);
}

#endif
