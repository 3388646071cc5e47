// One convolution with batch norm, and one linear layer.
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <rekindle/trainer.hpp>

namespace {

namespace nn = torch::nn;
using rekindle::Status;
using rekindle::model::ModelOptions;

constexpr int kPooled = 4;  // pixels of each side after the pool

// --model-options kernels=N
rekindle::Result<double> kernels(const ModelOptions& options) {
  return rekindle::model::own_number(options, "kernels", 8);
}

class SmallCnn final : public nn::Module {
 public:
  explicit SmallCnn(const ModelOptions& options) {
    const auto width = static_cast<std::int64_t>(kernels(options).value());
    register_module("conv", conv_ = nn::Conv2d(nn::Conv2dOptions(options.channels, width, 3).padding(1)));
    register_module("norm", norm_ = nn::BatchNorm2d(width));
    register_module("drop", drop_ = nn::Dropout(options.dropout.value_or(0.1)));
    register_module("head", head_ = nn::Linear(width * kPooled * kPooled, options.classes));
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
  REKINDLE_TRY(const double width, kernels(options));
  if (width < 1 || width != std::floor(width))
    return rekindle::fail(rekindle::ExitCode::kConfig, "kernels is not a whole number of at least 1",
                          "try 8");
  return rekindle::model::check_dropout(options);
}

nn::AnyModule make(const ModelOptions& options) { return nn::AnyModule(std::make_shared<SmallCnn>(options)); }

}  // namespace

extern const rekindle::model::ModelRow kSmallCnn;
const rekindle::model::ModelRow kSmallCnn = {
    "small-cnn", "one convolution and one linear layer", rekindle::data::SampleKind::kImages, check, make,
    "kernels"};
