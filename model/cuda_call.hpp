// Internal to the module: what the operators on a GPU need to call the functions of device/. Only in builds
// with CUDA.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

#include "device/cuda_images.hpp"

namespace rekindle::model::ops {

inline constexpr auto kLast = at::MemoryFormat::ChannelsLast;

// Where LibTorch's operators of this thread go.
inline cudaStream_t stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

inline void check(cudaError_t error) { TORCH_CHECK(error == cudaSuccess, cudaGetErrorString(error)); }

inline device::Number number_of(at::ScalarType type) {
  return type == at::kBFloat16 ? device::Number::kBfloat16 : device::Number::kFloat32;
}

}  // namespace rekindle::model::ops
