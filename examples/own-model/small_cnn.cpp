// One convolution with batch norm, and one linear layer.
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <rekindle/trainer.hpp>

namespace {

namespace nn = torch::nn;
using rekindle::Status;
using rekindle::model::ModelOptions;

constexpr int kChannels = 8, kPooled = 4;  // kPooled: pixels of each side after the pool

class SmallCnn final : public nn::Module {
 public:
  explicit SmallCnn(const ModelOptions& options) {
    register_module("conv", conv_ = nn::Conv2d(nn::Conv2dOptions(options.channels, kChannels, 3).padding(1)));
    register_module("norm", norm_ = nn::BatchNorm2d(kChannels));
    register_module("drop", drop_ = nn::Dropout(options.dropout.value_or(0.1)));
    register_module("head", head_ = nn::Linear(kChannels * kPooled * kPooled, options.classes));
  }

  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor x = at::relu(norm_(conv_(images)));
    return head_(drop_(at::adaptive_avg_pool2d(x, {kPooled, kPooled}).flatten(1)));
  }

 private:
  nn::Conv2d conv_ = nullptr;
  nn::BatchNorm2d norm_ = nullptr;
  nn::Dropout drop_ = nullptr;
  nn::Linear head_ = nullptr;
};

Status check(const ModelOptions& options) {
  REKINDLE_CHECK(rekindle::model::check_images(options, kPooled));
  return rekindle::model::check_dropout(options);
}

nn::AnyModule make(const ModelOptions& options) { return nn::AnyModule(std::make_shared<SmallCnn>(options)); }

}  // namespace

extern const rekindle::model::ModelRow kSmallCnn;
const rekindle::model::ModelRow kSmallCnn = {"small-cnn", "one convolution and one linear layer",
                                             rekindle::data::SampleKind::kImages, check, make};
