// The program of one target: libFuzzer calls these.
#include <cstring>

#include "tests/fuzz/fuzz.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

#define SLOTSCOPE_TEXT(name) SLOTSCOPE_TEXT_OF(name)
#define SLOTSCOPE_TEXT_OF(name) #name

const slotscope::fuzz::Target& target() {
  static const slotscope::fuzz::Target& found = []() -> const slotscope::fuzz::Target& {
    for (const auto& t : slotscope::fuzz::targets())
      if (!std::strcmp(t.name, SLOTSCOPE_TEXT(SLOTSCOPE_FUZZ_TARGET))) return t;
    throw std::logic_error("no such target");
  }();
  return found;
}

}  // namespace

// An exception that gets out of here ends the program: libFuzzer reports it and keeps the input.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  target().run({data, size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  // One mutation in eight stays as it is: the repair must not hide what it repairs.
  if (target().repair && seed % 8 != 0) size = target().repair(data, size, most);
  return size;
}

// libhdf5 loses some of its own memory when it gives up on a damaged file; that is not ours to free.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }
// Deep stacks and a long memory of freed blocks cost more time than they tell here. A malloc of an absurd size fails, as it does without
// the sanitizer; operator new still ends the program.
extern "C" const char* __asan_default_options() {
  return "malloc_context_size=8:quarantine_size_mb=32:allocator_release_to_os_interval_ms=-1:allocator_may_return_null=1";
}
