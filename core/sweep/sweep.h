// Runs a sweep: the same prompts through several models, results kept in one file that a later call with the same request continues.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/engine/session.h"
#include "core/progress.h"
#include "core/trace/sweep_file.h"

namespace slotscope::sweep {

struct Request {
  std::vector<std::string> folders;  // checkpoint folders or weight files, one model each
  trace::SweepSettings settings;     // device, dtype and router_dtype are filled in from `load`
  std::filesystem::path out;
  engine::LoadOptions load;
  std::string weights;               // of a torch.save file with several candidates
  bool ignore_index = false;
  int64_t segment = 0;               // tokens per segment, 0: chosen; does not change the numbers
  double max_gpu_mem = 0;            // GiB, 0: what is free
  bool force = false;                // start again: what the file holds is replaced
  double save_seconds = 10;          // the file is renewed this often, but takes at most a twentieth of the time; 0: after every prompt
};

struct Outcome {
  trace::Sweep sweep;
  bool cancelled = false;
  int64_t kept = 0;   // prompts that the file held already
  int64_t run = 0;    // prompts run by this call
  int64_t total = 0;  // of the models of this request
  double seconds = 0;
  std::vector<std::string> notes, warnings;
};

// Checks everything (settings against the file's, checkpoints, tokenizers) before a weight is read. Stage "sweep", done and total in
// prompts, detail "gsa-passkey, 1024 tokens, 0:41 left". A cancel drops the prompt that is running and keeps the others; an error in
// one model keeps them too and is thrown. Throws Error; settings that differ from the file's are Error::Kind::usage and named by their
// option.
Outcome run(const Request& request, Progress& progress);

// The first setting in which `wanted` differs from `stored`: "" or "--lengths: 256,512, the file has 256". For messages and tests.
std::string difference(const trace::SweepSettings& wanted, const trace::SweepSettings& stored);

}  // namespace slotscope::sweep
