// A TrainingModule of a test's own module, and one micro-batch of it.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "model/training_module.hpp"
#include "trainer/state_layout.hpp"

namespace rekindle::model {

namespace nn = torch::nn;
inline const std::atomic<bool> kGoOn{false};

// What a test's module does in forward().
inline thread_local std::function<at::Tensor(nn::Module&, const at::Tensor&)> forward_of;

struct Probe : nn::Module {
  explicit Probe(const std::function<void(nn::Module&)>& build) { build(*this); }
  at::Tensor forward(const at::Tensor& x) { return forward_of(*this, x); }
};

inline thread_local std::function<void(nn::Module&)> build_of;

inline const ModelRow kProbe = {
    "probe", "a test's module", data::SampleKind::kImages, [](const ModelOptions&) -> Status { return {}; },
    [](const ModelOptions&) { return nn::AnyModule(std::make_shared<Probe>(build_of)); }};

inline Result<std::unique_ptr<TrainingModule>> make() {
  return TrainingModule::make(kProbe, {}, {}, 1, at::kCPU);
}

inline std::string refusal(const std::function<void(nn::Module&)>& build) {
  build_of = build;
  const auto made = make();
  return made ? "" : made.error().line();
}

struct Trained {
  Result<trainer::MicroBatchResult> loss = trainer::MicroBatchResult{};
  at::Tensor gradient;
  trainer::StateLayout layout;
  at::Tensor of(std::size_t i) const {
    const trainer::TensorPlace& place = layout.tensors()[i];
    return gradient
        .narrow(0, static_cast<std::int64_t>(place.offset), static_cast<std::int64_t>(place.floats))
        .view(place.spec.shape);
  }
};

inline const TrainingBatch kBatch = {at::ones({4, 1, 2, 2}), at::tensor({0, 1, 2, 0}, at::kLong), 4};

inline Trained train(TrainingModule& module, const std::atomic<bool>& aborted = kGoOn, bool bind = true) {
  static thread_local at::Tensor values;
  Trained result;
  result.layout = trainer::StateLayout(module.tensors());
  const auto floats = static_cast<std::int64_t>(result.layout.floats());
  if (bind) {
    values = at::zeros({floats});
    EXPECT_TRUE(module.bind(result.layout, values));
  }
  result.gradient = at::full({floats}, NAN);
  result.loss = module.train(kBatch, 7, result.gradient, aborted);
  return result;
}

inline void linear(nn::Module& module) { module.register_module("fc", nn::Linear(4, 3)); }
inline at::Tensor use_linear(nn::Module& module, const at::Tensor& x) {
  const auto parameters = module.named_parameters();
  return at::linear(x.flatten(1), parameters["fc.weight"], parameters["fc.bias"]);
}

}  // namespace rekindle::model
