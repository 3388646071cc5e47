// Gradients of the project's own operators beside central differences, as torch.autograd.gradcheck does it:
// in float64, with its step and its tolerances.
#include "model/ops.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

namespace rekindle::model {
namespace {

using Tensors = std::vector<at::Tensor>;
using Function = std::function<at::Tensor(const Tensors&)>;

constexpr double kStep = 1e-6, kAbsolute = 1e-5, kRelative = 1e-3;

at::Tensor draw(at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); }

// The gradient of sum(projection * f(inputs)) with respect to input i, by central differences.
at::Tensor by_differences(const Function& f, Tensors inputs, std::size_t i, const at::Tensor& projection) {
  const at::NoGradGuard no_grad;
  at::Tensor moved = inputs[i].detach().contiguous().clone(), gradient = at::zeros_like(moved);
  inputs[i] = moved.as_strided(moved.sizes(), moved.strides());
  for (std::int64_t k = 0; k < moved.numel(); ++k) {
    const at::Tensor element = moved.view(-1)[k];
    const double value = element.item<double>();
    const auto at_value = [&](double x) {
      element.fill_(x);
      return (f(inputs) * projection).sum().item<double>();
    };
    const double above = at_value(value + kStep), below = at_value(value - kStep);
    element.fill_(value);
    gradient.view(-1)[k] = (above - below) / (2 * kStep);
  }
  return gradient;
}

void check_gradients(const Function& f, const Tensors& values) {
  Tensors inputs;
  for (const at::Tensor& value : values) inputs.push_back(value.detach().requires_grad_(true));
  const at::AutoGradMode grad(true);
  const at::Tensor output = f(inputs), projection = draw(output.sizes());
  const auto gradients = torch::autograd::grad({output}, inputs, {projection});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor expected = by_differences(f, values, i, projection);
    EXPECT_TRUE(at::allclose(gradients[i], expected, kRelative, kAbsolute))
        << "input " << i << " is wrong by " << (gradients[i] - expected).abs().max().item<double>();
  }
}

class OpsTest : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(1); }
};

TEST_F(OpsTest, Conv2d_GradientsAreThoseOfCentralDifferences) {
  // Both ways of the backward pass: more activations than weights, and fewer.
  for (const std::int64_t side : {3, 7}) {
    for (const std::int64_t stride : {1, 2}) {
      for (const std::int64_t padding : {0, 1}) {
        const Function f = [=](const Tensors& in) {
          return ops::conv2d(in[0], in[1], in[2], stride, padding);
        };
        const at::Tensor x = draw({2, 3, side, side}), weight = draw({4, 3, 3, 3}), bias = draw({4});
        SCOPED_TRACE(::testing::Message() << side << " " << stride << " " << padding);
        check_gradients(f, {x, weight, bias});
        check_gradients(f, {x.contiguous(at::MemoryFormat::ChannelsLast), weight, bias});
      }
    }
  }
}

TEST_F(OpsTest, Conv2dWithoutBias_GradientsAreThoseOfCentralDifferences) {
  check_gradients([](const Tensors& in) { return ops::conv2d(in[0], in[1], {}, 1, 0); },
                  {draw({2, 2, 4, 4}), draw({3, 2, 1, 1})});
}

TEST_F(OpsTest, Conv2dOfInputsWithoutGradient_TheOthersAreTheSame) {
  const at::Tensor x = draw({2, 2, 5, 5});
  check_gradients([&](const Tensors& in) { return ops::conv2d(x, in[0], in[1], 1, 1); },
                  {draw({3, 2, 3, 3}), draw({3})});
}

TEST_F(OpsTest, Linear_GradientsAreThoseOfCentralDifferences) {
  const Function with_bias = [](const Tensors& in) { return ops::linear(in[0], in[1], in[2]); };
  const Function without = [](const Tensors& in) { return ops::linear(in[0], in[1], {}); };
  check_gradients(with_bias, {draw({5, 4}), draw({3, 4}), draw({3})});
  check_gradients(with_bias, {draw({2, 3, 4}), draw({3, 4}), draw({3})});
  check_gradients(without, {draw({2, 3, 4}), draw({3, 4})});
}

TEST_F(OpsTest, Conv2dWithOtherOptions_IsLibTorchs) {
  using Options = torch::nn::Conv2dOptions;
  const at::Tensor x = at::randn({2, 4, 9, 8});
  for (const Options& options :
       {Options(4, 6, 3).dilation(2), Options(4, 6, 3).groups(2), Options(4, 6, 3).stride({1, 2}),
        Options(4, 6, {3, 1}).padding({1, 0}), Options(4, 6, 3).padding(torch::kSame),
        Options(4, 6, 3).padding(1).padding_mode(torch::kCircular), Options(4, 6, 3).padding(1).stride(2)}) {
    ops::Conv2d ours(options);
    torch::nn::Conv2d theirs(options);
    theirs->weight = ours->weight;
    theirs->bias = ours->bias;
    EXPECT_TRUE(at::allclose(ours->forward(x), theirs->forward(x), 1e-5, 1e-5));
  }
}

}  // namespace
}  // namespace rekindle::model
