// Floats for the tests of this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.hpp"

namespace rekindle::optim {

constexpr std::size_t kFloats = 1000;  // not a multiple of any vector width

inline std::vector<float> random_floats(std::uint64_t key, float low, float high) {
  Rng rng(key);
  std::vector<float> out(kFloats);
  for (float& element : out) element = low + (high - low) * rng.unit();
  return out;
}

}  // namespace rekindle::optim
