// VGG (Simonyan and Zisserman 2015) with the names, shapes and initial values of torchvision.models.vgg*.
#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
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

// Convolutions in each of the five blocks; a pool follows each block.
using Depths = std::array<int, 5>;

struct Vgg : nn::Module {
  Vgg(const ModelOptions& options, const Depths& depths, bool batch_norm)
      : dropout(options.dropout.value_or(0.5)),
        features(std::make_shared<nn::Module>()),
        classifier(std::make_shared<nn::Module>()) {
    register_module("features", features);
    register_module("classifier", classifier);
    constexpr std::array kChannels = {64, 128, 256, 512, 512};
    int in = options.channels, index = 0;  // torchvision's indices count the ReLUs and pools, too
    for (std::size_t block = 0; block < depths.size(); ++block) {
      for (int i = 0; i < depths[block]; ++i) {
        Layer layer{conv(in, kChannels[block]), nullptr, i + 1 == depths[block]};
        in = kChannels[block];
        features->register_module(str(index++), layer.conv);
        if (batch_norm) {
          layer.norm = nn::BatchNorm2d(in);
          features->register_module(str(index++), layer.norm);
        }
        ++index;  // the ReLU
        layers.push_back(layer);
      }
      ++index;  // the pool
    }
    const std::array widths = {512 * 7 * 7, 4096, 4096, options.classes};
    for (std::size_t i = 0; i < linears.size(); ++i) {
      linears[i] = nn::Linear(widths[i], widths[i + 1]);
      nn::init::normal_(linears[i]->weight, 0, 0.01);
      nn::init::zeros_(linears[i]->bias);
      classifier->register_module(str(3 * i), linears[i]);  // a ReLU and a dropout follow each but the last
    }
  }

  static nn::Conv2d conv(int in, int out) {
    nn::Conv2d conv(nn::Conv2dOptions(in, out, 3).padding(1));
    nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
    nn::init::zeros_(conv->bias);
    return conv;
  }

  at::Tensor forward(at::Tensor x) {
    x = x.contiguous(at::MemoryFormat::ChannelsLast);
    for (Layer& layer : layers) {
      x = ops::conv2d(x, layer.conv->weight, layer.conv->bias, 1, 1);
      if (layer.norm) x = layer.norm(x);
      // A pool before its ReLU and not after it: the same bits, and four times fewer ReLUs.
      if (layer.pooled) x = at::max_pool2d(x, 2);
      x = x.relu_();
    }
    x = ops::adaptive_average(x, 7).contiguous().flatten(1);
    for (std::size_t i = 0; i < 2; ++i) {
      x = ops::linear(x, linears[i]->weight, linears[i]->bias).relu_();
      x = at::dropout(x, dropout, is_training());
    }
    return ops::linear(x, linears[2]->weight, linears[2]->bias);
  }

  struct Layer {
    nn::Conv2d conv;
    nn::BatchNorm2d norm;
    bool pooled = false;
  };
  double dropout;
  std::shared_ptr<nn::Module> features, classifier;
  std::vector<Layer> layers;
  std::array<nn::Linear, 3> linears = {nullptr, nullptr, nullptr};
};

template <int Depth>
constexpr Depths depths_of() {
  if constexpr (Depth == 11) return {1, 1, 2, 2, 2};
  if constexpr (Depth == 13) return {2, 2, 2, 2, 2};
  if constexpr (Depth == 16) return {2, 2, 3, 3, 3};
  return {2, 2, 4, 4, 4};
}

Status check(const ModelOptions& options) { return check_images(options, "VGG", 32); }

template <int Depth, bool BatchNorm>
nn::AnyModule make(const ModelOptions& options) {
  return nn::AnyModule(std::make_shared<Vgg>(options, depths_of<Depth>(), BatchNorm));
}

template <int Depth>
constexpr ModelRow row(const char* name) {
  return {name, "torchvision's, with dropout 0.5", SampleKind::kImages, check, make<Depth, false>};
}
template <int Depth>
constexpr ModelRow row_with_norm(const char* name) {
  return {name, "the same with batch norm", SampleKind::kImages, check, make<Depth, true>};
}

}  // namespace

const ModelRow kVggModels[] = {
    row<11>("vgg11"), row_with_norm<11>("vgg11_bn"), row<13>("vgg13"), row_with_norm<13>("vgg13_bn"),
    row<16>("vgg16"), row_with_norm<16>("vgg16_bn"), row<19>("vgg19"), row_with_norm<19>("vgg19_bn")};

}  // namespace rekindle::model
