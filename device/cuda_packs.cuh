// Internal to the module: 16 bytes of neighbouring channels, as a thread reads them.
#pragma once

#include <cuda_bf16.h>

#include "device/cuda_images.hpp"

namespace rekindle::device {

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

template <class T>
struct alignas(16) Pack {
  static constexpr unsigned kSize = 16 / sizeof(T);
  T x[kSize];
};

template <class T>
Pack<T>* packs(void* memory) {
  return static_cast<Pack<T>*>(memory);
}
template <class T>
const Pack<T>* packs(const void* memory) {
  return static_cast<const Pack<T>*>(memory);
}

// A NaN is the largest number, and passes a ReLU, as in LibTorch.
__device__ inline bool above(float x, float y) { return x > y || x != x; }

template <class Call>
void with_number(Number number, const Call& call) {
  if (number == Number::kBfloat16)
    call(__nv_bfloat16());
  else
    call(float());
}

}  // namespace rekindle::device
