// slotscope-cli repair.
#include "app/cli/commands.h"
#include "core/trace/repair.h"

namespace slotscope::cli {

int run_repair(const RepairSettings& s, const Console& console) {
  Progress& progress = cancel_on_signal();
  trace::RepairReport report;
  try {
    const ProgressLine line(progress, console);
    report = trace::repair(s.in, s.out, s.force, &progress);
  } catch (const Error&) {
    if (!progress.cancel_requested()) throw;
    console.info("cancelled: nothing was written");
    if (console.json) console.out_json({{"status", "cancelled"}});
    return kExitCancelled;
  }
  for (const auto& text : report.lost) console.warning("left out: " + text);
  if (!console.json) {
    console.out(printable(report.text(s.out), true) + "\n");
    return kExitOk;
  }
  Json runs = Json::array();
  int64_t tokens = 0;
  for (const auto& run : report.runs) {
    runs.push_back({{"name", run.name}, {"tokens", run.tokens}, {"planned_tokens", run.planned}});
    tokens += run.tokens;
  }
  console.out_json({{"in", s.in}, {"out", s.out}, {"status_of_source", status_name(report.status)}, {"tokens", tokens},
                    {"runs", runs}, {"lost", report.lost}});
  return kExitOk;
}

}  // namespace slotscope::cli
