#include "model/cuda_ops.hpp"

#ifdef REKINDLE_CUDA
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>

#include "device/cuda_images.hpp"
#include "model/cuda_call.hpp"
#include "model/gradient_places.hpp"

namespace rekindle::model::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

constexpr std::array<std::int64_t, 2> kOne = {1, 1}, kNone = {0, 0};

device::ImageShape shape_of(at::ScalarType type, at::IntArrayRef sizes) {
  return {number_of(type), static_cast<std::size_t>(sizes[0]), static_cast<int>(sizes[2]),
          static_cast<int>(sizes[3]), static_cast<int>(sizes[1])};
}

std::int64_t side_after(std::int64_t side, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return (side + 2 * padding - kernel) / stride + 1;
}

std::array<std::int64_t, 2> both(std::int64_t number) { return {number, number}; }

// The parameter's values in the type and the order of channels in which cuDNN computes.
at::Tensor operand_of(const at::Tensor& weight, at::ScalarType type) {
  return weight.to(at::TensorOptions().dtype(type).memory_format(kLast));
}

// A gradient of the parameter, which may have another type and order: into its place at once.
at::Tensor in_its_place(const at::Tensor& weight, const at::Tensor& gradient) {
  const at::Tensor place = GradientPlaces::take_place(weight);
  if (!place.defined()) return gradient.to(weight.scalar_type());
  place.copy_(gradient);
  return place;
}

class ConvFunction : public torch::autograd::Function<ConvFunction> {
 public:
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& weight,
                          std::int64_t stride, std::int64_t padding) {
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding;
    const at::Tensor operand = operand_of(weight, x.scalar_type());
    context->save_for_backward({x, weight, operand});
    return at::convolution(x, operand, {}, both(stride), both(padding), kOne, false, kNone, 1);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const std::int64_t stride = context->saved_data["stride"].toInt(),
                       padding = context->saved_data["padding"].toInt();
    const auto [dx, dweight, none] = at::convolution_backward(
        gradients[0], saved[0], saved[2], at::OptionalIntArrayRef(), both(stride), both(padding), kOne, false,
        kNone, 1, {context->needs_input_grad(0), true, false});
    return {dx, in_its_place(saved[1], dweight), {}, {}};
  }
};

class ConvReluFunction : public torch::autograd::Function<ConvReluFunction> {
 public:
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& weight,
                          const Variable& bias, std::int64_t stride, std::int64_t padding, bool pools) {
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding;
    context->saved_data["pools"] = pools;
    const at::Tensor operand = operand_of(weight, x.scalar_type());
    const at::Tensor y =
        at::convolution(x, operand, {}, both(stride), both(padding), kOne, false, kNone, 1).contiguous(kLast);
    const device::ImageShape shape = shape_of(y.scalar_type(), y.sizes());
    context->saved_data["sizes"] = y.sizes().vec();
    if (!pools) {
      check(device::bias_relu(shape, y.mutable_data_ptr(), bias.const_data_ptr<float>(), ops::stream()));
      context->save_for_backward({x, weight, operand, y});
      return y;
    }
    const at::Tensor out =
        at::empty({y.size(0), y.size(1), y.size(2) / 2, y.size(3) / 2}, y.options().memory_format(kLast));
    const at::Tensor codes = at::empty({out.numel()}, y.options().dtype(at::kByte));
    check(device::bias_pool_relu(shape, y.const_data_ptr(), bias.const_data_ptr<float>(),
                                 out.mutable_data_ptr(), codes.mutable_data_ptr<std::uint8_t>(),
                                 ops::stream()));
    context->save_for_backward({x, weight, operand, codes});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Variable &x = saved[0], &operand = saved[2], dout = gradients[0].contiguous(kLast);
    const std::vector<std::int64_t> sizes = context->saved_data["sizes"].toIntVector();
    const device::ImageShape shape = shape_of(dout.scalar_type(), sizes);
    const auto floats = dout.options().dtype(at::kFloat);
    const at::Tensor dy = at::empty(sizes, dout.options().memory_format(kLast)),
                     dbias = at::empty({sizes[1]}, floats),
                     work = at::empty(
                         {static_cast<std::int64_t>(device::bias_work_bytes(shape) / sizeof(float))}, floats);
    auto *const to = dbias.mutable_data_ptr<float>(), *const memory = work.mutable_data_ptr<float>();
    check(context->saved_data["pools"].toBool()
              ? device::bias_pool_relu_backward(shape, saved[3].const_data_ptr<std::uint8_t>(),
                                                dout.const_data_ptr(), dy.mutable_data_ptr(), to, memory,
                                                ops::stream())
              : device::bias_relu_backward(shape, saved[3].const_data_ptr(), dout.const_data_ptr(),
                                           dy.mutable_data_ptr(), to, memory, ops::stream()));
    const std::int64_t stride = context->saved_data["stride"].toInt(),
                       padding = context->saved_data["padding"].toInt();
    const auto [dx, dweight, none] =
        at::convolution_backward(dy, x, operand, at::OptionalIntArrayRef(), both(stride), both(padding), kOne,
                                 false, kNone, 1, {context->needs_input_grad(0), true, false});
    return {dx, in_its_place(saved[1], dweight), dbias, {}, {}, {}};
  }
};

// `weight` is the parameter itself, `operand` what is computed with. In bfloat16, the product for the
// weight's gradient comes as float32, and in its place.
class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& weight,
                          const Variable& operand, const Variable& bias) {
    context->save_for_backward({x, weight, operand});
    return at::addmm(bias, x, operand.t());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Variable &x = saved[0], &weight = saved[1], &operand = saved[2], &dy = gradients[0];
    at::Tensor dweight = GradientPlaces::place_or_memory(weight);
    if (dy.scalar_type() == at::kFloat)
      at::mm_out(dweight, dy.t(), x);
    else
      at::mm_out(dweight, dy.t(), x, at::kFloat);
    return {context->needs_input_grad(0) ? at::mm(dy, operand) : Variable(), dweight, Variable(), dy.sum(0)};
  }
};

}  // namespace

bool has_conv_relu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, std::int64_t stride,
                   std::int64_t padding, bool pools) {
  const at::ScalarType type = x.scalar_type();
  if (!x.is_cuda() || !bias.defined() || bias.scalar_type() != at::kFloat ||
      weight.scalar_type() != at::kFloat || (type != at::kFloat && type != at::kBFloat16))
    return false;
  const std::array<std::int64_t, 4> sizes = {x.size(0), weight.size(0),
                                             side_after(x.size(2), weight.size(2), stride, padding),
                                             side_after(x.size(3), weight.size(3), stride, padding)};
  return device::suits(shape_of(type, sizes), pools);
}

at::Tensor cuda_conv_relu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          std::int64_t stride, std::int64_t padding, bool pools) {
  return ConvReluFunction::apply(x, weight, bias, stride, padding, pools);
}

bool has_conv2d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::ScalarType type = x.scalar_type();
  return x.is_cuda() && !bias.defined() && weight.scalar_type() == at::kFloat &&
         (type == at::kFloat || type == at::kBFloat16);
}

at::Tensor cuda_conv2d(const at::Tensor& x, const at::Tensor& weight, std::int64_t stride,
                       std::int64_t padding) {
  return ConvFunction::apply(x, weight, stride, padding);
}

bool has_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return x.is_cuda() && bias.defined() && weight.scalar_type() == at::kFloat &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

at::Tensor cuda_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& operand,
                       const at::Tensor& bias) {
  return LinearFunction::apply(x, weight, operand.detach(), bias);
}

}  // namespace rekindle::model::ops

#else

namespace rekindle::model::ops {

bool has_conv_relu(const at::Tensor&, const at::Tensor&, const at::Tensor&, std::int64_t, std::int64_t,
                   bool) {
  return false;
}
at::Tensor cuda_conv_relu(const at::Tensor&, const at::Tensor&, const at::Tensor&, std::int64_t, std::int64_t,
                          bool) {
  return {};
}
bool has_conv2d(const at::Tensor&, const at::Tensor&, const at::Tensor&) { return false; }
at::Tensor cuda_conv2d(const at::Tensor&, const at::Tensor&, std::int64_t, std::int64_t) { return {}; }
bool has_linear(const at::Tensor&, const at::Tensor&, const at::Tensor&) { return false; }
at::Tensor cuda_linear(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&) {
  return {};
}

}  // namespace rekindle::model::ops

#endif
