// Models that compute gradients in their own forward and backward passes, and layers whose passes are
// cuDNN's.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <thread>

#include "base/text.hpp"
#include "model/recurrent.hpp"
#include "model/training_module.hpp"
#include "probe.hpp"

namespace rekindle::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool in_a_thread = false;

// As a reentrant checkpoint: the backward pass computes the forward pass again, and a backward pass of it.
struct Again : torch::autograd::Function<Again> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight) {
    context->save_for_backward({x});
    context->saved_data["weight"] = weight;
    return at::linear(x, weight);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor weight = context->saved_data["weight"].toTensor();
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    const auto compute = [&] {
      const at::AutoGradMode grad(true);
      torch::autograd::backward({at::linear(x, weight)}, {gradients[0]});
    };
    in_a_thread ? std::thread(compute).join() : compute();
    return {x.grad(), at::Tensor()};
  }
};

void weights(nn::Module& module) {
  module.register_parameter("scale", at::ones({4}));
  module.register_parameter("w", at::arange(16).view({4, 4}) * 0.01);
}

at::Tensor twice(nn::Module& module, const at::Tensor& x,
                 at::Tensor (*layer)(const at::Tensor&, const at::Tensor&)) {
  const at::Tensor w = module.named_parameters()["w"];
  return layer(layer(x.flatten(1) * module.named_parameters()["scale"], w), w);
}
at::Tensor plain(const at::Tensor& x, const at::Tensor& w) { return at::linear(x, w); }
at::Tensor again(const at::Tensor& x, const at::Tensor& w) { return Again::apply(x, w); }

TEST(InnerGradients, OfABlockThatIsComputedTwice_AreAdded) {
  build_of = weights;
  forward_of = [](nn::Module& module, const at::Tensor& x) { return twice(module, x, plain); };
  const auto usual = std::move(make().value());
  const Trained expected = train(*usual);
  ASSERT_TRUE(expected.loss) << expected.loss.error().line();
  forward_of = [](nn::Module& module, const at::Tensor& x) { return twice(module, x, again); };
  const auto reentrant = std::move(make().value());
  const Trained trained = train(*reentrant);
  ASSERT_TRUE(trained.loss) << trained.loss.error().line();
  EXPECT_GT(expected.of(1).abs().sum().item<double>(), 0);
  EXPECT_TRUE(at::allclose(trained.of(1), expected.of(1), 1e-5, 1e-7));
}

TEST(InnerGradients, InAnotherThread_Refused) {
  build_of = weights;
  forward_of = [](nn::Module& module, const at::Tensor& x) { return twice(module, x, again); };
  const auto module = std::move(make().value());
  in_a_thread = true;
  const Trained trained = train(*module);
  in_a_thread = false;
  ASSERT_FALSE(trained.loss);
  EXPECT_EQ(trained.loss.error().code, ExitCode::kConfig);
  EXPECT_NE(trained.loss.error().line().find("in another thread"), std::string::npos);
}

// Its values are used, and it is no gradient of the loss.
TEST(InnerGradients, OfTheForwardPass_AreNotTheLoss) {
  build_of = [](nn::Module& module) {
    weights(module);
    module.register_parameter("other", at::full({3}, 2.0));
  };
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    const at::Tensor other = module.named_parameters()["other"];
    const at::Tensor inner = torch::autograd::grad({(other * other).sum()}, {other})[0];
    return twice(module, x, plain) + inner.detach().sum();
  };
  const auto module = std::move(make().value());
  const Trained trained = train(*module);
  ASSERT_TRUE(trained.loss) << trained.loss.error().line();
  EXPECT_EQ(trained.gradient[1].item<float>(), 1);
  EXPECT_EQ(trained.gradient[2].item<float>(), 0) << "no gradient";
  EXPECT_EQ(trained.of(2).abs().sum().item<double>(), 0);
}

TEST(InnerGradients, ABackwardInTheForwardPass_Refused) {
  build_of = weights;
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    torch::autograd::backward({module.named_parameters()["w"].sum()}, {});
    return twice(module, x, plain);
  };
  const auto module = std::move(make().value());
  EXPECT_EQ(train(*module).loss.error().line(),
            "the model calls backward() in its forward pass: use torch::autograd::grad there");
}

TEST(InnerGradients, ABufferOfTheFirstForwardPass_Refused) {
  build_of = weights;
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    if (module.named_buffers().is_empty()) module.register_buffer("late", at::zeros({2}));
    return twice(module, x, plain);
  };
  const auto module = std::move(make().value());
  ASSERT_TRUE(train(*module).loss);
  EXPECT_NE(train(*module, kGoOn, false).loss.error().line().find("replaced or added a buffer"),
            std::string::npos);
}

// As one that scales the gradient, registered where other libraries do it.
TEST(InnerGradients, AHookThatForwardRegisters_IsUsed) {
  build_of = linear;
  forward_of = use_linear;
  const auto plain = std::move(make().value());
  const Trained expected = train(*plain);
  forward_of = [](nn::Module& module, const at::Tensor& x) {
    module.named_parameters()["fc.weight"].register_hook(
        [](const at::Tensor& gradient) { return gradient * 0.5; });
    return use_linear(module, x);
  };
  const auto hooked = std::move(make().value());
  const Trained halved = train(*hooked);
  ASSERT_TRUE(halved.loss) << halved.loss.error().line();
  EXPECT_TRUE(halved.of(0).equal(expected.of(0) * 0.5));
  EXPECT_TRUE(halved.of(1).equal(expected.of(1)));
}

// On a GPU; here the module alone is looked at.
TEST(RecurrentLayers, WithDropoutBetweenThem_AreNamed) {
  const auto problem = [](const auto& layer) {
    const nn::Sequential module(nn::Linear(4, 4), layer);
    const Status found = check_recurrent_layers(*module);
    return found ? std::string() : found.error().what;
  };
  EXPECT_EQ(problem(nn::LSTM(nn::LSTMOptions(4, 4).num_layers(2).dropout(0.3))),
            "the layer 1 has dropout between its layers, which on a GPU is not the same each time");
  EXPECT_NE(problem(nn::GRU(nn::GRUOptions(4, 4).num_layers(2).dropout(0.3))), "");
  EXPECT_NE(problem(nn::RNN(nn::RNNOptions(4, 4).num_layers(2).dropout(0.3))), "");
  EXPECT_EQ(problem(nn::LSTM(nn::LSTMOptions(4, 4).num_layers(2))), "");
  EXPECT_EQ(problem(nn::LSTM(nn::LSTMOptions(4, 4).dropout(0.3))), "");
}

}  // namespace
}  // namespace rekindle::model
