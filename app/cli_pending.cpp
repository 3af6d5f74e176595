// Stands in for cli_main.cpp until the libraries that the commands call are here (app/CMakeLists.txt).
#include <cstdio>

int main() {
  std::fputs("slotscope-cli: this build has no commands yet\n", stderr);
  return 1;
}
