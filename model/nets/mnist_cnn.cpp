// PyTorch's basic MNIST example (github.com/pytorch/examples, mnist/main.py). The shortest file of a model,
// to copy from.
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <memory>

#include "model/nets/nets.hpp"
#include "model/ops.hpp"

namespace rekindle::model {
namespace {

namespace nn = torch::nn;

class MnistCnn final : public nn::Module {
 public:
  explicit MnistCnn(const ModelOptions& options)
      : dropout_(options.dropout != 0), side_((options.image_size - 4) / 2) {
    register_module("conv1", conv1_ = ops::Conv2d(nn::Conv2dOptions(options.channels, 32, 3)));
    register_module("conv2", conv2_ = ops::Conv2d(nn::Conv2dOptions(32, 64, 3)));
    register_module("fc1", fc1_ = ops::Linear(64 * side_ * side_, 128));
    register_module("fc2", fc2_ = ops::Linear(128, options.classes));
  }

  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = conv1_(ops::channels_last(images)).relu_();
    x = at::max_pool2d(conv2_(x), 2).relu_();
    x = at::dropout(x.flatten(1), 0.25, dropout_ && is_training());
    x = fc1_(x).relu_();
    x = at::dropout(x, 0.5, dropout_ && is_training());
    return fc2_(x);
  }

 private:
  bool dropout_;
  std::int64_t side_;  // pixels of each side after the pool
  ops::Conv2d conv1_ = nullptr, conv2_ = nullptr;
  ops::Linear fc1_ = nullptr, fc2_ = nullptr;
};

Status check(const ModelOptions& options) {
  REKINDLE_CHECK(check_images(options, 6));
  return check_no_dropout(options, "the dropouts of mnist-cnn are 0.25 and 0.5");
}

nn::AnyModule make(const ModelOptions& options) { return nn::AnyModule(std::make_shared<MnistCnn>(options)); }

}  // namespace

const ModelRow kMnistCnn =
    ModelRow{"mnist-cnn", "PyTorch's MNIST example: two convolutions and two linear layers",
             data::SampleKind::kImages, check, make}
        .recorded();

}  // namespace rekindle::model
