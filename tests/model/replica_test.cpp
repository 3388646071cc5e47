#include <gtest/gtest.h>

#include <cmath>

#include "data/dataset.hpp"
#include "replica_tools.hpp"

namespace rekindle::model {
namespace {

TEST(Replica, InitialValuesFollowTheSeedAlone) {
  ModelConfig other = kMnist;
  other.seed = 2;
  EXPECT_EQ(digest(*make(kMnist)), digest(*make(kMnist)));
  EXPECT_NE(digest(*make(kMnist)), digest(*make(other)));
}

TEST(Replica, InitialValuesHaveTorchvisionsSpread) {
  const auto spread = [](const checkpoint::Tensor& tensor) {
    const std::span values(reinterpret_cast<const float*>(tensor.bytes.data()),
                           tensor.bytes.size() / sizeof(float));
    double sum = 0, square = 0;
    for (const float value : values) {
      sum += value;
      square += static_cast<double>(value) * value;
    }
    const auto count = static_cast<double>(values.size());
    return std::pair(sum / count, std::sqrt(square / count));
  };
  const auto vgg = make(kVgg), mnist = make(kMnist);
  for (const checkpoint::Tensor& tensor : vgg->state()) {
    const auto [mean, deviation] = spread(tensor);
    const bool weight = tensor.spec.role == checkpoint::Role::kParameter && tensor.spec.shape.size() > 1;
    const double want = !weight ? 0
                        : tensor.spec.shape.size() == 4
                            ? std::sqrt(2.0 / static_cast<double>(9 * tensor.spec.rows()))
                            : 0.01;
    EXPECT_NEAR(deviation, want, 0.05 * want) << tensor.spec.name;
    EXPECT_NEAR(mean, 0, 0.1 * want) << tensor.spec.name;
  }
  for (const checkpoint::Tensor& tensor : mnist->state()) {
    if (tensor.spec.name != "fc1.weight" && tensor.spec.name != "conv2.weight") continue;
    const std::size_t fan_in = tensor.spec.row_bytes() / sizeof(float);
    const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
    EXPECT_NEAR(spread(tensor).second, bound / std::sqrt(3.0), 0.02 * bound) << tensor.spec.name;
  }
}

// Checkpoints are written from there past the page cache.
TEST(Replica, LargeTensorsBeginPages) {
  int large = 0;
  for (const ModelConfig& config : {kMnist, kVgg}) {
    const auto replica = make(config);
    for (const checkpoint::Tensor& tensor : replica->state()) {
      if (tensor.bytes.size() < trainer::kLargeFloats * sizeof(float)) continue;
      ++large;
      EXPECT_EQ(
          reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % (trainer::kPageFloats * sizeof(float)), 0U)
          << tensor.spec.name;
    }
  }
  EXPECT_GE(large, 4);
}

// The front-end checks files against it without LibTorch.
TEST(Replica, StateIsWhatItsSpecSays) {
  for (const char* model : {"vgg11", "mnist-cnn"}) {
    for (const char* optimizer : {"sgd", "adam", "adamw", "adadelta", "rmsprop"}) {
      ModelConfig config = std::string(model) == "vgg11" ? kVgg : kMnist;
      config.optimizer.name = optimizer;
      EXPECT_EQ(checkpoint::spec_of(make(config)->state()), describe_state(config)->tensors);
    }
  }
  ModelConfig unknown = kMnist;
  unknown.model = "mnist";
  EXPECT_FALSE(describe_state(unknown));
}

TEST(Replica, StateIsTheLiveStateInCanonicalOrder) {
  ModelConfig config = kMnist;
  config.optimizer.name = "adadelta";
  const auto replica = make(config);
  const checkpoint::State state = replica->state();
  ASSERT_EQ(state.size(), 24U);
  EXPECT_EQ(state[0].spec.name, "conv1.weight");
  EXPECT_EQ(state[7].spec.name, "fc2.bias");
  EXPECT_EQ(state[8].spec.name, "square_avg.conv1.weight");
  EXPECT_EQ(state[16].spec.name, "acc_delta.conv1.weight");
  EXPECT_EQ(state[16].spec.role, checkpoint::Role::kOptimizer);
  const Batch batch = random_batch(config, 1);
  const std::vector<float> before = leaf(*replica, batch);
  reinterpret_cast<float*>(state[0].bytes.data())[0] += 1;
  ASSERT_TRUE(replica->upload());
  EXPECT_FALSE(same_bits(leaf(*replica, batch), before));
}

TEST(Replica, WrongInputIsRefused) {
  const auto replica = make(kMnist);
  Batch batch = random_batch(kMnist, 1);
  std::vector<float> gradient(replica->layout().floats());
  EXPECT_FALSE(replica->train({.images = batch.images, .labels = batch.labels}, 7,
                              std::span(gradient).first(16), kGoOn));
  EXPECT_FALSE(
      replica->evaluate({.images = std::span(batch.images).first(100), .labels = batch.labels}, 1, kGoOn));
  batch.labels[3] = 10;
  const auto result = replica->train({.images = batch.images, .labels = batch.labels}, 7, gradient, kGoOn);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().kind, ErrorKind::kAborted);
}

TEST(Replica, LabelsThatAreNotLearned_CountNeitherInTheLossNorInTheMetrics) {
  ModelConfig config = kMnist;
  config.dropout = 0;
  const auto replica = make(config);
  Batch all = random_batch(config, 5);
  const std::size_t pixels = all.images.size() / kImages;
  all.labels[1] = all.labels[3] = data::kNoLabel;
  Batch learned{.images = {}, .labels = {all.labels[0], all.labels[2]}};
  for (const std::size_t image : {0, 2}) {
    const auto first = all.images.begin() + static_cast<std::ptrdiff_t>(image * pixels);
    learned.images.insert(learned.images.end(), first, first + static_cast<std::ptrdiff_t>(pixels));
  }
  std::vector<float> gradient(replica->layout().floats());
  const auto train = [&](const Batch& batch) {
    return replica->train({.images = batch.images, .labels = batch.labels}, 7, gradient, kGoOn);
  };
  const auto with = train(all), without = train(learned);
  ASSERT_TRUE(with) << with.error().line();
  EXPECT_NEAR(with->loss, without->loss, 1e-5);
  EXPECT_EQ(with->metrics[0].count, 2U);
  EXPECT_EQ(with->metrics[0].sum, without->metrics[0].sum);
  const auto evaluated = replica->evaluate({.images = all.images, .labels = all.labels}, 1, kGoOn);
  ASSERT_TRUE(evaluated);
  EXPECT_EQ(evaluated->sums.loss.count, 2U);
  for (const auto& metric : evaluated->sums.metrics) EXPECT_EQ(metric.count, 2U);
  all.labels.assign(kImages, data::kNoLabel);
  ASSERT_FALSE(train(all));
  EXPECT_EQ(train(all).error().what, "all labels of a micro-batch are -100: it has no loss");
}

TEST(Replica, DevicesThatAreNotThereAreConfigurationErrors) {
  for (const char* device : {"cuda:99", "cuda:", "tpu"}) {
    ModelConfig config = kMnist;
    config.device = device;
    const auto replica = Replica::make(config);
    ASSERT_FALSE(replica) << device;
    EXPECT_EQ(replica.error().code, ExitCode::kConfig);
  }
}

TEST(Replica, FingerprintNamesWhatMakesTheBits) {
  const std::string text = numeric_fingerprint(kMnist, "");
  for (const char* key :
       {"torch", "onednn", "mkl", "cpu_capability", "threads", "device", "ATEN_CPU_CAPABILITY"})
    EXPECT_NE(text.find('"' + std::string(key) + "\": \""), std::string::npos) << text;
  ModelConfig two = kMnist;
  two.threads = 2;
  EXPECT_NE(numeric_fingerprint(two, ""), text);
}

TEST(Replica, MnistCnnLearnsWhichRowIsBright) {
  ModelConfig config = kMnist;
  config.image_size = 12;
  config.optimizer.name = "adadelta";
  const auto replica = make(config);
  const auto draw = [](std::uint64_t key) {
    Rng rng(key);
    Batch batch;
    for (int i = 0; i < 32; ++i) {
      const auto label = static_cast<int>(rng.below(10));
      batch.labels.push_back(label);
      for (int y = 0; y < 12; ++y)
        for (int x = 0; x < 12; ++x) batch.images.push_back(rng.unit() + (y == label + 1 ? 1.0F : 0.0F));
    }
    return batch;
  };
  std::vector<float> gradient(replica->layout().floats());
  for (std::uint64_t step = 0; step < 100; ++step) {
    const Batch batch = draw(step);
    ASSERT_TRUE(replica->train({.images = batch.images, .labels = batch.labels}, step, gradient, kGoOn));
    replica->update(0, gradient, {.learning_rate = 1.0});
  }
  const Batch test = draw(1000);
  const auto result = replica->evaluate({.images = test.images, .labels = test.labels}, 1, kGoOn);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->sums.loss.count, 32);
  EXPECT_LT(result->sums.loss.sum / 32, 0.5);
  const trainer::MetricSum accuracy = result->sums.metrics.at(0), top5 = result->sums.metrics.at(1);
  EXPECT_EQ(accuracy.count, 32);
  EXPECT_GE(accuracy.sum, 29);
  EXPECT_EQ(top5.count, 32);
  EXPECT_GE(top5.sum, accuracy.sum);
}

}  // namespace
}  // namespace rekindle::model
