// What surrounds the operators of a micro-batch: autocast's copies of the weights.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>

#include "probe.hpp"

namespace rekindle::model {
namespace {

struct InBfloat16 {
  InBfloat16() { EXPECT_TRUE(module->bind(layout, values)); }
  double loss() const {
    const auto result = module->train(kBatch, 7, gradient, kGoOn);
    EXPECT_TRUE(result) << result.error().line();
    return result ? result->loss : NAN;
  }
  // Writes other weights into the memory of the values, as an update does.
  void update() const {
    const trainer::TensorPlace& weight = layout.tensors()[0];
    float* const elements = values.data_ptr<float>() + weight.offset;
    for (std::size_t i = 0; i < weight.floats; ++i) elements[i] = 0.25F * static_cast<float>(i);
  }

  const std::unique_ptr<TrainingModule> module =
      std::move(TrainingModule::make(kProbe, {}, {.bf16 = true}, 1, at::kCPU).value());
  const trainer::StateLayout layout = trainer::StateLayout(module->tensors());
  const at::Tensor values = at::zeros({static_cast<std::int64_t>(layout.floats())});
  const at::Tensor gradient = at::zeros_like(values);
};

// Autocast keeps a bfloat16 copy of each weight.
TEST(MicroBatch, InBfloat16AfterAnUpdate_TheNewWeightsCompute) {
  build_of = linear;
  forward_of = use_linear;
  const InBfloat16 module, fresh;
  const double before = module.loss();
  module.update();
  fresh.update();
  const double after = module.loss();
  EXPECT_NE(after, before);
  EXPECT_EQ(after, fresh.loss());
}

}  // namespace
}  // namespace rekindle::model
