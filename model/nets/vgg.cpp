// VGG (Simonyan and Zisserman 2015), with the names, shapes and initial values of torchvision.models.vgg.
// After torch::manual_seed(s) the initial values are torchvision's after torch.manual_seed(s).
#include <torch/nn/init.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "model/nets/nets.hpp"
#include "model/ops.hpp"

namespace rekindle::model {
namespace {

namespace nn = torch::nn;

// The paper's table 1: five groups of convolutions, each with a max-pool at its end.
using Depths = std::array<int, 5>;
constexpr Depths k11 = {1, 1, 2, 2, 2}, k13 = {2, 2, 2, 2, 2}, k16 = {2, 2, 3, 3, 3}, k19 = {2, 2, 4, 4, 4};
constexpr std::array kWidths = {64, 128, 256, 512, 512};
constexpr std::int64_t kSide = 7;  // pixels of each side that the classifier gets

// [kSide, n]: row i averages the inputs from floor(i * n / kSide) to ceil((i + 1) * n / kSide), as PyTorch's
// adaptive average pooling does.
at::Tensor averages_of(std::int64_t n) {
  at::Tensor rows = at::zeros({kSide, n});
  for (std::int64_t i = 0; i < kSide; ++i) {
    const std::int64_t first = i * n / kSide, end = ((i + 1) * n + kSide - 1) / kSide;
    rows[i].narrow(0, first, end - first).fill_(1.0 / static_cast<double>(end - first));
  }
  return rows;
}

// [b, c, h, w] -> [b, c * kSide * kSide]. One matrix product, because the backward pass of LibTorch's
// adaptive pooling is not deterministic on GPUs.
class AverageAndFlatten {
 public:
  at::Tensor operator()(const at::Tensor& x) {
    const std::int64_t height = x.size(2), width = x.size(3);
    if (height == kSide && width == kSide) return x.flatten(1);
    const std::array<std::int64_t, 2> sizes = {height, width};
    if (sizes_ != sizes || averages_.scalar_type() != x.scalar_type()) {
      averages_ = at::kron(averages_of(height), averages_of(width)).to(x.options());
      sizes_ = sizes;
    }
    return at::mm(x.reshape({-1, height * width}), averages_.t()).view({x.size(0), -1});
  }

 private:
  at::Tensor averages_;  // of the last call, because a GPU waits for what comes from the host
  std::array<std::int64_t, 2> sizes_ = {};
};

class Vgg final : public nn::Module {
 public:
  Vgg(const ModelOptions& options, const Depths& depths, bool normalized) {
    const auto relu = nn::ReLUOptions(true);  // in place: nothing before a ReLU needs its own output
    std::int64_t channels = options.channels;
    for (std::size_t group = 0; group < depths.size(); ++group) {
      for (int i = 0; i < depths[group]; ++i) {
        const ops::Conv2d conv(nn::Conv2dOptions(channels, kWidths[group], 3).padding(1));
        features_->push_back(conv);
        if (!normalized) layers_.emplace_back(conv, i + 1 == depths[group]);
        channels = kWidths[group];
        if (normalized) features_->push_back(nn::BatchNorm2d(channels));
        // torchvision pools after the ReLU. The maximum of ReLUs is the ReLU of the maximum, bit for bit
        // forward and backward, and there are four times fewer of them.
        if (i + 1 == depths[group]) features_->push_back(nn::MaxPool2d(nn::MaxPool2dOptions(2).stride(2)));
        features_->push_back(nn::ReLU(relu));
      }
    }
    std::int64_t inputs = channels * kSide * kSide;
    for (int hidden = 0; hidden < 2; ++hidden) {
      classifier_->push_back(ops::Linear(inputs, 4096));
      classifier_->push_back(nn::ReLU(relu));
      classifier_->push_back(nn::Dropout(options.dropout.value_or(0.5)));
      inputs = 4096;
    }
    classifier_->push_back(ops::Linear(inputs, options.classes));
    register_module("features", features_);
    register_module("classifier", classifier_);
    initialize();
  }

  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = ops::channels_last(images);
    if (layers_.empty() || x.is_cpu())
      return classifier_->forward(average_and_flatten_(features_->forward(x)));
    for (const auto& [conv, pools] : layers_) x = ops::conv_relu(x, conv->weight, conv->bias, 1, 1, pools);
    return classifier_->forward(average_and_flatten_(x));
  }

 private:
  void initialize() {
    for (const auto& module : modules(false)) {
      if (const auto* conv = module->as<nn::Conv2d>()) {
        nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
        nn::init::zeros_(conv->bias);
      } else if (const auto* linear = module->as<nn::Linear>()) {
        nn::init::normal_(linear->weight, 0, 0.01);
        nn::init::zeros_(linear->bias);
      }
    }
  }

  nn::Sequential features_, classifier_;
  AverageAndFlatten average_and_flatten_;
  std::vector<std::pair<ops::Conv2d, bool>>
      layers_;  // without normalization: each convolution, and whether it is pooled
};

Status check(const ModelOptions& options) {
  REKINDLE_CHECK(check_images(options, 32));
  return check_dropout(options);
}

template <const Depths& kDepths, bool kNormalized>
nn::AnyModule make(const ModelOptions& options) {
  return nn::AnyModule(std::make_shared<Vgg>(options, kDepths, kNormalized));
}

}  // namespace

const ModelRow kVgg11 =
    ModelRow{"vgg11", "VGG, 11 layers", data::SampleKind::kImages, check, make<k11, false>}.recorded();
const ModelRow kVgg13 =
    ModelRow{"vgg13", "VGG, 13 layers", data::SampleKind::kImages, check, make<k13, false>}.recorded();
const ModelRow kVgg16 =
    ModelRow{"vgg16", "VGG, 16 layers", data::SampleKind::kImages, check, make<k16, false>}.recorded();
const ModelRow kVgg19 =
    ModelRow{"vgg19", "VGG, 19 layers", data::SampleKind::kImages, check, make<k19, false>}.recorded();
const ModelRow kVgg11Bn = ModelRow{"vgg11_bn", "VGG, 11 layers with batch normalization",
                                   data::SampleKind::kImages, check, make<k11, true>}
                              .recorded();
const ModelRow kVgg13Bn = ModelRow{"vgg13_bn", "VGG, 13 layers with batch normalization",
                                   data::SampleKind::kImages, check, make<k13, true>}
                              .recorded();
const ModelRow kVgg16Bn = ModelRow{"vgg16_bn", "VGG, 16 layers with batch normalization",
                                   data::SampleKind::kImages, check, make<k16, true>}
                              .recorded();
const ModelRow kVgg19Bn = ModelRow{"vgg19_bn", "VGG, 19 layers with batch normalization",
                                   data::SampleKind::kImages, check, make<k19, true>}
                              .recorded();

}  // namespace rekindle::model
