// Internal to the module: where the gradients of a micro-batch go.
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <vector>

#include "base/result.hpp"

namespace rekindle::model {

// Autograd gives each parameter's gradient to a hook, which copies it to its place: one pass over it. An
// operator of model/ops.hpp does without the pass: it asks for the place (take_place) and computes there.
class GradientPlaces {
 public:
  // Installs the hooks. `parameters` are leaves whose storage does not change from now on.
  explicit GradientPlaces(const std::vector<at::Tensor>& parameters);
  GradientPlaces(const GradientPlaces&) = delete;
  GradientPlaces& operator=(const GradientPlaces&) = delete;

  // Before a forward pass: `places` are contiguous views of the gradient memory, one for each parameter.
  void begin(std::vector<at::Tensor> places);
  // Between the two. An error if a parameter has a gradient already.
  Status check_none() const;
  // While one lives, this thread makes the backward pass whose gradients go to the places. Not those that a
  // forward pass computes for itself.
  class Backward {
   public:
    explicit Backward(GradientPlaces& places);
    ~Backward();
    Backward(const Backward&) = delete;
    Backward& operator=(const Backward&) = delete;
  };
  // After it, also after a failed one: which parameters got a gradient. An error if one has a gradient that
  // was computed in another thread, where its place is not known.
  Result<std::vector<bool>> end();

  // A view of the place of this parameter's gradient, to compute it there and return it as the gradient.
  // Undefined if there is none, or if the place is in use (the parameter is used twice: autograd adds the
  // two).
  static at::Tensor take_place(const at::Tensor& parameter);
  // The same, and memory of its own if there is no place.
  static at::Tensor place_or_memory(const at::Tensor& parameter);

 private:
  at::Tensor receive(std::size_t parameter, const at::Tensor& gradient);
  void copy_late();

  const std::vector<at::Tensor> parameters_;
  std::unordered_map<const void*, std::size_t> index_;  // by the address of the parameter's values
  std::vector<at::Tensor> places_;
  std::vector<bool> taken_, received_;
  std::vector<at::Tensor> late_places_, late_;  // gradients that are copied together, later
};

}  // namespace rekindle::model
