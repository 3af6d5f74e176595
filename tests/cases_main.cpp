// slotscope-cases [--suite NAME] [--device cpu|cuda[:N]]: every case of this build, without Qt.
#include <cstring>

#include "tests/cases/case.h"

int main(int argc, char** argv) {
  std::string suite;
  for (int i = 1; i + 1 < argc; ++i) {
    if (!std::strcmp(argv[i], "--suite")) suite = argv[i + 1];
    else if (!std::strcmp(argv[i], "--device")) slotscope::testing::set_device(argv[i + 1]);
  }
  return slotscope::testing::run_all(suite);
}
