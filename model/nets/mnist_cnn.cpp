// The network of PyTorch's MNIST example (github.com/pytorch/examples, mnist/main.py), for images of any
// size.
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "model/models.hpp"
#include "model/ops.hpp"

namespace rekindle::model {
namespace {

struct MnistCnn : torch::nn::Module {
  explicit MnistCnn(const ModelOptions& options)
      : conv1(options.channels, 32, 3),
        conv2(32, 64, 3),
        dropout1(options.dropout == 0 ? 0 : 0.25),
        dropout2(options.dropout == 0 ? 0 : 0.5),
        fc1(64 * side_of(options) * side_of(options), 128),
        fc2(128, options.classes) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("dropout1", dropout1);
    register_module("dropout2", dropout2);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }

  // Of the image after two convolutions and a pool.
  static int side_of(const ModelOptions& options) { return (options.image_size - 4) / 2; }

  at::Tensor forward(at::Tensor x) {
    x = ops::conv2d(x, conv1->weight, conv1->bias, 1, 0).relu_();
    x = ops::conv2d(x, conv2->weight, conv2->bias, 1, 0);
    x = dropout1(
        at::max_pool2d(x, 2).relu_());  // a pool before its ReLU: the same bits, four times fewer ReLUs
    x = ops::linear(x.flatten(1), fc1->weight, fc1->bias).relu_();
    return ops::linear(dropout2(x), fc2->weight, fc2->bias);
  }

  torch::nn::Conv2d conv1, conv2;
  torch::nn::Dropout dropout1, dropout2;
  torch::nn::Linear fc1, fc2;
};

}  // namespace

const ModelRow kMnistCnnModel = {
    "mnist-cnn", "the network of PyTorch's MNIST example; dropout 0.25 and 0.5, or 0", SampleKind::kImages,
    [](const ModelOptions& options) { return check_images(options, "mnist-cnn", 6); },
    [](const ModelOptions& options) { return torch::nn::AnyModule(MnistCnn(options)); }};

}  // namespace rekindle::model
