// What the training task promises of any torch::nn::Module.
#include "model/training_module.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <functional>

#include "base/text.hpp"
#include "model/compute_device.hpp"
#include "model/metrics.hpp"
#include "model/ops.hpp"
#include "probe.hpp"

namespace rekindle::model {
namespace {

TEST(TrainingModule, GradientsAreAutogradsAndPaddingIsZero) {
  build_of = linear;
  forward_of = use_linear;
  const auto module = std::move(make().value());
  const Trained result = train(*module);
  ASSERT_TRUE(result.loss) << result.loss.error().line();
  EXPECT_FALSE(result.gradient.isnan().any().item<bool>());
  // The gradient of the mean loss in the bias is the mean of softmax - onehot, which sums to zero.
  EXPECT_NEAR(result.of(1).sum().item<double>(), 0, 1e-6);
  EXPECT_GT(result.of(0).abs().sum().item<double>(), 0.01);
  EXPECT_EQ(result.gradient[0].item<float>(), 1);
}

// A model may have more outputs than the data have classes.
TEST(TrainingModule, AnEvaluationMeasuresTheMetricsOfTheClasses_WhateverTheOutputs) {
  build_of = [](nn::Module& module) { module.register_module("fc", nn::Linear(4, 7)); };
  forward_of = use_linear;
  for (const int classes : {3, 5, 6, 7}) {
    const auto module =
        std::move(TrainingModule::make(kProbe, {}, {.classes = classes}, 1, at::kCPU).value());
    const trainer::StateLayout layout(module->tensors());
    const at::Tensor values = at::zeros({static_cast<std::int64_t>(layout.floats())});
    ASSERT_TRUE(module->bind(layout, values));
    const auto answers = module->evaluate(kBatch, 1, values, kGoOn);
    ASSERT_TRUE(answers) << answers.error().line();
    EXPECT_EQ(answers->sums.metrics.size(), metrics_of(data::SampleKind::kImages, classes).size());
  }
}

TEST(TrainingModule, AParameterThatIsUsedTwiceGetsTheSum_OneThatIsNotUsedGetsNoFlag) {
  build_of = [](nn::Module& module) {
    module.register_parameter("w", at::full({3, 4}, 0.1));
    module.register_parameter("unused", at::ones({5}));
  };
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    const at::Tensor w = module.named_parameters()["w"], flat = x.flatten(1);
    return ops::linear(flat, w, {}) + ops::linear(flat * 2, w, {});
  };
  const auto twice = std::move(make().value());
  const Trained both = train(*twice);
  ASSERT_TRUE(both.loss) << both.loss.error().line();
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    return at::linear(x.flatten(1) * 3, module.named_parameters()["w"]);
  };
  const auto once = std::move(make().value());
  const Trained single = train(*once);
  EXPECT_TRUE(at::allclose(both.of(0), single.of(0), 1e-5));
  EXPECT_EQ(both.gradient[0].item<float>(), 1);
  EXPECT_EQ(both.gradient[1].item<float>(), 0);
  EXPECT_EQ(both.of(1).abs().sum().item<float>(), 0);
}

// What a text classifier returns is [samples, classes], too.
TEST(TrainingModule, OutputOfAnotherShape_TheHintIsThatOfTheSamples) {
  build_of = linear;
  forward_of = use_linear;
  const auto error_of = [](data::SampleKind samples, const at::Tensor& targets, std::int64_t classes) {
    ModelRow row = kProbe;
    row.samples = samples;
    const auto module = std::move(TrainingModule::make(row, {}, {.classes = classes}, 1, at::kCPU).value());
    const at::Tensor values =
        at::zeros({static_cast<std::int64_t>(trainer::StateLayout(module->tensors()).floats())});
    EXPECT_TRUE(module->bind(trainer::StateLayout(module->tensors()), values));
    const auto answers = module->evaluate({kBatch.inputs, targets, kBatch.learned}, 1, values, kGoOn);
    return answers ? "" : answers.error().line();
  };
  using enum data::SampleKind;
  const at::Tensor each = at::zeros({8}, at::kLong), once = at::zeros({4}, at::kLong);
  EXPECT_EQ(error_of(kImages, each, 3),
            "the model's output has shape [4, 3] for 8 targets: it has to be [samples, classes]");
  EXPECT_EQ(error_of(kText, each, 3),
            "the model's output has shape [4, 3] for 8 targets: it has to be [samples, tokens, vocabulary]");
  EXPECT_EQ(
      error_of(kText, once, 5),
      "the model's output has shape [4, 3], and the data have 5 classes: it has to be [samples, tokens, "
      "vocabulary]: the model gets their number as ModelOptions::vocabulary");
}

// A transposed weight, and a part of it, begin at the weight's address.
TEST(TrainingModule, ViewsOfAParameterGetTheSameGradientByEitherOperator) {
  build_of = [](nn::Module& module) { module.register_parameter("w", at::arange(16).view({4, 4}) * 0.01); };
  const auto trained = [](const std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>& by) {
    forward_of = [by](nn::Module& module, const at::Tensor& x) {
      const at::Tensor w = module.named_parameters()["w"], flat = x.flatten(1) * at::arange(4);
      return by(by(flat, w.t()), w.narrow(0, 0, 3));
    };
    const auto module = std::move(make().value());
    Trained result = train(*module);
    EXPECT_TRUE(result.loss) << result.loss.error().line();
    return result;
  };
  const Trained ours =
      trained([](const at::Tensor& x, const at::Tensor& w) { return ops::linear(x, w, {}); });
  const Trained theirs = trained([](const at::Tensor& x, const at::Tensor& w) { return at::linear(x, w); });
  EXPECT_TRUE(at::allclose(ours.of(0), theirs.of(0), 1e-5, 1e-7));
  EXPECT_GT(theirs.of(0).abs().sum().item<double>(), 0);
}

TEST(TrainingModule, AnAbortEndsAModelsOwnCode_AndTheNextMicroBatchIsRight) {
  build_of = linear;
  forward_of = use_linear;
  const auto module = std::move(make().value());
  const Trained expected = train(*module);
  std::atomic<bool> aborted{false};
  forward_of = [&](nn::Module& each, const at::Tensor& x) -> at::Tensor {
    const at::Tensor y = use_linear(each, x);
    aborted = true;
    for (;;) std::ignore = y + 1;  // a model that never returns by itself
  };
  const Trained ended = train(*module, aborted, false);
  ASSERT_FALSE(ended.loss);
  EXPECT_EQ(ended.loss.error().kind, ErrorKind::kAborted);
  forward_of = use_linear;
  EXPECT_TRUE(train(*module, kGoOn, false).gradient.equal(expected.gradient));
}

// After sixty exceptions that autograd's engine does not know, it would compute on another thread, where no
// gradient finds its place.
TEST(TrainingModule, AHundredAbortsInBackwardPasses_LeaveTheNextMicroBatchRight) {
  build_of = linear;
  forward_of = use_linear;
  const auto module = std::move(make().value());
  const Trained expected = train(*module);
  EXPECT_GT(expected.gradient.abs().sum().item<double>(), 0);
  std::atomic<bool> aborted{false};
  forward_of = [&](nn::Module& each, const at::Tensor& x) {
    at::Tensor y = use_linear(each, x);
    y.register_hook([&](const at::Tensor& gradient) {
      aborted = true;
      return gradient + 1;
    });
    return y;
  };
  for (int i = 0; i < 100; ++i) {
    aborted = false;
    const Trained ended = train(*module, aborted, false);
    ASSERT_FALSE(ended.loss);
    ASSERT_EQ(ended.loss.error().kind, ErrorKind::kAborted);
  }
  forward_of = use_linear;
  EXPECT_TRUE(train(*module, kGoOn, false).gradient.equal(expected.gradient));
}

TEST(TrainingModule, RandomNumbersFollowTheKey) {
  build_of = linear;
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    return use_linear(module, at::dropout(x, 0.5, true) + at::rand(x.sizes()));
  };
  const auto module = std::move(make().value());
  const Trained first = train(*module);
  std::ignore = at::rand({17});
  EXPECT_TRUE(train(*module, kGoOn, false).gradient.equal(first.gradient));
}

TEST(TrainingModule, EachMicroBatchStartsFromTheBuffersOfItsStep) {
  build_of = [](nn::Module& module) {
    linear(module);
    module.register_module("norm", nn::BatchNorm1d(4));
  };
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    auto& norm = dynamic_cast<nn::BatchNorm1dImpl&>(*module.named_children()["norm"]);
    return use_linear(module, norm.forward(x.flatten(1) + at::rand({4, 4})));
  };
  const auto module = std::move(make().value());
  const Trained first = train(*module), again = train(*module, kGoOn, false);
  ASSERT_TRUE(first.loss) << first.loss.error().line();
  EXPECT_TRUE(again.gradient.equal(first.gradient));
  const std::size_t count = module->tensors().size() - 1;
  EXPECT_EQ(module->tensors()[count].name, "norm.num_batches_tracked");
  EXPECT_EQ(module->buffer_bytes(count).view(at::kLong).item<std::int64_t>(), 1);
}

// What the error about a batch norm that only some micro-batches call advises.
TEST(TrainingModule, BatchNormWithoutItsCounter_TrainsAndTheCounterStays) {
  build_of = [](nn::Module& module) {
    linear(module);
    nn::BatchNorm1d norm(4);
    norm->num_batches_tracked.reset();
    module.register_module("norm", norm);
  };
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    auto& norm = dynamic_cast<nn::BatchNorm1dImpl&>(*module.named_children()["norm"]);
    return use_linear(module, norm.forward(x.flatten(1) + at::rand({4, 4})));
  };
  const auto module = std::move(make().value());
  const Trained trained = train(*module);
  ASSERT_TRUE(trained.loss) << trained.loss.error().line();
  const std::size_t count = module->tensors().size() - 1;
  EXPECT_EQ(module->tensors()[count].name, "norm.num_batches_tracked");
  EXPECT_EQ(module->buffer_bytes(count).view(at::kLong).item<std::int64_t>(), 0);
}

TEST(TrainingModule, AfterAnEvaluation_TrainsInTrainingModeAgain) {
  build_of = [](nn::Module& module) {
    linear(module);
    module.register_module("norm", nn::BatchNorm1d(4));
  };
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    auto& norm = dynamic_cast<nn::BatchNorm1dImpl&>(*module.named_children()["norm"]);
    return use_linear(module, at::dropout(norm.forward(x.flatten(1) + 1), 0.5, module.is_training()));
  };
  const auto module = std::move(make().value());
  const Trained first = train(*module);
  ASSERT_TRUE(first.loss) << first.loss.error().line();
  const at::Tensor values = at::ones({static_cast<std::int64_t>(first.layout.floats())});
  ASSERT_TRUE(module->evaluate(kBatch, 1, values, kGoOn));
  EXPECT_TRUE(train(*module, kGoOn, false).gradient.equal(first.gradient));
}

TEST(TrainingModule, ModulesThatCannotBeTrainedAreRefused) {
  EXPECT_EQ(refusal([](nn::Module&) {}), "the model has no parameters: register them with register_module()");
  EXPECT_NE(refusal([](nn::Module& m) {
              m.register_parameter("w", at::ones({2}, at::kDouble));
            }).find("tensor w is of type Double: parameters have to be float32"),
            std::string::npos);
  EXPECT_NE(refusal([](nn::Module& m) {
              const at::Tensor all = at::ones({8});
              m.register_parameter("a", all.narrow(0, 0, 5));
              m.register_parameter("b", all.narrow(0, 3, 5));
            }).find("tensors a and b partly share memory"),
            std::string::npos);
  EXPECT_NE(refusal([](nn::Module& m) {
              m.register_parameter("w", at::ones({2, 3}).t());
            }).find("not contiguous"),
            std::string::npos);
}

TEST(TrainingModule, AModuleThatReplacesAParameterIsRefused) {
  build_of = linear;
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    module.named_children()["fc"]->as<nn::Linear>()->weight.set_data(at::ones({3, 4}));
    return use_linear(module, x);
  };
  const auto module = std::move(make().value());
  EXPECT_TRUE(train(*module).loss);
  const Trained second = train(*module, kGoOn, false);
  ASSERT_FALSE(second.loss);
  EXPECT_NE(second.loss.error().line().find("replaced or added a parameter"), std::string::npos);
}

TEST(TrainingModule, AnOperatorWithoutADeterministicVersionIsNamed) {
  choose_algorithms(MatrixProducts::kFloat32);
  build_of = linear;
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    const at::Tensor indices = at::zeros({2}, at::kLong);  // the result depends on which comes last
    return use_linear(module, x.put(indices, at::ones({2})));
  };
  const auto module = std::move(make().value());
  const Trained refused = train(*module);
  ASSERT_FALSE(refused.loss);
  EXPECT_EQ(refused.loss.error().code, ExitCode::kConfig);
  EXPECT_EQ(refused.loss.error().what, "the model uses an operator without a deterministic version: put_");
}

TEST(TrainingModule, WrongOutputsAndExceptionsAreErrors) {
  build_of = linear;
  forward_of = [](nn::Module& module, const at::Tensor& x) { return use_linear(module, x).sum(); };
  const auto module = std::move(make().value());
  const Trained scalar = train(*module);
  ASSERT_FALSE(scalar.loss);
  EXPECT_EQ(scalar.loss.error().code, ExitCode::kConfig);
  forward_of = use_linear;
  const auto narrow = std::move(TrainingModule::make(kProbe, {}, {.classes = 4}, 1, at::kCPU).value());
  EXPECT_EQ(train(*narrow).loss.error().what,
            "the model's output has shape [4, 3], and the data have 4 classes");
  forward_of = [](nn::Module&, const at::Tensor&) -> at::Tensor {
    throw std::runtime_error("the model's own");
  };
  const Trained thrown = train(*module, kGoOn, false);
  ASSERT_FALSE(thrown.loss);
  EXPECT_NE(thrown.loss.error().line().find("the model's own"), std::string::npos);
}

}  // namespace
}  // namespace rekindle::model
