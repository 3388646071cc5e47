// Operators for models: the same results as LibTorch's up to rounding, and faster in training. A
// model may use them in place of torch::nn::functional's, or not.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

namespace rekindle::model::ops {

// `images`: [images, channels, height, width], in the memory format in which convolutions are fastest.
at::Tensor channels_last(const at::Tensor& images);

// torch::nn::functional::conv2d with the same stride and padding in both directions, no dilation and no
// groups. `x`: [images, channels, height, width], in any memory format; `weight`: [out, channels, h, w];
// `bias`: [out], or undefined.
at::Tensor conv2d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, std::int64_t stride,
                  std::int64_t padding);

// conv2d, then the maximum over squares of 2 x 2 if `pools`, then ReLU.
at::Tensor conv_relu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                     std::int64_t stride, std::int64_t padding, bool pools);

// torch::nn::functional::linear: x w' + b. `x`: [..., in]; `weight`: [out, in]; `bias`: [out], or undefined.
// The gradient of the weight is computed in its place: 411 MB of VGG11 need not be copied.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// torch::nn::Conv2d, with these operators where stride and padding are equal in both directions, and there
// are no dilation, groups and other padding than zeros.
struct Conv2dImpl : torch::nn::Conv2dImpl {
  using torch::nn::Conv2dImpl::Conv2dImpl;
  at::Tensor forward(const at::Tensor& x);
};
TORCH_MODULE(Conv2d);

// torch::nn::BatchNorm2d.
struct BatchNorm2dImpl : torch::nn::BatchNorm2dImpl {
  using torch::nn::BatchNorm2dImpl::BatchNorm2dImpl;
  at::Tensor forward(const at::Tensor& x);
  // With ReLU behind it, in place. `residual`: is added before, if it is defined.
  at::Tensor with_relu(const at::Tensor& x, const at::Tensor& residual = {});
};
TORCH_MODULE(BatchNorm2d);

// torch::nn::Linear.
struct LinearImpl : torch::nn::LinearImpl {
  using torch::nn::LinearImpl::LinearImpl;
  at::Tensor forward(const at::Tensor& x) { return linear(x, weight, bias); }
};
TORCH_MODULE(Linear);

}  // namespace rekindle::model::ops
