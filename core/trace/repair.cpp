#include "core/trace/repair.h"

#include <algorithm>

#include "core/trace/trace.h"
#include "core/trace/trace_source.h"
#include "core/trace/writer.h"

namespace slotscope::trace {
namespace {

constexpr int64_t kBlockBytes = int64_t(4) << 20;

// Hands every row of a dataset to `take` in blocks that end at chunk borders.
template <class Take>
void each_block(const Source& source, const std::string& path, const DatasetInfo& info, Take take) {
  const Numbers data = source.numbers(path);
  const int64_t row = data.row_elements() * int64_t(element_size(data.type));
  const int64_t rows = info.shape.empty() ? 1 : info.shape[0];
  const int64_t chunk = data.chunk.empty() ? 1 : data.chunk[0];
  const int64_t block = std::max<int64_t>(kBlockBytes / std::max<int64_t>(row, 1) / chunk, 1) * chunk;
  for (int64_t at = 0; at < rows; at += block) {
    const int64_t count = std::min(block, rows - at);
    std::vector<std::byte> bytes{std::vector<std::byte>(size_t(count * row))};
    source.read_bytes(data, path, at, count, bytes.data());
    take(count, std::move(bytes));
  }
}

struct Plan {
  RunInfo info;
  std::string group;
  RunSpec spec;
  std::vector<const DatasetInfo*> sources;  // per spec.datasets
};

// Sizes without a single value behind them. The copy is smaller than its source, and such sizes can be too large for what it holds.
bool empty_and_large(const DatasetInfo& info) {
  constexpr double kMostBytes = 1 << 20;
  double bytes = double(element_size(info.type));
  bool none = false;
  for (const int64_t n : info.shape) {
    none = none || n == 0;
    bytes *= double(std::max<int64_t>(n, 1));
  }
  return none && bytes > kMostBytes;
}

// What the copy of a run will hold: everything that can be read to its end.
void plan_run(const Source& source, Plan& plan, RepairReport& report, Progress* progress) {
  const RunInfo& run = plan.info;
  RunSpec& spec = plan.spec;
  spec.name = run.name;
  spec.has_text = run.has_text;
  spec.text = run.text;
  spec.char_begin = run.char_begin;
  spec.char_end = run.char_end;
  spec.prompt_tokens = run.prompt_tokens;
  spec.spans = run.spans;
  spec.has_answer = run.has_answer;
  spec.answer = run.answer;
  spec.attributes = run.attributes;
  spec.layers = run.layers;
  for (const DatasetInfo& info : run.datasets) {
    if (info.path.starts_with("prompt/")) continue;  // written from the texts above
    if (progress && progress->cancel_requested()) throw Error({.file = source.name, .found = "cancelled"});
    if (empty_and_large(info)) {
      report.lost.push_back(plan.group.substr(1) + "/" + info.path + ": sizes without a value");
      continue;
    }
    try {
      each_block(source, plan.group + "/" + info.path, info, [](int64_t, std::vector<std::byte>) {});
    } catch (const Error& e) {
      report.lost.push_back(plan.group.substr(1) + "/" + info.path + ": " + e.parts().found);
      continue;
    }
    DatasetSpec d{info.path, info.type, !info.chunk.empty(), info.shape, 0, info.axes, info.description};
    if (d.growing) {
      d.expected_rows = d.path == "tokens/ids" ? run.planned_tokens : d.shape[0];
      d.shape.erase(d.shape.begin());
    }
    spec.datasets.push_back(std::move(d));
    plan.sources.push_back(&info);
  }
}

void copy_run(const Source& source, const Plan& plan, int index, Sink& sink, Progress* progress) {
  for (size_t d = 0; d < plan.sources.size(); ++d) {
    if (progress && progress->cancel_requested()) throw Error({.file = source.name, .found = "cancelled"});
    const std::string path = plan.group + "/" + plan.sources[d]->path;
    if (plan.spec.datasets[d].growing) {
      each_block(source, path, *plan.sources[d], [&](int64_t rows, std::vector<std::byte> bytes) {
        sink.append(index, int(d), rows, std::move(bytes));
      });
    }
    if (progress) progress->add(1);
  }
  sink.tokens_done(index, plan.info.tokens);
  for (size_t d = 0; d < plan.sources.size(); ++d) {
    if (plan.spec.datasets[d].growing) continue;
    std::vector<std::byte> whole;
    each_block(source, plan.group + "/" + plan.sources[d]->path, *plan.sources[d],
               [&](int64_t, std::vector<std::byte> bytes) {
                 whole.insert(whole.end(), bytes.begin(), bytes.end());
               });
    sink.write(index, int(d), std::move(whole));
  }
  if (plan.info.exact) sink.set_exact(index, *plan.info.exact);
}

}  // namespace

RepairReport repair(const std::filesystem::path& source_path, const std::filesystem::path& target, bool force,
                    Progress* progress) {
  std::error_code ignored;
  if (std::filesystem::equivalent(source_path, target, ignored) || source_path == target.string() + ".part")
    throw Error({.file = source_path.string(),
                 .found = "the copy would overwrite its source (" + target.string() + ")",
                 .advice = "Give the repaired file another name"});
  const auto trace = Trace::open(source_path, progress);
  RepairReport report;
  report.status = trace->status();
  Source source;  // its own handle: raw bytes in the stored type
  std::vector<Plan> plans(size_t(trace->run_count()));
  {
    const Hdf5Lock lock;
    source.open(source_path);
    const auto groups = run_groups(source);
    if (groups.size() != plans.size())
      damaged(source.name, "/runs", "another number of runs than a moment ago");
    int64_t datasets = 0;
    for (size_t i = 0; i < plans.size(); ++i) {
      plans[i].info = trace->run(int(i));
      plans[i].group = groups[i];
      plan_run(source, plans[i], report, progress);
      report.runs.push_back({plans[i].info.name, plans[i].info.tokens, plans[i].info.planned_tokens});
      datasets += int64_t(plans[i].sources.size());
    }
    if (progress) progress->begin_stage("copying", datasets);
  }
  std::vector<RunSpec> specs;
  for (const Plan& plan : plans) specs.push_back(plan.spec);
  Hdf5Sink sink(target, {.force = force,
                         .created = trace->created(),
                         .attributes = {{"repaired_from", source_path.filename().string()}}});
  try {
    sink.begin(trace->model(), specs);
    for (size_t i = 0; i < plans.size(); ++i) copy_run(source, plans[i], int(i), sink, progress);
    sink.finish(report.status == Status::failed ? Status::partial : report.status);
  } catch (...) {
    sink.finish(Status::failed);
    std::filesystem::remove(sink.file(), ignored);
    throw;
  }
  return report;
}

std::string RepairReport::text(const std::filesystem::path& file) const {
  int64_t tokens = 0, planned = 0;
  for (const Run& run : runs) {
    tokens += run.tokens;
    planned += run.planned;
  }
  std::string text = file.string() + ": " + std::to_string(tokens) + " of " + std::to_string(planned) +
                     " tokens kept in " + std::to_string(runs.size()) + (runs.size() == 1 ? " run" : " runs");
  for (const std::string& item : lost) text += "\nleft out, damaged: " + item;
  return text;
}

}  // namespace slotscope::trace
