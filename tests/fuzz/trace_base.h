// What the two trace targets share: small valid traces to start from, and a reader of everything.
#pragma once

#include <filesystem>
#include <string>

namespace slotscope::fuzz {

// Files as the program writes them. complete: superblock 3, deflate, one run. plain: superblock 0, no compression, two runs, float64.
// dead: what a writer that died left behind (open for SWMR).
enum class Base { complete, plain, dead };
inline constexpr int kBases = 3;
const std::string& base_trace(Base base);

// Tokens, heads that own slots, slots and top_k of these traces.
inline constexpr int kTokens = 12, kPrompt = 10, kHeads = 2, kSlots = 8, kTopK = 2;

// A HDF5 file that no trace may make us open; opened() tells whether anybody did since the last call.
class Canary {
 public:
  Canary();
  ~Canary();
  const std::filesystem::path& path() const { return path_; }
  bool opened();

 private:
  std::filesystem::path path_;
  int watch_ = -1;
};

// Opens the trace and asks for everything that a viewer would ask for, analyses its heads when `analysis` is set, then repairs it to a
// copy and opens that when `repair` is set.
// Throws Finding when a promise of trace.h is broken; swallows slotscope::Error. Returns true when the trace opened.
bool read_trace(const std::filesystem::path& file, bool repair, bool analysis);

}  // namespace slotscope::fuzz
