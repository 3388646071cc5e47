#include "model/layers.hpp"

#include <gtest/gtest.h>

namespace rekindle::model {
namespace {

at::Tensor random_tensor(at::IntArrayRef shape, std::uint64_t seed) {
  Rng rng(seed);
  at::Tensor tensor = at::empty(shape, at::kFloat);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.data_ptr<float>()[i] = rng.unit() * 2 - 1;
  return tensor;
}

at::Tensor backward(const Layer& layer, const at::Tensor& x, const at::Tensor& dy) {
  Saved saved;
  Rng rng(1);
  layer.forward(x.clone(), &saved, rng);
  return layer.backward(dy.clone(), saved, {});
}

TEST(AdaptiveAverage, MeetsLibTorchForImagesLargerAndSmallerThanTheOutput) {
  const auto layer = adaptive_average(7);
  Rng rng(1);
  for (const std::int64_t side : {1, 2, 5, 7, 8, 14}) {
    const at::Tensor x = random_tensor({2, 3, side, side + 1}, 1), dy = random_tensor({2, 3, 7, 7}, 2);
    EXPECT_TRUE(layer->forward(x, nullptr, rng).allclose(at::adaptive_avg_pool2d(x, {7, 7}), 1e-5, 1e-6))
        << side;
    EXPECT_TRUE(backward(*layer, x, dy).allclose(at::_adaptive_avg_pool2d_backward(dy, x), 1e-5, 1e-6))
        << side;
  }
}

// vgg11's pools come before their ReLUs; torchvision's after.
TEST(MaxPool2, BeforeReluHasTheBitsOfAfterRelu) {
  const auto pool = max_pool2(), rectify = relu();
  const at::Tensor x = random_tensor({2, 16, 14, 14}, 1), dy = random_tensor({2, 16, 7, 7}, 2);
  Rng rng(1);
  Saved of_pool, of_relu, pool_after, relu_before;
  const at::Tensor y = rectify->forward(pool->forward(x.clone(), &of_pool, rng), &of_relu, rng);
  const at::Tensor torchvision =
      pool->forward(rectify->forward(x.clone(), &relu_before, rng), &pool_after, rng);
  EXPECT_TRUE(y.equal(torchvision));
  const at::Tensor dx = pool->backward(rectify->backward(dy.clone(), of_relu, {}), of_pool, {});
  EXPECT_TRUE(dx.equal(rectify->backward(pool->backward(dy.clone(), pool_after, {}), relu_before, {})));
}

TEST(Dropout, KeepsTheMeanAndDropsTheAskedShare) {
  const at::Tensor ones = at::ones({100, 1000});
  Saved saved;
  Rng rng(1);
  const at::Tensor y = dropout(0.25)->forward(ones, &saved, rng);
  EXPECT_NEAR(y.eq(0).to(at::kFloat).mean().item<float>(), 0.25, 0.01);
  EXPECT_NEAR(y.mean().item<float>(), 1, 0.01);
  EXPECT_TRUE(dropout(0.25)->forward(ones, nullptr, rng).equal(ones));
}

// A large weight's gradient takes another way than a small one's (Conv3x3::backward).
TEST(Conv3x3, GradientsMeetTheFirstOrderChange) {
  for (const std::int64_t channels : {4, 64}) {
    const LayerParameters parameters{random_tensor({channels, channels, 3, 3}, 1),
                                     random_tensor({channels}, 2), 0};
    const at::Tensor x = random_tensor({2, channels, 12, 12}, 3).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor dy = random_tensor({2, channels, 12, 12}, 4).contiguous(at::MemoryFormat::ChannelsLast);
    const std::vector<at::Tensor> gradients = {at::empty_like(parameters.weight),
                                               at::empty_like(parameters.bias)};
    const auto layer = conv3x3(parameters, 1, false);
    Saved saved;
    Rng rng(1);
    layer->forward(x, &saved, rng);
    const at::Tensor dx = layer->backward(dy, saved, gradients);
    // The layer is linear in each: <gradient, direction> = <dy, change of the output in that direction>.
    const auto change = [&](const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
      return (at::conv2d(input, weight, bias, 1, 1) * dy).to(at::kDouble).sum().item<double>();
    };
    const auto product = [](const at::Tensor& a, const at::Tensor& b) {
      return (a * b).to(at::kDouble).sum().item<double>();
    };
    const at::Tensor v = random_tensor(parameters.weight.sizes(), 5), b = random_tensor({channels}, 6);
    const at::Tensor u = random_tensor(x.sizes(), 7), no_bias = at::zeros({channels});
    const double scale = 1e-4 * static_cast<double>(dy.numel());
    EXPECT_NEAR(product(gradients[0], v), change(x, v, no_bias), scale);
    EXPECT_NEAR(product(gradients[1], b), change(at::zeros_like(x), v, b), scale);
    EXPECT_NEAR(product(dx, u), change(u, parameters.weight, no_bias), scale);
  }
}

}  // namespace
}  // namespace rekindle::model
