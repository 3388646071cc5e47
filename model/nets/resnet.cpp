// ResNet (He et al. 2015; the stride is in the 3x3 convolution of a bottleneck) with the names, shapes and
// initial values of torchvision.models.resnet*.
#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "model/models.hpp"
#include "model/ops.hpp"

namespace rekindle::model {
namespace {

namespace nn = torch::nn;
using Depths = std::array<int, 4>;  // blocks in each stage

// A convolution without bias and its batch norm.
struct ConvNorm {
  ConvNorm(nn::Module& owner, const std::string& conv_name, const std::string& norm_name, int in, int out,
           int side, int stride)
      : conv(nn::Conv2dOptions(in, out, side).stride(stride).padding(side / 2).bias(false)), norm(out) {
    nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
    owner.register_module(conv_name, conv);
    owner.register_module(norm_name, norm);
  }
  at::Tensor operator()(const at::Tensor& x) {
    const auto stride = conv->options.stride()->front();
    return norm(ops::conv2d(x, conv->weight, {}, stride, conv->weight.size(2) / 2));
  }

  nn::Conv2d conv;
  nn::BatchNorm2d norm;
};

// Two 3x3 convolutions, or 1x1, 3x3, 1x1 (a bottleneck), beside a shortcut.
struct Block : nn::Module {
  Block(int in, int width, int stride, bool bottleneck) {
    const int out = bottleneck ? 4 * width : width;
    if (bottleneck) {
      add(in, width, 1, 1);
      add(width, width, 3, stride);
      add(width, out, 1, 1);
    } else {
      add(in, width, 3, stride);
      add(width, width, 3, 1);
    }
    if (stride != 1 || in != out) {
      auto both = std::make_shared<nn::Module>();
      register_module("downsample", both);
      shortcut.emplace_back(*both, "0", "1", in, out, 1, stride);
    }
  }

  void add(int in, int out, int side, int stride) {
    const std::size_t number = layers.size() + 1;
    layers.emplace_back(*this, str("conv", number), str("bn", number), in, out, side, stride);
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = x;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      y = layers[i](y);
      if (i + 1 < layers.size()) y = y.relu_();
    }
    return (y += shortcut.empty() ? x : shortcut[0](x)).relu_();
  }

  std::vector<ConvNorm> layers, shortcut;  // shortcut: none or one
};

struct ResNet : nn::Module {
  ResNet(const ModelOptions& options, const Depths& depths, bool bottleneck)
      : stem(*this, "conv1", "bn1", options.channels, 64, 7, 2), fc(nullptr) {
    int in = 64;
    for (std::size_t stage = 0; stage < depths.size(); ++stage) {
      auto layer = std::make_shared<nn::Module>();
      register_module(str("layer", stage + 1), layer);
      const int width = 64 << stage;
      for (int i = 0; i < depths[stage]; ++i) {
        blocks.push_back(std::make_shared<Block>(in, width, i == 0 && stage > 0 ? 2 : 1, bottleneck));
        layer->register_module(str(i), blocks.back());
        in = bottleneck ? 4 * width : width;
      }
    }
    fc = register_module("fc", nn::Linear(in, options.classes));
  }

  at::Tensor forward(at::Tensor x) {
    x = stem(x.contiguous(at::MemoryFormat::ChannelsLast)).relu_();
    x = at::max_pool2d(x, 3, 2, 1);
    for (const auto& block : blocks) x = block->forward(x);
    return ops::linear(x.mean({2, 3}), fc->weight, fc->bias);
  }

  ConvNorm stem;
  std::vector<std::shared_ptr<Block>> blocks;
  nn::Linear fc;
};

Status check(const ModelOptions& options) { return check_images(options, "ResNet", 32); }

template <int A, int B, int C, int D, bool Bottleneck>
nn::AnyModule make(const ModelOptions& options) {
  return nn::AnyModule(std::make_shared<ResNet>(options, Depths{A, B, C, D}, Bottleneck));
}

constexpr const char* kWhat = "torchvision's";

}  // namespace

const ModelRow kResNetModels[] = {{"resnet18", kWhat, SampleKind::kImages, check, make<2, 2, 2, 2, false>},
                                  {"resnet34", kWhat, SampleKind::kImages, check, make<3, 4, 6, 3, false>},
                                  {"resnet50", kWhat, SampleKind::kImages, check, make<3, 4, 6, 3, true>},
                                  {"resnet101", kWhat, SampleKind::kImages, check, make<3, 4, 23, 3, true>}};

}  // namespace rekindle::model
