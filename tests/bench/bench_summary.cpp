// How long a trace of 131,072 tokens takes to open: reading the file's description, the summary over all
// heads (what the window needs before it selects), and one head with everything (what it then shows).
// bench_summary FOLDER [TOKENS [SLOTS [TOP_K]]]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>

#include "core/analysis/head_data.h"
#include "core/trace/writer.h"

using namespace slotscope;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kLayers = 4, kHeads = 4;

double seconds(Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); }

template <class T>
std::vector<std::byte> bytes(const std::vector<T>& v) {
  std::vector<std::byte> out(v.size() * sizeof(T));
  std::memcpy(out.data(), v.data(), out.size());
  return out;
}

void write_trace(const std::filesystem::path& file, int64_t tokens, int64_t slots, int64_t top_k) {
  using trace::ElementType;
  trace::RunSpec run{
      .name = "bench", .prompt_tokens = tokens - 8, .spans = {{"key", tokens / 3, tokens / 3 + 8}}};
  run.datasets.push_back(
      {.path = "tokens/roles", .type = ElementType::u8, .expected_rows = tokens, .axes = "T"});
  run.datasets.push_back(
      {.path = "tokens/ids", .type = ElementType::i32, .expected_rows = tokens, .axes = "T"});
  for (int i = 0; i < kLayers; ++i) {
    run.layers.push_back({.index = i,
                          .family = "raven",
                          .route_kind = "sparse",
                          .heads = kHeads,
                          .route_heads = kHeads,
                          .slots = slots,
                          .top_k = top_k});
    const std::string at = "layers/" + std::to_string(i) + "/";
    run.datasets.push_back({.path = at + "route_index",
                            .type = ElementType::u16,
                            .shape = {kHeads, top_k},
                            .expected_rows = tokens,
                            .axes = "T,H_r,K"});
    run.datasets.push_back({.path = at + "route_weight",
                            .type = ElementType::f32,
                            .shape = {kHeads, top_k},
                            .expected_rows = tokens,
                            .axes = "T,H_r,K"});
    run.datasets.push_back({.path = at + "log_decay",
                            .type = ElementType::f32,
                            .shape = {kHeads},
                            .expected_rows = tokens,
                            .axes = "T,H_r"});
  }
  trace::Hdf5Sink sink(file, {.force = true});
  sink.begin({.family = "raven", .dtype = "float32"}, {run});
  std::mt19937 random(1);
  std::vector<uint16_t> all(static_cast<size_t>(slots));
  std::iota(all.begin(), all.end(), uint16_t(0));
  constexpr int64_t block = 4096;
  for (int64_t first = 0; first < tokens; first += block) {
    const int64_t rows = std::min(block, tokens - first);
    std::vector<uint8_t> roles;
    for (int64_t t = first; t < first + rows; ++t) roles.push_back(t >= tokens / 3 && t < tokens / 3 + 8);
    sink.append(0, 0, rows, bytes(roles));
    sink.append(0, 1, rows, bytes(std::vector<int32_t>(size_t(rows), 7)));
    for (int i = 0; i < kLayers; ++i) {
      std::vector<uint16_t> index;
      std::vector<float> weight, decay;
      for (int64_t cell = 0; cell < rows * kHeads; ++cell) {
        for (int64_t k = 0; k < top_k; ++k) {
          std::swap(all[size_t(k)], all[size_t(k) + random() % size_t(slots - k)]);
          index.push_back(all[size_t(k)]);
          weight.push_back(float(random()) / float(random.max()) / float(top_k));
        }
        decay.push_back(-float(random()) / float(random.max()));
      }
      sink.append(0, 2 + 3 * i, rows, bytes(index));
      sink.append(0, 3 + 3 * i, rows, bytes(weight));
      sink.append(0, 4 + 3 * i, rows, bytes(decay));
    }
    sink.tokens_done(0, first + rows);
  }
  sink.finish(trace::Status::complete);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "bench_summary FOLDER [TOKENS [SLOTS [TOP_K]]]\n"), 2;
  const int64_t tokens = argc > 2 ? std::atoll(argv[2]) : 131072;
  const int64_t slots = argc > 3 ? std::atoll(argv[3]) : 64, top_k = argc > 4 ? std::atoll(argv[4]) : 8;
  const std::filesystem::path file = std::filesystem::path(argv[1]) / "bench_summary.h5";
  auto start = Clock::now();
  write_trace(file, tokens, slots, top_k);
  std::printf("%lld tokens, %d layers x %d heads x %lld slots, top-%lld: written in %.1f s, %.0f MB\n",
              static_cast<long long>(tokens), kLayers, kHeads, static_cast<long long>(slots),
              static_cast<long long>(top_k), seconds(start), double(std::filesystem::file_size(file)) / 1e6);
  for (int round = 0; round < 3; ++round) {
    start = Clock::now();
    const auto trace = trace::Trace::open(file);
    const double open = seconds(start);
    start = Clock::now();
    const auto summary = analysis::summarise(*trace, 0);
    const double summarised = seconds(start);
    start = Clock::now();
    const auto head = analysis::load_head(*trace, 0, summary.first.layer, summary.first.head);
    std::printf("  open %.3f s, summary of %zu heads %.3f s, one head %.3f s (%zu writes)\n", open,
                summary.head_list.size(), summarised, seconds(start), head->writes.token.size());
  }
  std::filesystem::remove(file);
  return 0;
}
