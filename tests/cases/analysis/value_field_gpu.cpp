// Value fields on the GPU: the figures of the CPU, and how long a large one takes.
#include <chrono>
#include <cmath>

#include "core/analysis/value_field.h"
#include "core/analysis/value_field_keys.h"
#include "core/error.h"
#include "core/progress.h"
#include "kernels/route_counters.h"
#include "tests/cases/case.h"

using namespace slotscope;
using namespace slotscope::analysis;

namespace {

double worst(const std::vector<double>& a, const std::vector<double>& b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (const double e = std::abs(a[i] - b[i]); !(e <= most)) most = e;
  return most;
}

void compare(testing::Context& t, const FieldSettings& s, FieldCache* cache) {
  const auto cpu = value_field(s), gpu = value_field(s, nullptr, cache, FieldPlace::gpu);
  CHECK(!cpu->on_gpu && gpu->on_gpu);
  CHECK_CLOSE(worst(gpu->reference->value, cpu->reference->value), 0, 1e-12);
  for (size_t row = 0; row < s.rows.size(); ++row)
    for (size_t column = 0; column < s.columns.size(); ++column) {
      const FieldResult &a = gpu->at(row, column), &b = cpu->at(row, column);
      CHECK_CLOSE(worst(a.value, b.value), 0, 1e-11);
      CHECK_CLOSE(worst(a.read_mass, b.read_mass), 0, 1e-12);
      CHECK_CLOSE(a.rmse, b.rmse, 1e-12);
      if (!std::isnan(b.mean_read_mass)) CHECK_CLOSE(a.mean_read_mass, b.mean_read_mass, 1e-12);
      CHECK_EQ(std::isnan(a.mean_read_mass), std::isnan(b.mean_read_mass));
      CHECK_EQ(a.empty_cells, b.empty_cells);
      CHECK_EQ(a.written, b.written);
      CHECK_EQ(a.mean_write_mass == b.mean_write_mass, b.mean_write_mass == b.mean_write_mass);
      CHECK(a.mass == b.mass && a.state == b.state);
    }
}

bool need_gpu(testing::Context& t) {
  if (t.device() == "cpu") t.skip("needs a GPU: --device cuda");
  if (kernels::cuda_available()) return true;
  t.fail("no CUDA device answers", __FILE__, __LINE__);
  return false;
}

}  // namespace

SLOTSCOPE_CASE(presets_equal_the_cpu) {
  if (!need_gpu(t)) return;
  FieldCache cache;
  for (const FieldPreset& preset : field_presets()) {
    FieldSettings s = preset.make();
    s.grid = 40;
    compare(t, s, &cache);
    s.rows = {0.25, 1, 4};
    compare(t, s, nullptr);
  }
}

SLOTSCOPE_CASE(stops_and_goes_on) {
  if (!need_gpu(t)) return;
  FieldCache cache;
  FieldSettings s = field_presets().front().make();
  s.grid = 30;
  Progress stop;
  stop.request_cancel();
  CHECK(value_field(s, &stop, &cache, FieldPlace::gpu) == nullptr);
  compare(t, s, &cache);
}

// Without a GPU, or for a small figure, `automatic` is the CPU; asking for the GPU where there is none is an error.
SLOTSCOPE_CASE(automatic_place) {
  FieldSettings s = field_presets().front().make();
  s.grid = 10;
  CHECK(!value_field(s, nullptr, nullptr, FieldPlace::automatic)->on_gpu);
  if (!kernels::cuda_available()) CHECK_ERROR(value_field(s, nullptr, nullptr, FieldPlace::gpu), "value field", "CPU");
}

// 24 panels of 512 x 512 with 64 keys, with everything that is said about them.
SLOTSCOPE_CASE(panels_of_a_figure) {
  if (!need_gpu(t)) return;
  FieldSettings s = field_presets().front().make();
  s.grid = 512, s.rows = {0.5, 1, 2}, s.columns.clear(), s.keys.clear();
  for (int i = 0; i < 64; ++i) s.keys.push_back({.x = 0.4 + 2.399963 * i, .y = 1.1 + 3.7 * i, .value = {(i % 7) / 6.0}});
  for (const auto& [codes, top_k, aware] : {std::tuple{4, 16, false}, {4, 4, false}, {16, 256, false}, {16, 64, false}, {8, 32, false},
                                            {4, 16, true}, {16, 256, true}, {8, 64, true}}) {
    FieldPanel p;
    p.codes = codes, p.top_k = top_k, p.mass_aware = aware;
    s.columns.push_back(p);
  }
  FieldCache cache;
  double best = INFINITY, first = 0;
  for (int run = 0; run < 6; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    const auto field = value_field(s, nullptr, &cache, FieldPlace::automatic);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    CHECK(field->on_gpu);
    if (run == 0) first = ms;
    best = std::min(best, ms);
  }
  t.note("24 panels of 512 x 512, 64 keys, with errors and masses: first " + testing::to_text(first) + " ms, best " +
         testing::to_text(best) + " ms");
}
