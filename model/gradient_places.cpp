#include "model/gradient_places.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "model/abort.hpp"

namespace rekindle::model {
namespace {

// Of the backward pass that this thread makes.
thread_local GradientPlaces* current = nullptr;

// A hook that was registered after ours reads the place at once.
bool has_other_hooks(const at::Tensor& parameter) {
  const auto* const meta = torch::autograd::impl::get_autograd_meta(parameter);
  return meta != nullptr && meta->cpp_hooks_list_ != nullptr && meta->cpp_hooks_list_->size() > 1;
}

}  // namespace

GradientPlaces::GradientPlaces(const std::vector<at::Tensor>& parameters) : parameters_(parameters) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].requires_grad()) continue;
    index_[parameters_[i].const_data_ptr()] = i;
    parameters_[i].register_hook([this, i](const at::Tensor& gradient) { return receive(i, gradient); });
  }
}

void GradientPlaces::begin(std::vector<at::Tensor> places) {
  places_ = std::move(places);
  taken_.assign(parameters_.size(), false);
  received_.assign(parameters_.size(), false);
}

Status GradientPlaces::check_none() const {
  if (std::ranges::none_of(parameters_, [](const at::Tensor& each) { return each.grad().defined(); }))
    return {};
  return fail(ExitCode::kConfig, "the model calls backward() in its forward pass",
              "use torch::autograd::grad there");
}

GradientPlaces::Backward::Backward(GradientPlaces& places) { current = &places; }
GradientPlaces::Backward::~Backward() { current = nullptr; }

Result<std::vector<bool>> GradientPlaces::end() {
  copy_late();
  bool elsewhere = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const bool trains = index_.contains(parameters_[i].const_data_ptr());
    const at::Tensor& gradient = parameters_[i].grad();
    // A hook that was registered later has returned another tensor.
    if (received_[i] && gradient.defined() && gradient.const_data_ptr() != places_[i].const_data_ptr()) {
      const at::NoGradGuard no_grad;
      places_[i].copy_(gradient);
    }
    elsewhere = elsewhere || (trains && parameters_[i].grad().defined() && !received_[i]);
    parameters_[i].mutable_grad().reset();
  }
  places_.clear();
  if (elsewhere)
    return fail(ExitCode::kConfig, "the model computes gradients of its parameters in another thread",
                "call backward functions in the thread that calls forward()");
  return std::exchange(received_, {});
}

void GradientPlaces::copy_late() {
  if (late_.empty()) return;
  const at::NoGradGuard no_grad;
  const auto to = std::exchange(late_places_, {}), from = std::exchange(late_, {});
  at::_foreach_copy_(to, from);
}

at::Tensor GradientPlaces::take_place(const at::Tensor& parameter) {
  if (current == nullptr) return {};
  const auto found = current->index_.find(parameter.const_data_ptr());
  if (found == current->index_.end()) return {};
  if (current->taken_[found->second] || current->received_[found->second]) return {};
  // Not of a part of the parameter or its transpose, whose memory begins at the same address.
  const at::Tensor& whole = current->parameters_[found->second];
  if (parameter.sizes() != whole.sizes() || parameter.strides() != whole.strides()) return {};
  current->taken_[found->second] = true;
  return current->places_[found->second].alias();
}

at::Tensor GradientPlaces::place_or_memory(const at::Tensor& parameter) {
  const at::Tensor place = take_place(parameter);
  return place.defined() ? place : at::empty_like(parameter);
}

// Autograd keeps what this returns as the parameter's gradient. It would copy a tensor that has another owner
// or another layout than the parameter, so it gets a fresh view of the place.
at::Tensor GradientPlaces::receive(std::size_t parameter, const at::Tensor& gradient) {
  if (current != this) return gradient;
  throw_if_aborted();
  if (!gradient.defined()) return gradient;  // the parameter has none, as if it were not used
  if (gradient.layout() != at::kStrided)
    throw std::invalid_argument("the gradient of a parameter is sparse: leave out sparse(true)");
  if (received_[parameter]) {  // by a backward pass within this one: autograd adds to the gradient, in its
                               // place
    copy_late();
    return gradient;
  }
  const at::Tensor& place = places_[parameter];
  const bool computed_there = gradient.const_data_ptr() == place.const_data_ptr() && gradient.is_contiguous();
  received_[parameter] = true;
  if (!computed_there && gradient.is_cuda() && gradient.strides() == place.strides() &&
      gradient.scalar_type() == place.scalar_type() &&
      !has_other_hooks(parameters_[parameter])) {  // one kernel for all of them
    late_places_.push_back(place);
    late_.push_back(gradient);
  } else if (!computed_there) {
    place.copy_(gradient);
  }
  return place.alias();
}

}  // namespace rekindle::model
