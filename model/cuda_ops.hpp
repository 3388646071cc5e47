// Internal to the module: operators of model/ops.hpp for GPUs. A build without CUDA has none.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace rekindle::model::ops {

// In all of them, `x` has the type that is computed with, and `weight` and `bias` are the parameters.
// has_...: whether the operator can be used.
bool has_conv_relu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, std::int64_t stride,
                   std::int64_t padding, bool pools);
// As ops::conv_relu(): one pass for all that follows the convolution.
at::Tensor cuda_conv_relu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          std::int64_t stride, std::int64_t padding, bool pools);

// As ops::conv2d() without a bias: the weight is converted once, and its gradient goes to its place at once.
bool has_conv2d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
at::Tensor cuda_conv2d(const at::Tensor& x, const at::Tensor& weight, std::int64_t stride,
                       std::int64_t padding);

bool has_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
// As ops::linear(). `operand`: the weight's values in the type that is computed with.
at::Tensor cuda_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& operand,
                       const at::Tensor& bias);

}  // namespace rekindle::model::ops
