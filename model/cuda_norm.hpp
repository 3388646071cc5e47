// Internal to the module: ops::BatchNorm2d on a GPU (device/cuda_norm.hpp).
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/batchnorm.h>

namespace rekindle::model::ops {

// Whether cuda_norm() can be used: in training, with images in channels-last order on a GPU. `residual`: as
// `x`, or undefined.
bool has_norm(const at::Tensor& x, const torch::nn::BatchNorm2dImpl& norm, const at::Tensor& residual);
// Updates the running statistics as `norm` would.
at::Tensor cuda_norm(const at::Tensor& x, torch::nn::BatchNorm2dImpl& norm, const at::Tensor& residual,
                     bool relu);

}  // namespace rekindle::model::ops
