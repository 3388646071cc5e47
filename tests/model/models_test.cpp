// Every model of the table against torchvision and PyTorch: tests/oracle/state_dicts.py wrote the golden
// file.
#include "model/models.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "golden.hpp"

namespace rekindle::model {
namespace {

const nlohmann::json& golden_file() {
  static const nlohmann::json file =
      nlohmann::json::parse(std::ifstream(std::filesystem::path(REKINDLE_GOLDEN) / "state_dicts.json"));
  return file;
}

// The options that the golden file's models were built with; without dropout.
ModelOptions options_of(const nlohmann::json& golden) {
  ModelOptions options{.dropout = 0};
  const nlohmann::json& given = golden["options"];
  options.classes = given.value("classes", options.classes);
  options.channels = given.value("channels", options.channels);
  options.image_size = given.value("image_size", options.image_size);
  options.layers = given.value("layers", options.layers);
  options.heads = given.value("heads", options.heads);
  options.width = given.value("width", options.width);
  options.context = given.value("context", options.context);
  options.vocabulary = given.value("vocabulary", options.vocabulary);
  return options;
}

struct Inputs {
  at::Tensor inputs, labels;
};

// The formulas of samples_of() in tests/oracle/state_dicts.py.
Inputs make_batch(data::SampleKind samples, const ModelOptions& options, std::int64_t count) {
  if (samples == data::SampleKind::kText) {
    const auto tokens = [&](std::uint64_t part) {
      at::Tensor out = at::empty({count, options.context - 1}, at::kLong);
      Rng rng = golden::stream(golden::kLabels, part);
      for (std::int64_t& token :
           std::span(out.data_ptr<std::int64_t>(), static_cast<std::size_t>(out.numel())))
        token = static_cast<std::int64_t>(rng.next() % static_cast<std::uint64_t>(options.vocabulary));
      return out;
    };
    return {tokens(0), tokens(1)};
  }
  at::Tensor images = at::empty({count, options.channels, options.image_size, options.image_size});
  golden::fill_uniform({images.data_ptr<float>(), static_cast<std::size_t>(images.numel())}, golden::kImages,
                       0, 2);
  return {images, at::tensor(golden::integers(golden::kLabels, 0, static_cast<std::size_t>(count), 10))};
}

// How far `got` is from PyTorch's numbers, as a share of their norm.
double distance(const at::Tensor& got, const std::vector<double>& want) {
  const at::Tensor expected = at::tensor(want, at::kDouble);
  return ((got.flatten().to(at::kDouble) - expected).norm() / expected.norm()).item<double>();
}

at::Tensor last_logits(const at::Tensor& logits) {
  return logits.detach().flatten().narrow(0, logits.numel() - 40, 40);
}

// Summed in double: the float sum of 100 million squares is wrong by a percent.
double norm_of(const at::Tensor& tensor) {
  return at::linalg_vector_norm(tensor.detach(), 2, std::nullopt, false, at::kDouble).item<double>();
}

class Models : public testing::TestWithParam<std::string> {
 protected:
  const ModelRow& row = *find_model(GetParam()).value();
  const nlohmann::json& golden = golden_file().at(GetParam());
  ModelOptions options = options_of(golden);

  torch::nn::AnyModule make() {
    EXPECT_TRUE(row.check(options));
    at::manual_seed(1);
    return row.make(options);
  }
};

TEST_P(Models, HasTheNamesAndShapesOfPyTorchAndPredictsLogits) {
  torch::nn::AnyModule model = make();
  const auto expect_equal = [](const auto& tensors, const nlohmann::json& want) {
    ASSERT_EQ(tensors.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(tensors[i].key(), want[i][0].get<std::string>());
      EXPECT_EQ(tensors[i].value().sizes().vec(), want[i][1].get<std::vector<std::int64_t>>())
          << tensors[i].key();
    }
  };
  expect_equal(model.ptr()->named_parameters(), golden["parameters"]);
  expect_equal(model.ptr()->named_buffers(), golden["buffers"]);

  model.ptr()->eval();
  const at::NoGradGuard no_gradients;
  const at::Tensor logits = model.forward(make_batch(row.samples, options, 1).inputs);
  EXPECT_EQ(logits.sizes().vec(),
            row.samples == data::SampleKind::kText
                ? (std::vector<std::int64_t>{1, options.context - 1, options.vocabulary})
                : (std::vector<std::int64_t>{1, options.classes}));
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
}

// Those whose numbers are in the golden file.
class TrainedModels : public Models {};

// The initial values are PyTorch's of the same seed, so the numbers of a step must be PyTorch's too.
TEST_P(TrainedModels, AStepHasTheNumbersOfPyTorch) {
  torch::nn::AnyModule model = make();
  const auto parameters = model.ptr()->named_parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double want = golden["parameters"][i][2];
    EXPECT_NEAR(norm_of(parameters[i].value()), want, 1e-5 * want) << parameters[i].key();
  }

  const nlohmann::json& numbers = golden["numbers"];
  const Inputs batch = make_batch(row.samples, options, golden["samples"]);
  const at::Tensor logits = model.forward(batch.inputs);
  const at::Tensor loss = at::cross_entropy_loss(logits.flatten(0, -2), batch.labels.flatten());
  // Statistics of few samples, one layer after the other, make more of rounding: 9e-5 was seen with resnet50.
  EXPECT_LT(distance(last_logits(logits), numbers["logits"]), 1e-3);
  EXPECT_NEAR(loss.item<double>(), numbers["loss"].get<double>(), 1e-3);
  loss.backward();
  double square = 0, wanted_square = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double got = norm_of(parameters[i]->grad()), want = golden["parameters"][i][3];
    // A ReLU whose input is within rounding of 0 may change a tensor's gradient by far more than rounding. A
    // bias before a batch normalization has a gradient of 0, so its norm is only rounding.
    EXPECT_NEAR(got, want, 2e-2 * want + 1e-5) << parameters[i].key();
    square += got * got;
    wanted_square += want * want;
  }
  EXPECT_NEAR(std::sqrt(square / wanted_square), 1, 2e-3);

  model.ptr()->eval();  // from running statistics, which the step has moved
  const at::NoGradGuard no_gradients;
  EXPECT_LT(distance(last_logits(model.forward(batch.inputs)), numbers["evaluated"]), 1e-4);
  for (const auto& buffer : model.ptr()->named_buffers()) {
    if (!buffer.key().ends_with("num_batches_tracked")) continue;
    EXPECT_EQ(buffer.value().item<std::int64_t>(), 1) << buffer.key();
  }
}

class ModelsWithDropout : public Models {};

TEST_P(ModelsWithDropout, DropOutInTrainingOnlyAndByTheDefaultGenerator) {
  options.dropout.reset();
  if (row.samples == data::SampleKind::kText) options.dropout = 0.5;  // gpt's own is 0
  torch::nn::AnyModule model = make();
  const at::NoGradGuard no_gradients;
  const at::Tensor inputs = make_batch(row.samples, options, 2).inputs;
  const auto logits = [&](std::uint64_t seed) {
    at::manual_seed(seed);
    return model.forward(inputs);
  };
  EXPECT_TRUE(logits(1).equal(logits(1)));
  EXPECT_FALSE(logits(1).allclose(logits(2)));
  model.ptr()->eval();
  EXPECT_TRUE(logits(1).equal(logits(2)));
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(, Models, testing::ValuesIn(names_of_models()), test_name);
INSTANTIATE_TEST_SUITE_P(, TrainedModels,
                         testing::Values("vgg11", "vgg16_bn", "resnet18", "resnet50", "mnist-cnn", "gpt"),
                         test_name);
INSTANTIATE_TEST_SUITE_P(, ModelsWithDropout, testing::Values("vgg11", "mnist-cnn", "gpt"), test_name);

// The formulas of torchvision and nanoGPT: what a weight of this name and shape is drawn with.
double deviation_of(const std::string& model, const std::string& name, at::IntArrayRef shape, int layers) {
  const std::int64_t pixels = shape.size() == 4 ? shape[2] * shape[3] : 1;
  if (model == "gpt") return name.ends_with("c_proj.weight") ? 0.02 / std::sqrt(2.0 * layers) : 0.02;
  if (model != "mnist-cnn" && shape.size() == 4)  // kaiming_normal, fan_out, relu
    return std::sqrt(2.0 / static_cast<double>(shape[0] * pixels));
  if (model.starts_with("vgg")) return 0.01;
  // kaiming_uniform with a = sqrt(5): +-1/sqrt(fan_in)
  return 1 / std::sqrt(3.0 * static_cast<double>(shape[1] * pixels));
}

TEST(InitialValues, HaveTheDeviationAndRangeOfTheFormula) {
  for (const std::string model : {"vgg11_bn", "resnet18", "resnet50", "mnist-cnn", "gpt"}) {
    const ModelOptions options = options_of(golden_file().at(model));
    at::manual_seed(1);
    const torch::nn::AnyModule built = find_model(model).value()->make(options);
    for (const auto& parameter : built.ptr()->named_parameters()) {
      const at::Tensor values = parameter->detach();
      SCOPED_TRACE(model + " " + parameter.key());
      const bool uniform =
          model == "mnist-cnn" || (model.starts_with("resnet") && parameter.key().starts_with("fc."));
      if (values.dim() == 1) {
        const bool scale = parameter.key().ends_with("weight");  // of a normalization
        EXPECT_TRUE(uniform || values.eq(scale ? 1 : 0).all().item<bool>());
        continue;
      }
      const double want = deviation_of(model, parameter.key(), values.sizes(), options.layers);
      const auto count = static_cast<double>(values.numel());
      EXPECT_NEAR(values.std().item<double>(), want, 5 * want / std::sqrt(2 * count));
      EXPECT_NEAR(values.mean().item<double>(), 0, 5 * want / std::sqrt(count));
      const double largest = values.abs().max().item<double>();
      EXPECT_LE(largest, want * (uniform ? std::sqrt(3.0) : 7) * 1.000001);
      EXPECT_GE(largest, want * (uniform ? 1.65 : 2.5));
    }
  }
}

// Sizes whose last pixels are 1, 2 and 8 per side: averages of one pixel, of overlapping windows, and of more
// pixels than outputs.
TEST(Vgg, AveragesLikeAdaptivePooling) {
  const ModelOptions small{.image_size = 32};
  at::manual_seed(1);
  torch::nn::AnyModule model = find_model("vgg11").value()->make(small);
  model.ptr()->eval();
  const at::NoGradGuard no_gradients;
  auto modules = model.ptr()->named_children();
  const auto features = modules["features"]->as<torch::nn::SequentialImpl>();
  const auto classifier = modules["classifier"]->as<torch::nn::SequentialImpl>();
  for (const int size : {32, 64, 256}) {
    const at::Tensor images = make_batch(data::SampleKind::kImages, {.image_size = size}, 2).inputs;
    const at::Tensor pooled = at::adaptive_avg_pool2d(features->forward(images), {7, 7});
    EXPECT_TRUE(model.forward(images).allclose(classifier->forward(pooled.flatten(1)), 1e-4, 1e-6)) << size;
  }
}

TEST(Gpt, ATokenDependsOnlyOnEarlierOnes) {
  const ModelOptions options{.layers = 2, .heads = 2, .width = 32, .context = 16, .vocabulary = 64};
  torch::nn::AnyModule model = find_model("gpt").value()->make(options);
  const at::NoGradGuard no_gradients;
  const at::Tensor tokens = make_batch(data::SampleKind::kText, options, 1).inputs;
  const at::Tensor before = model.forward(tokens);
  const at::Tensor changed = tokens.clone();
  changed.select(1, 8).add_(1).remainder_(options.vocabulary);
  const at::Tensor after = model.forward(changed);
  EXPECT_TRUE(after.narrow(1, 0, 8).allclose(before.narrow(1, 0, 8)));
  for (std::int64_t i = 8; i < tokens.size(1); ++i)
    EXPECT_FALSE(after.select(1, i).allclose(before.select(1, i))) << i;
}

TEST(FindModel, AnUnknownNameGetsTheNearest) {
  const auto near = find_model("resnet81");
  ASSERT_FALSE(near);
  EXPECT_EQ(near.error().code, ExitCode::kUsage);
  EXPECT_EQ(near.error().line(), "unknown model 'resnet81': did you mean resnet18?");
  EXPECT_THAT(find_model("transformer").error().hint, testing::HasSubstr("vgg11_bn, vgg13"));
}

TEST(ModelRow, RefusesOptionsThatItCannotBuildFrom) {
  const auto refusal = [](const char* model, const ModelOptions& options) {
    const Status checked = find_model(model).value()->check(options);
    EXPECT_TRUE(checked || checked.error().code == ExitCode::kConfig);
    return checked ? "" : checked.error().line();
  };
  EXPECT_EQ(refusal("vgg11", {.image_size = 31}),
            "images of 31 pixels are too small: use --image-size 32 or more");
  EXPECT_EQ(refusal("resnet18", {.classes = 0}), "0 classes: a model needs at least one");
  EXPECT_EQ(refusal("mnist-cnn", {.channels = 0}), "0 channels: an image needs at least one");
  EXPECT_EQ(refusal("mnist-cnn", {.image_size = 6}), "");
  EXPECT_EQ(refusal("vgg11_bn", {.dropout = 1.0}),
            "dropout 1 is out of range: use a number from 0 up to, not including, 1");
  EXPECT_NE(refusal("gpt", {.dropout = std::numeric_limits<double>::quiet_NaN()}), "");
  EXPECT_EQ(refusal("resnet50", {.dropout = 0.5}),
            "dropout 0.5 cannot be used: a ResNet has no dropout: use --dropout 0, or leave the option out");
  EXPECT_NE(refusal("mnist-cnn", {.dropout = 0.5}), "");
  EXPECT_EQ(refusal("resnet50", {.dropout = 0}), "");
  EXPECT_EQ(refusal("gpt", {.heads = 3}),
            "a width of 256 cannot be split among 3 heads: use a --width that is a multiple of --heads");
  EXPECT_EQ(refusal("gpt", {.context = 0}), "a gpt cannot have context 0: use --context 1 or more");
  EXPECT_NE(refusal("gpt", {.layers = 0}), "");
  EXPECT_NE(refusal("gpt", {.heads = -1}), "");
}

}  // namespace
}  // namespace rekindle::model
