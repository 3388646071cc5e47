// Losses are exchanged as fixed-point numbers, so that their sum does not depend on the order of the
// additions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace rekindle::trainer {

inline constexpr double kLossUnit = 4294967296.0;  // 2^32
inline constexpr double kLossLimit = 1e6;          // the sum of a step stays far below the limit of an int64

inline std::int64_t to_fixed(double loss) {
  return std::llround(std::clamp(loss, -kLossLimit, kLossLimit) * kLossUnit);
}

}  // namespace rekindle::trainer
