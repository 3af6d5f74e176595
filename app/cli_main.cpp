// slotscope-cli: everything but the window.
#include <cstdio>

int main() {
  std::puts("slotscope-cli 0.1.0");
  return 0;
}
