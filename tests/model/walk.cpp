#include "walk.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "golden.hpp"

namespace rekindle::model::golden {
namespace {

std::span<float> floats_of(const checkpoint::Tensor& tensor) {
  return {reinterpret_cast<float*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(float)};
}

struct MicroBatch {
  std::vector<float> images;
  std::vector<std::int64_t> tokens, labels;
};

MicroBatch samples_of(const Recipe& recipe, std::uint64_t part) {
  const ModelConfig& config = recipe.config;
  MicroBatch out;
  const std::size_t labels =
      recipe.samples * (config.channels > 0 ? 1 : static_cast<std::size_t>(config.context));
  out.labels = integers(kLabels, part, labels, config.classes);
  if (config.channels == 0) {
    out.tokens = integers(kTokens, part, labels, config.classes);
    return out;
  }
  const auto side = static_cast<std::size_t>(config.image_size);
  out.images.resize(recipe.samples * static_cast<std::size_t>(config.channels) * side * side);
  fill_uniform(out.images, kImages, part, 2);
  return out;
}

// The sum over the micro-batches of a step, and their mean loss.
double train(Replica& replica, const Recipe& recipe, std::size_t batch, std::vector<float>& sum,
             std::vector<float>& gradient) {
  const std::atomic<bool> aborted{false};
  const auto micro_batches = static_cast<std::size_t>(recipe.config.micro_batches);
  double loss = 0;
  for (std::size_t i = 0; i < micro_batches; ++i) {
    const MicroBatch samples = samples_of(recipe, batch * micro_batches + i);
    const auto result =
        replica.train({.images = samples.images, .tokens = samples.tokens, .labels = samples.labels}, 0,
                      i == 0 ? sum : gradient, aborted);
    EXPECT_TRUE(result) << result.error().line();
    if (!result) return 0;
    loss += result->loss / static_cast<double>(micro_batches);
    if (i > 0)
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += gradient[k];
  }
  return loss;
}

void plant_buffer_movement(Replica& replica, const Recipe& recipe, std::vector<float>& sum) {
  const auto& tensors = replica.layout().tensors();
  const checkpoint::State state = replica.state();
  for (std::size_t i = replica.layout().parameters(); i < tensors.size(); ++i) {
    if (!tensors[i].is_float()) continue;
    const std::span<const float> before = floats_of(state[i]);
    for (std::size_t k = 0; k < before.size(); ++k) {
      float& each = sum[tensors[i].offset + k];
      const float stay = before[k] * static_cast<float>(recipe.config.micro_batches);
      each = stay + recipe.buffer_movement * (each - stay);
    }
  }
}

}  // namespace

Recipe recipe_of(const nlohmann::json& golden) {
  const nlohmann::json& given = golden.at("recipe");
  const nlohmann::json &options = given.at("options"), &values = given.at("hyperparameters");
  Recipe recipe;
  ModelConfig& config = recipe.config;
  config.model = given.at("model");
  config.classes = options.value("classes", options.value("vocabulary", 0));
  config.channels = options.value("channels", 0);
  config.image_size = options.value("image_size", 0);
  config.layers = options.value("layers", config.layers);
  config.heads = options.value("heads", config.heads);
  config.width = options.value("width", config.width);
  config.context = options.value("context", config.context);
  config.dropout = 0;
  config.label_smoothing = given.at("label_smoothing");
  config.micro_batches = given.at("micro_batches");
  optim::Options& optimizer = config.optimizer;
  optimizer = {.name = given.at("optimizer")};
  optimizer.weight_decay = values.value("weight_decay", 0.0);
  optimizer.momentum = values.value("momentum", 0.0);
  optimizer.dampening = values.value("dampening", 0.0);
  optimizer.nesterov = values.value("nesterov", false);
  optimizer.alpha = values.value("alpha", optimizer.alpha);
  optimizer.rho = values.value("rho", optimizer.rho);
  if (values.contains("betas")) {
    optimizer.beta1 = values["betas"][0];
    optimizer.beta2 = values["betas"][1];
  }
  if (values.contains("eps")) optimizer.eps = values["eps"].get<double>();
  recipe.lr = given.at("lr");
  recipe.steps = given.at("steps");
  recipe.batches = given.at("batches");
  recipe.samples = given.at("samples");
  return recipe;
}

Walk walk(const Recipe& recipe) {
  auto made = Replica::make(recipe.config);
  EXPECT_TRUE(made) << made.error().line();
  if (!made) return {};
  Replica& replica = **made;
  const checkpoint::State all = replica.state();
  const checkpoint::State state(all.begin(),
                                all.begin() + static_cast<std::ptrdiff_t>(replica.layout().tensors().size()));
  begin(state);
  EXPECT_TRUE(replica.upload());
  std::vector<float> sum(replica.layout().floats()), gradient(replica.layout().floats());
  Walk out;
  for (std::size_t step = 0; step < recipe.steps; ++step) {
    out.losses.push_back(train(replica, recipe, step % recipe.batches, sum, gradient));
    if (recipe.buffer_movement != 1) plant_buffer_movement(replica, recipe, sum);
    replica.update(0, sum,
                   {.number = step,
                    .scale = 1.0F / static_cast<float>(recipe.config.micro_batches),
                    .learning_rate = recipe.lr});
    EXPECT_TRUE(replica.finish_update());
  }
  EXPECT_TRUE(replica.download());
  out.sketches = sketches_of(state);
  return out;
}

}  // namespace rekindle::model::golden
