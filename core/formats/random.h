// Random numbers that are the same on every platform and in every version: SplitMix64 (Steele, Lea, Flood
// 2014), no standard-library distribution.
#pragma once

#include <cstdint>

namespace slotscope::formats {

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
  }
  // Uniform in 0 .. n-1 (n > 0), without bias: draws beyond the largest multiple of n are thrown away.
  uint64_t below(uint64_t n) {
    const uint64_t rest = (UINT64_MAX % n + 1) % n;  // 2^64 mod n
    for (;;) {
      const uint64_t x = next();
      if (rest == 0 || x < UINT64_MAX - rest + 1) return x % n;
    }
  }

 private:
  uint64_t state_;
};

}  // namespace slotscope::formats
