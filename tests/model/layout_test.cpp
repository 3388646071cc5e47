#include "model/layout.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "base/text.hpp"

namespace rekindle::model {
namespace {

// As torchvision.models.vgg11().state_dict() lists them.
const char* const kTorchvisionVgg11 =
    "features.0.weight[64,3,3,3] features.0.bias[64] features.3.weight[128,64,3,3] features.3.bias[128] "
    "features.6.weight[256,128,3,3] features.6.bias[256] features.8.weight[256,256,3,3] features.8.bias[256] "
    "features.11.weight[512,256,3,3] features.11.bias[512] features.13.weight[512,512,3,3] "
    "features.13.bias[512] "
    "features.16.weight[512,512,3,3] features.16.bias[512] features.18.weight[512,512,3,3] "
    "features.18.bias[512] "
    "classifier.0.weight[4096,25088] classifier.0.bias[4096] classifier.3.weight[4096,4096] "
    "classifier.3.bias[4096] "
    "classifier.6.weight[1000,4096] classifier.6.bias[1000] ";

TEST(Layout, Vgg11HasTorchvisionsNamesShapesAndParameterCount) {
  const Layout layout = parameter_layout({.classes = 1000});
  std::string listing;
  for (const TensorPlace& place : layout.tensors) {
    listing += place.name + "[";
    for (std::size_t i = 0; i < place.shape.size(); ++i) listing += str(i == 0 ? "" : ",", place.shape[i]);
    listing += "] ";
  }
  EXPECT_EQ(listing, kTorchvisionVgg11);
  EXPECT_EQ(layout.parameters(), 132'863'336U);
}

TEST(Layout, EveryTensorStartsAtAMultipleOf16Floats_LargeOnesOfAPage) {
  for (const char* model : {"vgg11", "mnist-cnn"}) {
    const Layout layout = parameter_layout({.model = model, .classes = 7, .channels = 1});
    std::size_t end = 0;
    for (const TensorPlace& place : layout.tensors) {
      const std::size_t unit = place.floats < kLargeFloats ? kAlignFloats : kPageFloats;
      EXPECT_EQ(place.offset % unit, 0U) << place.name;
      EXPECT_GE(place.offset, end);
      EXPECT_LT(place.offset, end + unit);
      end = place.offset + place.floats;
    }
    EXPECT_EQ(layout.arena_floats % kAlignFloats, 0U);
    EXPECT_GE(layout.arena_floats, end);
  }
}

TEST(Layout, MnistCnnFollowsTheImages) {
  const Layout layout = parameter_layout({.model = "mnist-cnn", .channels = 1, .image_size = 28});
  EXPECT_EQ(layout.tensors[4].name, "fc1.weight");
  EXPECT_EQ(layout.tensors[4].shape, (std::vector<std::int64_t>{128, 9216}));
  const Layout colour = parameter_layout({.model = "mnist-cnn", .channels = 3, .image_size = 32});
  EXPECT_EQ(colour.tensors[0].shape, (std::vector<std::int64_t>{32, 3, 3, 3}));
  EXPECT_EQ(colour.tensors[4].shape, (std::vector<std::int64_t>{128, 64 * 14 * 14}));
}

TEST(Layout, OptimizersNameTheirArenas) {
  EXPECT_EQ(optimizer_arenas({}), std::vector<std::string>{"momentum"});
  EXPECT_TRUE(optimizer_arenas({.optimizer = {}}).empty());
  EXPECT_EQ(optimizer_arenas({.optimizer = {.name = "adadelta"}}),
            (std::vector<std::string>{"square_avg", "acc_delta"}));
}

TEST(CheckConfig, ImpossibleConfigurationsAreRefusedWithAHint) {
  EXPECT_TRUE(check_config({}));
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const ModelConfig& config :
       {ModelConfig{.model = "vgg12"}, ModelConfig{.classes = 0}, ModelConfig{.channels = 0},
        ModelConfig{.image_size = 31}, ModelConfig{.model = "mnist-cnn", .image_size = 5},
        ModelConfig{.dropout = 1}, ModelConfig{.dropout = kNan}, ModelConfig{.optimizer = {.name = "adan"}},
        ModelConfig{.optimizer = {.momentum = -0.1}}, ModelConfig{.optimizer = {.weight_decay = -1}},
        ModelConfig{.optimizer = {.name = "adadelta", .rho = 2}},
        ModelConfig{.optimizer = {.name = "adadelta", .eps = 0}}, ModelConfig{.label_smoothing = 1},
        ModelConfig{.threads = 0}}) {
    const Status status = check_config(config);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ExitCode::kConfig);
    EXPECT_FALSE(status.error().hint.empty()) << status.error().what;
  }
  EXPECT_EQ(check_config({.model = "vgg12"}).error().line(), "unknown model 'vgg12': did you mean vgg11?");
}

}  // namespace
}  // namespace rekindle::model
