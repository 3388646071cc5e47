// ResNet (He et al. 2016), with the names, shapes and initial values of torchvision.models.resnet. After
// torch::manual_seed(s) the initial values are torchvision's after torch.manual_seed(s).
#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <memory>
#include <vector>

#include "base/text.hpp"
#include "model/nets/nets.hpp"
#include "model/ops.hpp"

namespace rekindle::model {
namespace {

namespace nn = torch::nn;

ops::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t side, std::int64_t stride) {
  return ops::Conv2d(nn::Conv2dOptions(in, out, side).stride(stride).padding(side / 2).bias(false));
}

// y = relu(f(x) + x), where f is two 3x3 convolutions ("basic"), or 1x1, 3x3 and 1x1 ones with four times as
// many channels at the end ("bottleneck"). If the shape changes, a 1x1 convolution brings x to it.
class Block final : public nn::Module {
 public:
  Block(std::int64_t in, std::int64_t width, std::int64_t stride, bool bottleneck) {
    const std::int64_t out = bottleneck ? 4 * width : width;
    if (bottleneck) {
      add(in, width, 1, 1);
      add(width, width, 3, stride);  // torchvision's place for the stride ("ResNet v1.5")
      add(width, out, 1, 1);
    } else {
      add(in, width, 3, stride);
      add(width, out, 3, 1);
    }
    if (stride != 1 || in != out)
      shortcut_ = register_module("downsample",
                                  nn::Sequential(convolution(in, out, 1, stride), ops::BatchNorm2d(out)));
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = x;
    for (std::size_t i = 0; i + 1 < stages_.size(); ++i) y = stages_[i].norm->with_relu(stages_[i].conv(y));
    const at::Tensor last = stages_.back().conv(y);
    return stages_.back().norm->with_relu(last, shortcut_.is_empty() ? x : shortcut_->forward(x));
  }

 private:
  struct Stage {
    ops::Conv2d conv;
    ops::BatchNorm2d norm;
  };

  void add(std::int64_t in, std::int64_t out, std::int64_t side, std::int64_t stride) {
    const std::size_t number = stages_.size() + 1;
    stages_.push_back({register_module(str("conv", number), convolution(in, out, side, stride)),
                       register_module(str("bn", number), ops::BatchNorm2d(out))});
  }

  std::vector<Stage> stages_;
  nn::Sequential shortcut_ = nullptr;
};

using Depths = std::array<int, 4>;  // blocks in each of the four groups

class Resnet final : public nn::Module {
 public:
  Resnet(const ModelOptions& options, const Depths& depths, bool bottleneck)
      : conv_(register_module(
            "conv1",
            ops::Conv2d(nn::Conv2dOptions(options.channels, 64, 7).stride(2).padding(3).bias(false)))),
        norm_(register_module("bn1", ops::BatchNorm2d(64))) {
    std::int64_t in = 64, width = 64;
    for (std::size_t group = 0; group < depths.size(); ++group, width *= 2) {
      nn::Sequential blocks;
      for (int i = 0; i < depths[group]; ++i) {
        blocks->push_back(std::make_shared<Block>(in, width, group > 0 && i == 0 ? 2 : 1, bottleneck));
        in = bottleneck ? 4 * width : width;
      }
      groups_.push_back(register_module(str("layer", group + 1), blocks));
    }
    fc_ = register_module("fc", ops::Linear(in, options.classes));
    // The other layers keep LibTorch's initial values: torchvision's are the same.
    for (const auto& module : modules(false))
      if (const auto* conv = module->as<nn::Conv2d>())
        nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
  }

  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = norm_(conv_(ops::channels_last(images)));
    x = at::max_pool2d(x, 3, 2, 1)
            .relu_();  // in this order there are four times fewer ReLUs, with the same bits
    for (nn::Sequential& group : groups_) x = group->forward(x);
    return fc_(x.mean({2, 3}));
  }

 private:
  ops::Conv2d conv_;
  ops::BatchNorm2d norm_;
  std::vector<nn::Sequential> groups_;
  ops::Linear fc_ = nullptr;
};

Status check(const ModelOptions& options) {
  REKINDLE_CHECK(check_images(options, 32));
  return check_no_dropout(options, "a ResNet has no dropout");
}

constexpr Depths k18 = {2, 2, 2, 2}, k34 = {3, 4, 6, 3}, k101 = {3, 4, 23, 3};  // 50 has 34's

template <const Depths& kDepths, bool kBottleneck>
nn::AnyModule make(const ModelOptions& options) {
  return nn::AnyModule(std::make_shared<Resnet>(options, kDepths, kBottleneck));
}

}  // namespace

const ModelRow kResnet18 =
    ModelRow{"resnet18", "ResNet, 18 layers", data::SampleKind::kImages, check, make<k18, false>}.recorded();
const ModelRow kResnet34 =
    ModelRow{"resnet34", "ResNet, 34 layers", data::SampleKind::kImages, check, make<k34, false>}.recorded();
const ModelRow kResnet50 =
    ModelRow{"resnet50", "ResNet, 50 layers", data::SampleKind::kImages, check, make<k34, true>}.recorded();
const ModelRow kResnet101 =
    ModelRow{"resnet101", "ResNet, 101 layers", data::SampleKind::kImages, check, make<k101, true>}
        .recorded();

}  // namespace rekindle::model
