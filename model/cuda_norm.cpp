#include "model/cuda_norm.hpp"

#ifdef REKINDLE_CUDA
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "device/cuda_norm.hpp"
#include "model/cuda_call.hpp"
#include "model/gradient_places.hpp"

namespace rekindle::model::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

device::NormShape shape_of(const at::Tensor& x) {
  return {number_of(x.scalar_type()), static_cast<std::size_t>(x.size(0) * x.size(2) * x.size(3)),
          static_cast<int>(x.size(1))};
}

at::Tensor work_for(const device::NormShape& shape, const at::Tensor& like) {
  const auto floats = static_cast<std::int64_t>(device::norm_work_bytes(shape) / sizeof(float));
  return at::empty({floats}, like.options());
}

float* floats(const at::Tensor& tensor) { return tensor.mutable_data_ptr<float>(); }

class NormFunction : public torch::autograd::Function<NormFunction> {
 public:
  static Variable forward(AutogradContext* context, const Variable& x,
                          const std::optional<at::Tensor>& residual, const Variable& weight,
                          const Variable& bias, torch::nn::BatchNorm2dImpl* norm, bool relu) {
    const device::NormShape shape = shape_of(x);
    const at::Tensor y = at::empty_like(x), mean = at::empty_like(weight), scale = at::empty_like(weight),
                     deviation = at::empty_like(weight), work = work_for(shape, weight);
    device::NormForward call{.x = x.const_data_ptr(), .y = y.mutable_data_ptr()};
    if (residual) call.residual = residual->const_data_ptr();
    call.weight = floats(weight), call.bias = floats(bias);
    call.mean = floats(mean), call.scale = floats(scale), call.deviation = floats(deviation);
    call.running_mean = floats(norm->running_mean), call.running_variance = floats(norm->running_var);
    call.count = norm->num_batches_tracked.mutable_data_ptr<std::int64_t>();
    call.epsilon = norm->options.eps(), call.momentum = *norm->options.momentum(), call.relu = relu;
    check(device::norm_forward(shape, call, floats(work), stream()));
    context->saved_data["relu"] = relu;
    context->saved_data["residual"] = residual.has_value();
    variable_list saved = {x, weight, bias, mean, scale, deviation};
    if (relu && residual) saved.push_back(y);
    context->save_for_backward(std::move(saved));
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Variable &x = saved[0], dout = gradients[0].contiguous(kLast);
    const bool residual = context->saved_data["residual"].toBool();
    const device::NormShape shape = shape_of(x);
    const at::Tensor dx = at::empty_like(x), dresidual = residual ? at::empty_like(x) : at::Tensor(),
                     dweight = GradientPlaces::place_or_memory(saved[1]),
                     dbias = GradientPlaces::place_or_memory(saved[2]), work = work_for(shape, saved[1]);
    device::NormBackward call{.x = x.const_data_ptr(), .dout = dout.const_data_ptr()};
    if (saved.size() > 6) call.y = saved[6].const_data_ptr();
    call.dx = dx.mutable_data_ptr();
    if (residual) call.dresidual = dresidual.mutable_data_ptr();
    call.bias = floats(saved[2]), call.mean = floats(saved[3]), call.scale = floats(saved[4]);
    call.deviation = floats(saved[5]), call.dweight = floats(dweight), call.dbias = floats(dbias);
    call.relu = context->saved_data["relu"].toBool();
    check(device::norm_backward(shape, call, floats(work), stream()));
    return {dx, dresidual, dweight, dbias, {}, {}};
  }
};

bool is_floats(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cuda() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

}  // namespace

bool has_norm(const at::Tensor& x, const torch::nn::BatchNorm2dImpl& norm, const at::Tensor& residual) {
  const at::ScalarType type = x.scalar_type();
  if (!x.is_cuda() || !norm.is_training() || !norm.options.momentum() || x.dim() != 4) return false;
  if (!norm.num_batches_tracked.defined()) return false;
  if (!is_floats(norm.weight) || !is_floats(norm.bias) || !is_floats(norm.running_mean) ||
      !is_floats(norm.running_var))
    return false;
  if ((type != at::kFloat && type != at::kBFloat16) || !x.is_contiguous(kLast)) return false;
  if (x.numel() == x.size(1)) return false;  // one value for each channel: LibTorch refuses it
  if (residual.defined() &&
      (residual.scalar_type() != type || residual.sizes() != x.sizes() || !residual.is_contiguous(kLast)))
    return false;
  return device::suits(shape_of(x));
}

at::Tensor cuda_norm(const at::Tensor& x, torch::nn::BatchNorm2dImpl& norm, const at::Tensor& residual,
                     bool relu) {
  const auto more = residual.defined() ? std::optional<at::Tensor>(residual) : std::nullopt;
  return NormFunction::apply(x, more, norm.weight, norm.bias, &norm, relu);
}

}  // namespace rekindle::model::ops

#else

namespace rekindle::model::ops {

bool has_norm(const at::Tensor&, const torch::nn::BatchNorm2dImpl&, const at::Tensor&) { return false; }
at::Tensor cuda_norm(const at::Tensor&, torch::nn::BatchNorm2dImpl&, const at::Tensor&, bool) { return {}; }

}  // namespace rekindle::model::ops

#endif
