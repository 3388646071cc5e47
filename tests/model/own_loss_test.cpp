// A loss of a row's own.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "model/metrics.hpp"
#include "model/training_module.hpp"
#include "probe.hpp"

namespace rekindle::model {
namespace {

// Against cross-entropy, written down as a loss of one's own.
TEST(OwnLoss, IsUsedAndHasToBeAScalarWithAGradient) {
  build_of = linear;
  forward_of = use_linear;
  const auto with = [](at::Tensor (*loss)(const at::Tensor&, const at::Tensor&)) {
    static ModelRow row = kProbe;
    row.loss = loss;
    return std::move(TrainingModule::make(row, {}, {}, 1, at::kCPU).value());
  };
  const auto own = with([](const at::Tensor& outputs, const at::Tensor& targets) {
    return -at::log_softmax(outputs, 1).gather(1, targets.unsqueeze(1)).mean();
  });
  const auto usual = std::move(make().value());
  const Trained a = train(*own), b = train(*usual);
  ASSERT_TRUE(a.loss) << a.loss.error().line();
  EXPECT_NEAR(a.loss->loss, b.loss->loss, 1e-6);
  EXPECT_TRUE(at::allclose(a.of(0), b.of(0), 1e-5, 1e-7));
  const auto doubled = with([](const at::Tensor& outputs, const at::Tensor& targets) {
    return 2 * at::cross_entropy_loss(outputs, targets);
  });
  const Trained twice = train(*doubled);
  EXPECT_NEAR(twice.loss->loss, 2 * b.loss->loss, 1e-6);
  const auto evaluated =
      doubled->evaluate(kBatch, 1, at::zeros({static_cast<std::int64_t>(twice.layout.floats())}), kGoOn);
  ASSERT_TRUE(evaluated) << evaluated.error().line();
  EXPECT_NEAR(evaluated->sums.loss.sum, 2 * 4 * std::log(3.0), 1e-5);
  EXPECT_EQ(evaluated->sums.loss.count, 4U);

  const auto vector = with([](const at::Tensor& outputs, const at::Tensor&) { return outputs.sum(1); });
  EXPECT_NE(train(*vector).loss.error().line().find("the loss of probe has shape [4]"), std::string::npos);
  const auto constant = with([](const at::Tensor&, const at::Tensor&) { return at::ones({}); });
  EXPECT_NE(train(*constant).loss.error().line().find("the model's loss has no gradient"), std::string::npos);
}

// Cross-entropy of one class is 0 whatever the model answers.
TEST(OwnLoss, OneClassWithoutIt_Refused) {
  ModelRow row = kProbe;
  const ModelRow* const rows[] = {&row};
  ModelConfig config;
  config.model = row.name;
  config.classes = 1;
  config.more_models = rows;
  const Status checked = check_config(config);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ExitCode::kConfig);
  EXPECT_EQ(checked.error().line(),
            "probe has no loss of its own, and the data set one class: nothing to learn: give the model's "
            "row a loss, or the data set more classes");
  row.loss = [](const at::Tensor& outputs, const at::Tensor&) { return outputs.mean(); };
  EXPECT_TRUE(check_config(config));
}

// The class with the largest output would be one of 3 columns, whatever the columns are.
TEST(OwnLoss, OverOtherColumnsThanTheClasses_HasNoAccuracy) {
  build_of = linear;
  forward_of = use_linear;
  ModelRow row = kProbe;
  row.loss = [](const at::Tensor& outputs, const at::Tensor&) { return outputs.pow(2).mean(); };
  for (const auto& [classes, count] : {std::pair(10, 0U), std::pair(2, 0U), std::pair(3, 4U)}) {
    const auto module = std::move(TrainingModule::make(row, {}, {.classes = classes}, 1, at::kCPU).value());
    const Trained trained = train(*module);
    ASSERT_TRUE(trained.loss) << classes << ": " << trained.loss.error().line();
    ASSERT_EQ(trained.loss->metrics.size(), 1U);
    EXPECT_EQ(trained.loss->metrics[0].count, count) << classes;
    const at::Tensor values = at::zeros({static_cast<std::int64_t>(trained.layout.floats())});
    const auto answers = module->evaluate(kBatch, 1, values, kGoOn);
    ASSERT_TRUE(answers) << classes << ": " << answers.error().line();
    EXPECT_EQ(answers->sums.loss.count, 4U);
    EXPECT_EQ(answers->sums.metrics.size(), metrics_of(data::SampleKind::kImages, classes).size());
    for (const auto& metric : answers->sums.metrics) EXPECT_EQ(metric.count, count) << classes;
    EXPECT_EQ(answers->predicted.size(), count) << classes;
    const auto needs = std::move(
        TrainingModule::make(row, {}, {.classes = classes, .needs_accuracy = true}, 1, at::kCPU).value());
    EXPECT_EQ(train(*needs).loss.has_value(), count > 0) << classes;
  }
}

// As many columns as classes by chance: the three numbers of an embedding, and three classes.
TEST(OwnLoss, RowWithoutAccuracy_HasNoneWithAnyColumns) {
  build_of = linear;
  forward_of = use_linear;
  ModelRow own = kProbe;
  own.loss = [](const at::Tensor& outputs, const at::Tensor&) { return outputs.pow(2).mean(); };
  const ModelRow row = own.without_accuracy();
  const auto module = std::move(TrainingModule::make(row, {}, {.classes = 3}, 1, at::kCPU).value());
  const Trained trained = train(*module);
  ASSERT_TRUE(trained.loss) << trained.loss.error().line();
  ASSERT_EQ(trained.loss->metrics.size(), 1U);
  EXPECT_EQ(trained.loss->metrics[0].count, 0U);
  const auto answers =
      module->evaluate(kBatch, 1, at::zeros({static_cast<std::int64_t>(trained.layout.floats())}), kGoOn);
  ASSERT_TRUE(answers) << answers.error().line();
  EXPECT_EQ(answers->sums.metrics.at(0).count, 0U);
  EXPECT_TRUE(answers->predicted.empty());

  const ModelRow* const rows[] = {&row};
  ModelConfig config;
  config.model = row.name;
  config.more_models = rows;
  EXPECT_TRUE(check_config(config));
  config.needs_accuracy = true;
  const Status checked = check_config(config);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().line(),
            "probe has no accuracy to choose the best checkpoint by: use --best-metric loss");
}

}  // namespace
}  // namespace rekindle::model
