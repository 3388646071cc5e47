// Batch normalization of images in training, on a GPU, with the sum with other images and ReLU behind it: two
// passes over the images forward, and two backward. LibTorch makes up to five each way, and its first one
// reads far below the speed of the memory.
//
// Arrays of images are in channels-last order, [pixels of all images, channels], and begin at multiples of 16
// bytes. Sums have an order that depends on the shape alone, and not on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "device/cuda_images.hpp"

namespace rekindle::device {

struct NormShape {
  Number number = Number::kFloat32;
  std::size_t pixels = 0;  // of all images
  int channels = 0;
};

// Whether the functions below can be used.
bool suits(const NormShape& shape);

// Bytes of memory that each of them needs to work.
std::size_t norm_work_bytes(const NormShape& shape);

// y = (x - mean) * scale + bias, where scale = weight / sqrt(variance + epsilon); then, if there is
// `residual`, y + residual; then, if `relu`, max(y, 0). Each is rounded to the type of y. Pointers to float:
// [channels].
struct NormForward {
  const void *x = nullptr, *residual = nullptr;  // residual: nullptr, or images
  void* y = nullptr;
  const float *weight = nullptr, *bias = nullptr;
  float *mean = nullptr, *scale = nullptr, *deviation = nullptr;  // results; deviation: 1 / sqrt(...)
  // running = (1 - momentum) * running + momentum * (mean, unbiased variance); count = count + 1.
  float *running_mean = nullptr, *running_variance = nullptr;
  std::int64_t* count = nullptr;
  double epsilon = 1e-5, momentum = 0.1;
  bool relu = false;
};
cudaError_t norm_forward(const NormShape& shape, const NormForward& call, float* work, cudaStream_t stream);

struct NormBackward {
  const void *x = nullptr, *dout = nullptr;
  const void* y = nullptr;                   // of the forward pass; needed with a ReLU after a residual alone
  void *dx = nullptr, *dresidual = nullptr;  // dresidual: nullptr, or images
  const float *bias = nullptr, *mean = nullptr, *scale = nullptr, *deviation = nullptr;
  float *dweight = nullptr, *dbias = nullptr;
  bool relu = false;
};
cudaError_t norm_backward(const NormShape& shape, const NormBackward& call, float* work, cudaStream_t stream);

}  // namespace rekindle::device
