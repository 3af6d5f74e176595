// The commands of slotscope-cli. Each takes its settings as parsed and returns an exit code (console.h); errors are thrown as
// slotscope::Error and become exit 1 or 2 in cli_main.cpp.
#pragma once

#include <optional>
#include <string>

#include "app/cli/console.h"
#include "app/cli/run_options.h"
#include "app/cli/sweep.h"

namespace slotscope::cli {

struct InfoSettings {
  std::string folder, flavour, weights;
  bool tensors = false, ignore_index = false;
  std::string tensor;     // --tensor: its statistics and nothing else
  int bins = 32;          // of its histogram
  bool log_bins = false;  // symmetric log
};
// What config.json and the weights' headers say; reads no weight. A folder that cannot be run is listed all the same, with the
// reason (exit 0).
int run_info(const InfoSettings&, const Console&);
// info --tensor: reads that tensor. Exit 130 when cancelled.
int run_tensor_statistics(const InfoSettings&, const Console&);

struct RunCommandSettings {
  std::string folder, out, compress = "deflate";
  bool force = false, ignore_index = false;
  RunSettings run;
};
// Runs the prompts and writes the trace. Exit 130 when cancelled (the trace is then readable and marked).
int run_run(const RunCommandSettings&, const Console&);

struct TokenizeSettings {
  std::string folder;
  std::optional<std::string> text, text_file;
  bool no_special = false;
};
// Token ids, the vocabulary's strings and places in the text; needs only the folder's tokenizer files.
int run_tokenize(const TokenizeSettings&, const Console&);

struct DetokenizeSettings {
  std::string folder;
  std::optional<std::string> ids, ids_file;
  bool keep_special = false;
};
int run_detokenize(const DetokenizeSettings&, const Console&);

struct AnalyzeSettings {
  std::string trace;
  int run = -1;  // -1: all
  double threshold = 0, tau = 0, retrieval_head = 0.1;
  double esl_low = 1.0 / 3, esl_high = 2.0 / 3;
  bool csv = false;          // of a sweep's file
  double confidence = 0.95;  // of a sweep's file
};
// A trace, or the file of a sweep (its table).
int run_analyze(const AnalyzeSettings&, const Console&);

struct VerifySettings {
  std::string folder, golden;
  std::optional<double> tolerance;
  RunSettings run;  // model options only
};
// Exit 0: every tensor within its tolerance; 1: not.
int run_verify(const VerifySettings&, const Console&);

struct RepairSettings {
  std::string in, out;
  bool force = false;
};
int run_repair(const RepairSettings&, const Console&);

struct SelftestSettings {
  std::string device = "cpu", golden, suite;
  bool list = false;
};
int run_selftest(const SelftestSettings&, const Console&);

// The devices that --device can name, or why there is no CUDA.
int run_devices(const Console&);

// "complete", "cancelled", "failed", "partial".
const char* status_name(trace::Status);

}  // namespace slotscope::cli
