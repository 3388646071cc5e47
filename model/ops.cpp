#include "model/ops.hpp"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <optional>
#include <tuple>

#include "model/cuda_norm.hpp"
#include "model/cuda_ops.hpp"
#include "model/gradient_places.hpp"

namespace rekindle::model::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

constexpr std::array<std::int64_t, 2> kOne = {1, 1}, kNone = {0, 0};

class ConvFunction : public torch::autograd::Function<ConvFunction> {
 public:
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& weight,
                          const std::optional<at::Tensor>& bias, std::int64_t stride, std::int64_t padding) {
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.has_value();
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding;
    const std::array<std::int64_t, 2> strides = {stride, stride}, paddings = {padding, padding};
    return at::convolution(x, weight, bias, strides, paddings, kOne, false, kNone, 1);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Variable &x = saved[0], &weight = saved[1], &dy = gradients[0];
    const bool bias = context->saved_data["bias"].toBool(), dx = context->needs_input_grad(0);
    const std::int64_t stride = context->saved_data["stride"].toInt(),
                       padding = context->saved_data["padding"].toInt();
    const auto compute = [&](const Variable& to, const Variable& from, std::array<bool, 3> wanted) {
      const std::array<std::int64_t, 2> strides = {stride, stride}, paddings = {padding, padding};
      const std::array<std::int64_t, 1> channels = {weight.size(0)};
      const auto bias_sizes = bias ? at::OptionalIntArrayRef(channels) : at::OptionalIntArrayRef();
      return at::convolution_backward(to, from, weight, bias_sizes, strides, paddings, kOne, false, kNone, 1,
                                      wanted);
    };
    // oneDNN finds the gradient of a large weight a third faster from NCHW activations; where they are fewer
    // than the weights, copying them pays (measured: VGG11's 512-channel layers, 4 images). cuDNN does not.
    if (!x.is_cpu() || x.numel() > weight.numel()) {
      auto [x_gradient, weight_gradient, bias_gradient] = compute(dy, x, {dx, true, bias});
      return {x_gradient, weight_gradient, bias_gradient, {}, {}};
    }
    Variable x_gradient = dx ? std::get<0>(compute(dy, x, {true, false, false})) : Variable();
    auto rest = compute(dy.contiguous(), x.contiguous(), {false, true, bias});
    return {x_gradient, std::get<1>(rest), std::get<2>(rest), {}, {}};
  }
};

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& weight,
                          const std::optional<at::Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.has_value();
    return bias ? at::addmm(*bias, x, weight.t()) : at::mm(x, weight.t());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Variable &x = saved[0], &weight = saved[1], &dy = gradients[0];
    Variable weight_gradient = GradientPlaces::take_place(weight);
    if (weight_gradient.defined())
      at::mm_out(weight_gradient, dy.t(), x);
    else
      weight_gradient = at::mm(dy.t(), x);
    const Variable bias_gradient = context->saved_data["bias"].toBool() ? dy.sum(0) : Variable();
    return {context->needs_input_grad(0) ? at::mm(dy, weight) : Variable(), weight_gradient, bias_gradient};
  }
};

// Autocast casts what LibTorch's own operators save for the backward pass. A function of ours saves what it
// is given, so its operands are cast before.
at::Tensor operand(const at::Tensor& tensor) {
  if (!tensor.defined() || !at::autocast::is_autocast_enabled(tensor.device().type())) return tensor;
  const auto device = tensor.device().type();
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), tensor, device);
}

// Autograd takes no undefined tensors.
std::optional<at::Tensor> optional(const at::Tensor& bias) {
  return bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt;
}

}  // namespace

// The strides of images with one channel can mean both formats, and LibTorch takes the other one for them and
// for all that follows, unless that stride is 1.
at::Tensor channels_last(const at::Tensor& images) {
  const at::Tensor x = images.contiguous(at::MemoryFormat::ChannelsLast);
  if (!x.is_cpu() || x.size(1) != 1) return x;
  return x.as_strided(x.sizes(), {x.size(2) * x.size(3), 1, x.size(3), 1});
}

at::Tensor conv2d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, std::int64_t stride,
                  std::int64_t padding) {
  const at::Tensor in = operand(x);
  if (has_conv2d(in, weight, bias)) return cuda_conv2d(in, weight, stride, padding);
  return ConvFunction::apply(in, operand(weight), optional(operand(bias)), stride, padding);
}

at::Tensor conv_relu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                     std::int64_t stride, std::int64_t padding, bool pools) {
  const at::Tensor in = operand(x);
  if (has_conv_relu(in, weight, bias, stride, padding, pools))
    return cuda_conv_relu(in, weight, bias, stride, padding, pools);
  at::Tensor y = conv2d(x, weight, bias, stride, padding);
  if (pools) y = at::max_pool2d(y, {2, 2}, {2, 2});
  return at::relu_(y);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor rows = x.dim() == 2 ? x : x.reshape({-1, weight.size(1)});
  const at::Tensor in = operand(rows);
  const at::Tensor y = has_linear(in, weight, bias)
                           ? cuda_linear(in, weight, operand(weight), operand(bias))
                           : LinearFunction::apply(in, operand(weight), optional(operand(bias)));
  if (x.dim() == 2) return y;
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return y.view(sizes);
}

at::Tensor Conv2dImpl::forward(const at::Tensor& x) {
  const auto is_square = [](const torch::ExpandingArray<2>& sizes) {
    return sizes->front() == sizes->back();
  };
  const auto* const padding = std::get_if<torch::ExpandingArray<2>>(&options.padding());
  const bool is_plain = padding != nullptr && is_square(*padding) && is_square(options.stride()) &&
                        is_square(options.dilation()) && options.dilation()->front() == 1 &&
                        options.groups() == 1 &&
                        std::holds_alternative<torch::enumtype::kZeros>(options.padding_mode());
  if (!is_plain) return torch::nn::Conv2dImpl::forward(x);
  return conv2d(x, weight, bias, options.stride()->front(), (*padding)->front());
}

at::Tensor BatchNorm2dImpl::forward(const at::Tensor& x) {
  if (has_norm(x, *this, {})) return cuda_norm(x, *this, {}, false);
  return torch::nn::BatchNorm2dImpl::forward(x);
}

// In place: the backward pass of a batch normalization does not need its output.
at::Tensor BatchNorm2dImpl::with_relu(const at::Tensor& x, const at::Tensor& residual) {
  if (has_norm(x, *this, residual)) return cuda_norm(x, *this, residual, true);
  at::Tensor y = torch::nn::BatchNorm2dImpl::forward(x);
  if (residual.defined()) y = y.add_(residual);
  return y.relu_();
}

}  // namespace rekindle::model::ops
