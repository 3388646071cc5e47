// Ten steps against PyTorch with torchvision's vgg11 and torch.optim: tests/oracle/pytorch_golden.py wrote
// the files.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "golden.hpp"
#include "model/model.hpp"

namespace rekindle::model {
namespace {

constexpr double kTolerance = 1e-4;

struct Recipe {
  ModelConfig config;
  std::uint64_t leaves = 1, images = 1;
  double lr = 0;
};

std::span<float> floats_of(const checkpoint::Tensor& tensor) {
  return {reinterpret_cast<float*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(float)};
}

bool near(double got, double want, double scale) { return std::abs(got - want) <= kTolerance * scale; }

// How many losses and tensors differ from the golden file by more than the tolerance, after `steps` of the
// recipe.
int differences(const Recipe& recipe, const nlohmann::json& want) {
  auto replica = std::move(Replica::make(recipe.config).value());
  const std::size_t parameters = replica->layout().parameters();
  checkpoint::State state = replica->state();
  for (std::size_t i = 0; i < parameters; ++i)
    golden::fill_uniform(floats_of(state[i]), golden::kValues, i, golden::bound_of(state[i].spec.shape));
  EXPECT_TRUE(replica->upload());

  int different = 0;
  const auto side = static_cast<std::size_t>(recipe.config.image_size);
  std::vector<float> pixels(recipe.images * static_cast<std::size_t>(recipe.config.channels) * side * side);
  std::vector<float> gradient(replica->layout().floats()), sum(replica->layout().floats());
  const std::atomic<bool> aborted{false};
  for (std::size_t step = 0; step < golden::kSteps; ++step) {
    double loss = 0;
    for (std::uint64_t leaf = 0; leaf < recipe.leaves; ++leaf) {
      const std::uint64_t part = step % 2 * recipe.leaves + leaf;
      golden::fill_uniform(pixels, golden::kImages, part, 2);
      const auto labels = golden::labels(part, recipe.images);
      const auto result =
          replica->train({.images = pixels, .labels = labels}, 0, leaf == 0 ? sum : gradient, aborted);
      EXPECT_TRUE(result) << result.error().line();
      loss += result->loss / static_cast<double>(recipe.leaves);
      if (leaf > 0)
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
    }
    replica->update(
        0, sum,
        {.number = step, .scale = 1.0F / static_cast<float>(recipe.leaves), .learning_rate = recipe.lr});
    EXPECT_TRUE(replica->finish_update());
    const double expected = want["losses"][step];
    if (!near(loss, expected, expected)) {
      ++different;
      std::printf("step %zu: loss %.8g, PyTorch %.8g\n", step, loss, expected);
    }
  }

  EXPECT_TRUE(replica->download());
  const auto compare = [&](const std::string& name, const std::vector<double>& got) {
    const auto expected = want["tensors"].at(name).get<std::vector<double>>();
    for (std::size_t k = 0; k < got.size(); ++k) {
      if (near(got[k], expected[k], expected[0])) continue;
      ++different;
      std::printf("%s[%zu]: %.8g, PyTorch %.8g, norm %.8g\n", name.c_str(), k, got[k], expected[k],
                  expected[0]);
      return;
    }
  };
  for (std::size_t i = 0; i < state.size(); ++i) {
    const std::size_t index = i % parameters;
    compare(state[i].spec.name, golden::summary(floats_of(state[i]), index));
    if (i < parameters)
      compare("moved." + state[i].spec.name,
              golden::summary(floats_of(state[i]), index, golden::bound_of(state[i].spec.shape)));
  }
  return different;
}

nlohmann::json read_golden(const std::string& model) {
  std::ifstream file(std::filesystem::path(REKINDLE_GOLDEN) / (model + ".json"));
  return nlohmann::json::parse(file);
}

Recipe mnist_recipe() {
  return {.config = {.model = "mnist-cnn",
                     .channels = 1,
                     .image_size = 28,
                     .dropout = 0,
                     .optimizer = {.name = "adadelta"}},
          .leaves = 4,
          .images = 2,
          .lr = 0.02};
}

Recipe vgg11_recipe() {
  return {.config = {.image_size = 32, .dropout = 0, .optimizer = {.weight_decay = 5e-4, .momentum = 0.9}},
          .leaves = 2,
          .images = 1,
          .lr = 0.00002};
}

TEST(Golden, MnistCnnWithAdadeltaMeetsPyTorch) {
  EXPECT_EQ(differences(mnist_recipe(), read_golden("mnist-cnn")), 0);
}

TEST(Golden, Vgg11WithSgdMeetsTorchvision) {
  EXPECT_EQ(differences(vgg11_recipe(), read_golden("vgg11")), 0);
}

// The comparison can fail: a slightly different recipe shows in nearly every tensor.
TEST(Golden, PlantedErrorInAHyperparameterIsFound) {
  Recipe recipe = mnist_recipe();
  recipe.config.optimizer.rho = 0.901;
  testing::internal::CaptureStdout();
  const int found = differences(recipe, read_golden("mnist-cnn"));
  testing::internal::GetCapturedStdout();
  EXPECT_GT(found, 20);
}

}  // namespace
}  // namespace rekindle::model
