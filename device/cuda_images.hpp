// What follows a convolution of images on a GPU, in one pass over its output each way: the bias, the maximum
// over squares of 2 x 2, and ReLU. LibTorch makes four passes, and its indices of the maxima take 8 bytes
// each.
//
// Arrays are in channels-last order, [images, height, width, channels], and begin at multiples of 16 bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace rekindle::device {

enum class Number { kFloat32, kBfloat16 };

struct ImageShape {
  Number number = Number::kFloat32;
  std::size_t images = 0;
  int height = 0, width = 0, channels = 0;
};

// Whether the functions below can be used: the channels are a power of two that fills a block of threads, and
// the sides are even if the maximum is taken.
bool suits(const ImageShape& shape, bool pools);

// Bytes of memory that the backward functions need for the sums of the bias's gradient.
std::size_t bias_work_bytes(const ImageShape& shape);

// y = max(y + bias, 0). `bias`: [channels]. The sum is rounded to the type of y first, as LibTorch rounds it.
cudaError_t bias_relu(const ImageShape& shape, void* y, const float* bias, cudaStream_t stream);
// dy: the gradient before the bias, where `y` has the result of bias_relu() and `dout` its gradient. `dbias`:
// [channels]. The order of its additions does not depend on the GPU.
cudaError_t bias_relu_backward(const ImageShape& shape, const void* y, const void* dout, void* dy,
                               float* dbias, float* work, cudaStream_t stream);

// out = max(max of each 2 x 2 of y + bias, 0), [images, height / 2, width / 2, channels]. `shape` is that of
// y. `codes` (a byte for each element of out): which of the four was the first largest, and whether it was
// above 0.
cudaError_t bias_pool_relu(const ImageShape& shape, const void* y, const float* bias, void* out,
                           std::uint8_t* codes, cudaStream_t stream);
cudaError_t bias_pool_relu_backward(const ImageShape& shape, const std::uint8_t* codes, const void* dout,
                                    void* dy, float* dbias, float* work, cudaStream_t stream);

}  // namespace rekindle::device
