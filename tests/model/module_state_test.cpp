// Which tensors of a torch::nn::Module a training has, and who may change them.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "model/ops.hpp"
#include "model/training_module.hpp"
#include "probe.hpp"
#include "trainer/buffer_proof.hpp"

namespace rekindle::model {
namespace {

using testing::HasSubstr;

std::vector<std::string> names_of(const TrainingModule& module) {
  std::vector<std::string> names;
  for (const checkpoint::TensorSpec& tensor : module.tensors()) names.push_back(tensor.name);
  return names;
}

TEST(ModuleState, ATensorUnderTwoNamesIsOneTensor_AndBothNamesAreKnown) {
  build_of = [](nn::Module& module) {
    linear(module);
    const auto head = std::make_shared<nn::Module>();
    head->register_parameter("weight", module.named_parameters()["fc.weight"]);
    module.register_module("head", head);
  };
  forward_of = use_linear;
  const auto module = std::move(make().value());
  EXPECT_THAT(names_of(*module), testing::ElementsAre("fc.weight", "fc.bias"));
  ASSERT_EQ(module->other_names().size(), 1U);
  EXPECT_EQ(module->other_names()[0].name, "head.weight");
  EXPECT_EQ(module->other_names()[0].of, "fc.weight");
  EXPECT_TRUE(train(*module).loss);
}

TEST(ModuleState, TensorsThatShareAllMemoryAreNamed) {
  EXPECT_THAT(refusal([](nn::Module& module) {
                const at::Tensor one = at::ones({6});
                module.register_parameter("a", one);
                module.register_parameter("b", one.view({2, 3}));
              }),
              HasSubstr("tensors a and b share memory"));
}

TEST(ModuleState, AFrozenParameterGetsNoGradient_AndStaysFrozen) {
  build_of = [](nn::Module& module) {
    linear(module);
    module.named_parameters()["fc.weight"].set_requires_grad(false);
  };
  forward_of = use_linear;
  const auto module = std::move(make().value());
  const Trained frozen = train(*module);
  ASSERT_TRUE(frozen.loss) << frozen.loss.error().line();
  EXPECT_EQ(frozen.gradient[0].item<float>(), 0);  // the header: no gradient, so no update and no decay
  EXPECT_EQ(frozen.gradient[1].item<float>(), 1);
  EXPECT_EQ(frozen.of(0).abs().sum().item<float>(), 0);
  // Also for the operators that write a gradient in its place.
  forward_of = [](nn::Module& each, const at::Tensor& x) {
    const auto parameters = each.named_parameters();
    return ops::linear(x.flatten(1), parameters["fc.weight"], parameters["fc.bias"]);
  };
  const Trained by_ops = train(*module, kGoOn, false);
  ASSERT_TRUE(by_ops.loss) << by_ops.loss.error().line();
  EXPECT_EQ(by_ops.of(0).abs().sum().item<float>(), 0);
  EXPECT_TRUE(by_ops.of(1).equal(frozen.of(1)));

  forward_of = [](nn::Module& each, const at::Tensor& x) {
    each.named_parameters()["fc.weight"].set_requires_grad(true);
    return use_linear(each, x);
  };
  EXPECT_TRUE(train(*module, kGoOn, false).loss);
  const Trained unfrozen = train(*module, kGoOn, false);
  ASSERT_FALSE(unfrozen.loss);
  EXPECT_EQ(unfrozen.loss.error().code, ExitCode::kConfig);
  EXPECT_THAT(unfrozen.loss.error().what, HasSubstr("froze or unfroze fc.weight"));
}

// LibTorch changes the weight of such an embedding in its forward pass, and only the rows that it looks up.
TEST(ModuleState, AForwardPassThatChangesAParameterIsRefused) {
  build_of = [](nn::Module& module) {
    linear(module);
    module.register_module("table", nn::Embedding(nn::EmbeddingOptions(5, 4).max_norm(0.1)));
  };
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    auto& table = dynamic_cast<nn::EmbeddingImpl&>(*module.named_children()["table"]);
    return use_linear(module, x + table.forward(at::arange(4)).view_as(x));
  };
  const auto embedding = std::move(make().value());
  const Trained renormed = train(*embedding);
  ASSERT_FALSE(renormed.loss);
  EXPECT_EQ(renormed.loss.error().code, ExitCode::kConfig);
  EXPECT_THAT(renormed.loss.error().what, HasSubstr("changes its parameter table.weight"));

  build_of = linear;
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    const at::NoGradGuard no_grad;
    module.named_parameters()["fc.bias"].clamp_(-1, 1);
    const at::AutoGradMode grad(module.is_training());
    return use_linear(module, x);
  };
  const auto clamped = std::move(make().value());
  const Trained changed = train(*clamped);
  ASSERT_FALSE(changed.loss);
  EXPECT_THAT(changed.loss.error().what, HasSubstr("changes its parameter fc.bias"));
  const auto values = at::zeros({static_cast<std::int64_t>(changed.layout.floats())});
  const auto evaluated = clamped->evaluate(kBatch, 1, values, kGoOn);
  ASSERT_FALSE(evaluated);
  EXPECT_THAT(evaluated.error().what, HasSubstr("changes its parameter fc.bias"));
}

TEST(ModuleState, ABufferOfBoolsIsStoredAsBytes) {
  build_of = [](nn::Module& module) {
    linear(module);
    module.register_buffer("mask", at::ones({4}, at::kBool));
  };
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    at::Tensor mask = module.named_buffers()["mask"];
    at::Tensor y = use_linear(module, x * mask.view({1, 1, 2, 2}));
    mask[1] = false;
    return y;
  };
  const auto module = std::move(make().value());
  const Trained first = train(*module), again = train(*module, kGoOn, false);
  ASSERT_TRUE(first.loss) << first.loss.error().line();
  EXPECT_EQ(module->tensors().back().dtype, checkpoint::Dtype::kUint8);
  EXPECT_TRUE(again.gradient.equal(first.gradient)) << "it did not begin with the mask of its step";
  EXPECT_TRUE(module->buffer_bytes(2).equal(at::tensor({1, 0, 1, 1}, at::kByte)));
}

// Whether two micro-batches made the same value of a buffer that is not float32, as their sum shows it.
bool agree(const Trained& a, const Trained& b, std::size_t tensor) {
  std::array<float, trainer::kProofFloats> sum{};
  for (const Trained* each : {&a, &b}) {
    const float* const proof = each->gradient.const_data_ptr<float>() + each->layout.tensors()[tensor].offset;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += proof[i];
  }
  return trainer::all_agree(sum, 2);
}

TEST(ModuleState, ABufferOfAnotherFloatingType_MayChangeWhereAllMicroBatchesAgree) {
  double of_sample = 0;
  build_of = [](nn::Module& module) {
    linear(module);
    module.register_buffer("temperature", at::ones({1}, at::kDouble));
    module.register_buffer("scale", at::ones({2}, at::kHalf));
  };
  forward_of = [&](nn::Module& module, const at::Tensor& x) {
    at::Tensor temperature = module.named_buffers()["temperature"], scale = module.named_buffers()["scale"];
    temperature.mul_(0.5).add_(of_sample);
    scale.mul_(0.25);
    return use_linear(module, x);
  };
  const auto module = std::move(make().value());
  const Trained first = train(*module), same = train(*module, kGoOn, false);
  ASSERT_TRUE(first.loss) << first.loss.error().line();
  ASSERT_TRUE(same.loss) << same.loss.error().line();
  EXPECT_EQ(module->tensors()[2].dtype, checkpoint::Dtype::kFloat64);
  EXPECT_EQ(module->tensors()[3].dtype, checkpoint::Dtype::kFloat16);
  EXPECT_TRUE(module->buffer_bytes(2).view(at::kDouble).equal(at::full({1}, 0.5, at::kDouble)));
  EXPECT_TRUE(module->buffer_bytes(3).view(at::kHalf).equal(at::full({2}, 0.25, at::kHalf)));
  for (const std::size_t buffer : {2, 3}) {
    EXPECT_EQ(first.gradient[static_cast<std::int64_t>(buffer)].item<float>(), 1) << "changed";
    EXPECT_TRUE(agree(first, same, buffer));
  }
  of_sample = 1;
  const Trained other = train(*module, kGoOn, false);
  ASSERT_TRUE(other.loss) << other.loss.error().line();
  EXPECT_FALSE(agree(first, other, 2));
  EXPECT_TRUE(agree(first, other, 3));
}

// The registered tensor would keep its first value, in every checkpoint.
TEST(ModuleState, AFieldThatGetsAnotherTensorThanItsBufferIsRefused) {
  at::Tensor running;
  build_of = [&](nn::Module& module) {
    linear(module);
    running = module.register_buffer("running", at::zeros({4}));
  };
  forward_of = [&](nn::Module& module, const at::Tensor& x) {
    if (module.is_training()) running.mul_(0.9).add_(x.mean(0).flatten(), 0.1);
    return use_linear(module, x - running.view({1, 1, 2, 2}));
  };
  const auto in_place = std::move(make().value());
  for (const bool bind : {true, false, false}) EXPECT_TRUE(train(*in_place, kGoOn, bind).loss);

  forward_of = [&](nn::Module& module, const at::Tensor& x) {
    if (module.is_training()) running = running * 0.9 + x.mean(0).flatten() * 0.1;
    return use_linear(module, x - running.view({1, 1, 2, 2}));
  };
  const auto replaced = std::move(make().value());
  const Trained first = train(*replaced);
  ASSERT_FALSE(first.loss);
  EXPECT_EQ(first.loss.error().code, ExitCode::kConfig);
  EXPECT_THAT(first.loss.error().what, HasSubstr("another tensor in the place of its buffer running"));
}

TEST(ModuleState, ABufferThatChangesItsShapeIsRefused) {
  build_of = [](nn::Module& module) {
    linear(module);
    module.register_buffer("seen", at::zeros({1}, at::kLong));
  };
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    module.named_buffers()["seen"].resize_({2}).fill_(1);
    return use_linear(module, x);
  };
  const auto module = std::move(make().value());
  const Trained first = train(*module);
  ASSERT_FALSE(first.loss);
  EXPECT_THAT(first.loss.error().what, HasSubstr("buffer seen became Long of shape [2]"));
}

TEST(ModuleState, RandomNumbersOfAnEvaluationFollowItsKey) {
  build_of = linear;
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    return use_linear(module, x) + at::rand({4, 3});
  };
  const auto module = std::move(make().value());
  const at::Tensor values = at::zeros({static_cast<std::int64_t>(train(*module).layout.floats())});
  const double first = module->evaluate(kBatch, 5, values, kGoOn)->sums.loss.sum;
  std::ignore = at::rand({3});
  EXPECT_EQ(module->evaluate(kBatch, 5, values, kGoOn)->sums.loss.sum, first);
  EXPECT_NE(module->evaluate(kBatch, 6, values, kGoOn)->sums.loss.sum, first);
}

TEST(ModuleState, AViewOfAParameterThatTheModelKeeps_IsRefused) {
  at::Tensor kept;
  EXPECT_EQ(
      refusal([&kept](nn::Module& m) {
        kept = m.register_parameter("w", at::ones({2, 3})).t();
      }),
      "the model keeps a view of w, such as a transpose: make the view in forward(): this one would keep the "
      "initial values");
  EXPECT_EQ(refusal([&kept](nn::Module& m) { kept = m.register_parameter("w", at::ones({2, 3})); }), "");
  EXPECT_EQ(refusal([](nn::Module& m) {
              const at::Tensor all = at::ones({8});
              m.register_parameter("a", all.narrow(0, 0, 5));
              m.register_parameter("b", all.narrow(0, 5, 3));
            }),
            "");
}

}  // namespace
}  // namespace rekindle::model
