// Values for tests of the order of additions.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace rekindle::device::testing {

using Floats = std::vector<float>;

inline constexpr std::size_t kCount = 1003;

// Of very different sizes, so that another order of additions gives other bits.
inline Floats draw(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Floats values(kCount);
  for (float& value : values) value = normal(random) * std::exp2(static_cast<float>(random() % 24) - 12.0F);
  return values;
}

inline bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace rekindle::device::testing
