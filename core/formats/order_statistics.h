// Exact order statistics of a stream that is read several times: radix selection, 16 bits of the ordered key per pass.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace slotscope::formats {

template <class T>
struct OrderKey {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static_assert(sizeof(T) == sizeof(Bits));
  static constexpr Bits kSign = Bits(1) << (8 * sizeof(T) - 1);

  // Unsigned numbers in the order of the values (of finite ones for reals; -0 comes before +0).
  static Bits from(T value) {
    const auto bits = std::bit_cast<Bits>(value);
    if constexpr (std::is_floating_point_v<T>)
      return bits & kSign ? Bits(~bits) : Bits(bits | kSign);
    else if constexpr (std::is_signed_v<T>)
      return bits ^ kSign;
    else
      return bits;
  }
  static T value(Bits key) {
    if constexpr (std::is_floating_point_v<T>)
      return std::bit_cast<T>(key & kSign ? Bits(key ^ kSign) : Bits(~key));
    else if constexpr (std::is_signed_v<T>)
      return std::bit_cast<T>(Bits(key ^ kSign));
    else
      return std::bit_cast<T>(key);
  }
};

// Every pass feeds all elements to add() and then calls end_pass(): the first time with the ranks that are wanted, which are
// known only then. After passes() passes value(i) is the element of rank ranks[i] (0: the least).
template <class T>
class RankSelection {
  using Key = OrderKey<T>;
  using Bits = typename Key::Bits;

 public:
  static constexpr int passes() { return int(sizeof(T)) / 2; }

  RankSelection() { groups_.push_back({0, std::vector<uint64_t>(kRadix)}); }

  void add(T value) {
    const Bits key = Key::from(value);
    const auto digit = size_t(key >> shift() & (kRadix - 1));
    if (pass_ == 0) {
      ++groups_[0].counts[digit];
      return;
    }
    const Bits prefix = key >> (shift() + 16);  // pass_ > 0: the shift is less than the width
    for (Group& group : groups_)
      if (group.prefix == prefix) {
        ++group.counts[digit];
        return;
      }
  }

  void end_pass(const std::vector<uint64_t>& ranks) {
    if (pass_ == 0)
      for (uint64_t rank : ranks) wanted_.push_back({0, rank});
    std::vector<Bits> prefixes;
    for (Wanted& wanted : wanted_) {
      const auto group = std::find_if(groups_.begin(), groups_.end(),
                                      [&](const Group& g) { return g.prefix == wanted.prefix; });
      size_t digit = 0;
      while (wanted.rank >= group->counts[digit]) wanted.rank -= group->counts[digit++];
      wanted.prefix = Bits(pass_ == 0 ? digit : (wanted.prefix << 16 | Bits(digit)));
      if (std::find(prefixes.begin(), prefixes.end(), wanted.prefix) == prefixes.end())
        prefixes.push_back(wanted.prefix);
    }
    groups_.clear();
    if (++pass_ < passes())
      for (Bits prefix : prefixes) groups_.push_back({prefix, std::vector<uint64_t>(kRadix)});
  }

  T value(size_t i) const { return Key::value(wanted_[i].prefix); }

 private:
  static constexpr uint64_t kRadix = 65536;
  struct Group {
    Bits prefix;  // the digits before this pass's
    std::vector<uint64_t> counts;
  };
  struct Wanted {
    Bits prefix;
    uint64_t rank;  // among the elements with that prefix
  };
  int shift() const { return 16 * (passes() - 1 - pass_); }

  int pass_ = 0;
  std::vector<Group> groups_;
  std::vector<Wanted> wanted_;
};

}  // namespace slotscope::formats
