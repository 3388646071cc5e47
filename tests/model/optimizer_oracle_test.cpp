// The optimizers against LibTorch's own torch::optim, in float64 and in float32: our distance from float64 is
// at most twice that of torch's float32.
#include <gtest/gtest.h>
#include <torch/optim.h>

#include <functional>
#include <memory>
#include <vector>

#include "base/random.hpp"
#include "optim/optimizer.hpp"

namespace rekindle::model {
namespace {

constexpr std::int64_t kFloats = 4096;
constexpr std::uint64_t kSteps = 50;
constexpr double kLr = 0.02;

using MakeTorch = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

struct Case {
  const char* name;
  optim::Options ours;
  MakeTorch torch;
};

template <class Torch, class Options>
MakeTorch with(const Options& options) {
  return [options](std::vector<at::Tensor> parameters) -> std::unique_ptr<torch::optim::Optimizer> {
    return std::make_unique<Torch>(std::move(parameters), options);
  };
}

std::vector<Case> cases() {
  using namespace torch::optim;
  return {
      {"sgd", {.weight_decay = 5e-4}, with<SGD>(SGDOptions(kLr).weight_decay(5e-4))},
      {"momentum",
       {.weight_decay = 5e-4, .momentum = 0.9},
       with<SGD>(SGDOptions(kLr).momentum(0.9).weight_decay(5e-4))},
      {"dampening",
       {.momentum = 0.9, .dampening = 0.3},
       with<SGD>(SGDOptions(kLr).momentum(0.9).dampening(0.3))},
      {"nesterov",
       {.momentum = 0.9, .nesterov = true},
       with<SGD>(SGDOptions(kLr).momentum(0.9).nesterov(true))},
      {"adam", {.name = "adam", .weight_decay = 0.01}, with<Adam>(AdamOptions(kLr).weight_decay(0.01))},
      {"betas",
       {.name = "adam", .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6},
       with<Adam>(AdamOptions(kLr).betas({0.8, 0.95}).eps(1e-6))},
      {"adamw", {.name = "adamw", .weight_decay = 0.1}, with<AdamW>(AdamWOptions(kLr).weight_decay(0.1))},
      {"rmsprop",
       {.name = "rmsprop", .weight_decay = 5e-4},
       with<RMSprop>(RMSpropOptions(kLr).weight_decay(5e-4))},
      {"rmsprop with momentum",
       {.name = "rmsprop", .momentum = 0.5, .alpha = 0.9},
       with<RMSprop>(RMSpropOptions(kLr).momentum(0.5).alpha(0.9))},
  };
}

// The gradient of a step: a function of the parameters, so that a wrong step shows in all later ones.
at::Tensor gradient_of(const at::Tensor& parameters, std::uint64_t step) {
  Rng rng(mix64(step));
  std::vector<float> noise(kFloats);
  for (float& each : noise) each = rng.unit() - 0.5F;
  return parameters.detach() * 0.5 + at::tensor(noise).to(parameters.dtype());
}

at::Tensor start(at::ScalarType type) {
  Rng rng(1);
  std::vector<float> values(kFloats);
  for (float& each : values) each = 2 * rng.unit() - 1;
  return at::tensor(values).to(type);
}

at::Tensor walk_of_torch(const Case& each, at::ScalarType type) {
  at::Tensor parameters = start(type).set_requires_grad(true);
  const auto optimizer = each.torch({parameters});
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    parameters.mutable_grad() = gradient_of(parameters, step);
    optimizer->step();
  }
  return parameters.detach().to(at::kDouble);
}

at::Tensor walk_of_ours(const Case& each) {
  constexpr float kScale = 0.25F;  // the gradient arrives as a sum over 4 micro-batches
  const auto optimizer = optim::make_optimizer(each.ours).value();
  at::Tensor parameters = start(at::kFloat);
  std::vector<std::vector<float>> states(optimizer->states().size(), std::vector<float>(kFloats));
  std::vector<std::span<float>> spans(states.begin(), states.end());
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const at::Tensor sum = gradient_of(parameters, step) / kScale;
    optimizer->update({.number = step, .scale = kScale, .learning_rate = kLr},
                      {parameters.data_ptr<float>(), static_cast<std::size_t>(kFloats)}, spans,
                      {sum.data_ptr<float>(), static_cast<std::size_t>(kFloats)});
  }
  return parameters.to(at::kDouble);
}

double distance(const at::Tensor& a, const at::Tensor& b) { return (a - b).norm().item<double>(); }

TEST(OptimizerOracle, AsCloseToFloat64AsTorch) {
  for (const Case& each : cases()) {
    const at::Tensor exact = walk_of_torch(each, at::kDouble);
    const double theirs = distance(walk_of_torch(each, at::kFloat), exact),
                 ours = distance(walk_of_ours(each), exact);
    const double way = distance(start(at::kDouble), exact);
    EXPECT_GT(way, 1) << each.name << ": the walk leads somewhere";
    EXPECT_LE(ours, 2 * theirs) << each.name;
    std::printf("%-22s %.3g from float64, torch's float32 %.3g, way %.3g\n", each.name, ours, theirs, way);
  }
}

// A wrong value of any hyperparameter is found.
TEST(OptimizerOracle, WrongHyperparameterIsFound) {
  for (const Case& each : cases()) {
    const at::Tensor exact = walk_of_torch(each, at::kDouble);
    const double theirs = distance(walk_of_torch(each, at::kFloat), exact);
    const bool is_sgd = each.ours.name == "sgd";
    std::vector<Case> wrong;
    const auto plant = [&](auto change) {
      wrong.push_back(each);
      change(wrong.back().ours);
    };
    plant([](optim::Options& o) { o.weight_decay += 1e-4; });
    if (each.ours.momentum > 0) plant([](optim::Options& o) { o.momentum += 1e-3; });
    if (is_sgd && each.ours.momentum > 0 && !each.ours.nesterov)
      plant([](optim::Options& o) { o.dampening += 1e-3; });
    if (each.ours.name.starts_with("adam")) {
      plant([](optim::Options& o) { o.beta1 += 1e-3; });
      plant([](optim::Options& o) { o.beta2 += 1e-4; });
      plant([](optim::Options& o) { o.eps = o.eps.value_or(1e-8) * 100; });
    }
    if (each.ours.name == "rmsprop") plant([](optim::Options& o) { o.alpha += 1e-3; });
    for (std::size_t i = 0; i < wrong.size(); ++i)
      EXPECT_GT(distance(walk_of_ours(wrong[i]), exact), 2 * theirs) << each.name << ", change " << i;
  }
}

}  // namespace
}  // namespace rekindle::model
