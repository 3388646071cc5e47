// The numbers of images, float or bfloat16, on the host.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace rekindle::device::testing {

using Bits = std::uint16_t;  // of a bfloat16

inline float widened(Bits x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16); }
inline Bits narrowed(float x) {  // to the nearest, ties to even
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return 0x7fff;
  return static_cast<Bits>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
template <class T>
float value(T x) {
  if constexpr (std::is_same_v<T, Bits>)
    return widened(x);
  else
    return x;
}
template <class T>
T number(float x) {
  if constexpr (std::is_same_v<T, Bits>)
    return narrowed(x);
  else
    return x;
}

}  // namespace rekindle::device::testing
