// What surrounds the operators of a micro-batch: autocast's copies of the weights, and the look for an abort.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/container/any.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/abort.hpp"
#include "model/compute_device.hpp"
#include "model/models.hpp"
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

// Of the same micro-batch of a model; `each_operator`: the guard looks at each operator.
std::vector<at::Tensor> gradients_of(const std::string& name, const ModelOptions& options,
                                     bool each_operator) {
  const ModelRow& row = *find_model(name).value();
  const bool text = row.samples == data::SampleKind::kText;
  at::manual_seed(1);
  nn::AnyModule module = row.make(options);
  const at::Tensor inputs = text ? at::randint(options.vocabulary, {2, options.context}, at::kLong)
                                 : at::rand({2, options.channels, options.image_size, options.image_size});
  const at::Tensor targets = at::randint(options.classes, {text ? 2 * options.context : 2}, at::kLong);
  const AbortGuard guard(kGoOn, each_operator);
  const at::Tensor outputs = module.forward<at::Tensor>(inputs).flatten(0, -2);
  torch::autograd::backward({at::cross_entropy_loss(outputs, targets)}, {});
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : module.ptr()->parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

TEST(AbortGuard, LookingAtEachOperator_ChangesNoBitOfAGradient) {
  choose_algorithms(MatrixProducts::kFloat32);
  const ModelOptions digits{.channels = 1, .image_size = 28}, photos{.image_size = 64},
      words{.layers = 2, .heads = 2, .width = 32, .context = 16, .vocabulary = 64};
  for (const auto& [name, options] : {std::pair("mnist-cnn", digits), {"resnet18", photos}, {"gpt", words}}) {
    const auto with = gradients_of(name, options, true), without = gradients_of(name, options, false);
    ASSERT_EQ(with.size(), without.size());
    ASSERT_GT(with.size(), 0U);
    for (std::size_t i = 0; i < with.size(); ++i) {
      ASSERT_TRUE(with[i].defined() && without[i].defined()) << name << " " << i;
      EXPECT_TRUE(with[i].equal(without[i])) << name << " " << i;
    }
  }
}

}  // namespace
}  // namespace rekindle::model
