#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "optim/optimizer.hpp"
#include "protocol/job.hpp"
#include "protocol/training.hpp"

namespace rekindle::protocol {
namespace {

Job job_of(std::uint64_t samples, std::uint64_t batch) {
  Job job;
  job.train_samples = samples;
  job.test_samples = 10;
  job.batch_size = batch;
  job.steps = 1000;
  return job;
}

// Without its copy in optimizer_options(), an option is accepted and has no effect.
TEST(OptimizerOptions, DependOnEachOptionOfEachOptimizer) {
  for (const optim::Row& row : optim::optimizers()) {
    Job job;
    job.optimizer = row.name;
    for (const std::string& name : optim::option_names(row)) {
      nlohmann::json changed = job;
      ASSERT_TRUE(changed.contains(name)) << "Job has no field " << name;
      nlohmann::json& value = changed[name];
      if (value.is_boolean())
        value = !value.get<bool>();
      else
        value = 0.5;  // no option's default
      EXPECT_FALSE(optimizer_options(changed.get<Job>()) == optimizer_options(job))
          << row.name << ", " << name;
    }
  }
}

TEST(MicroBatches, DefaultDependsOnTheBatchAlone) {
  EXPECT_EQ(default_micro_batches(128), 16U);
  EXPECT_EQ(default_micro_batches(256), 32U);
  EXPECT_EQ(default_micro_batches(1024), 32U);
  EXPECT_EQ(default_micro_batches(16), 2U);
  EXPECT_EQ(default_micro_batches(20), 2U);  // 4 would leave 5 samples each
  EXPECT_EQ(default_micro_batches(96), 8U);  // 16 would leave 6
  EXPECT_EQ(default_micro_batches(8), 1U);
  EXPECT_EQ(default_micro_batches(1), 1U);
  EXPECT_EQ(default_micro_batches(333), 1U);
  EXPECT_EQ(Job{}.micro_batches, default_micro_batches(Job{}.batch_size));
}

TEST(Schedule, EpochIsThatOfTheStepsFirstSample) {
  const Job job = job_of(100, 32);
  EXPECT_EQ(epoch_of(job, 3), 0U);  // samples 96..127: the step is in two epochs
  EXPECT_EQ(epoch_of(job, 4), 1U);
  EXPECT_EQ(steps_for_epochs(job, 1), 4U);
  EXPECT_EQ(steps_for_epochs(job, 8), 25U);
}

TEST(Schedule, RateDecaysByEpochs) {
  Job job = job_of(100, 50);
  job.lr = 1;
  job.lr_step = 2;
  job.lr_gamma = 0.5;
  EXPECT_EQ(learning_rate(job, 3), 1.0);
  EXPECT_EQ(learning_rate(job, 4), 0.5);
  EXPECT_EQ(learning_rate(job, 8), 0.25);
}

TEST(Schedule, CosineEndsWithTheLengthOfTheFirstStart) {
  Job job = job_of(100, 50);
  job.schedule = "cosine";
  job.lr = 1;
  job.warmup_steps = 4;
  job.schedule_steps = 104;
  EXPECT_DOUBLE_EQ(learning_rate(job, 0), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(job, 4), 1);
  EXPECT_DOUBLE_EQ(learning_rate(job, 54), 0.5);
  job.steps = 2000;  // a run that was made longer
  EXPECT_EQ(learning_rate(job, 1500), learning_rate(job, 103));
}

TEST(Schedule, AStepIsMadeAgainWithTheRatesOfItsTime) {
  Job job = job_of(100, 50);
  job.earlier_rates = {{0, 1.0, 1000, 0.1}, {6, 0.5, 1, 0.5}};
  job.rates_since = 9;
  job.lr = 3;
  job.lr_step = 1000;
  EXPECT_EQ(learning_rate(job, 5), 1.0);
  EXPECT_EQ(learning_rate(job, 6), 0.5 / 8);  // in epoch 3
  EXPECT_EQ(learning_rate(job, 8), 0.5 / 16);
  EXPECT_EQ(learning_rate(job, 9), 3.0);
  const auto identity = identity_of(job);
  EXPECT_EQ(rates_until(identity, 6).size(), 1U) << "all steps up to 6 used the old options";
  EXPECT_EQ(rates_until(identity, 7).size(), 2U);
  EXPECT_EQ(rates_until(identity, 10).back(), (Rates{9, 3.0, 1000, 0.1}));
  EXPECT_EQ(rates_until(identity_of(job_of(100, 50)), 0), std::vector<Rates>{});
}

TEST(Schedule, EvaluatedAfterEachEpochAndAtTheEnd) {
  Job job = job_of(100, 32);
  job.steps = 6;
  const auto due = [&job] {
    std::vector<std::uint64_t> steps;
    for (std::uint64_t step = 0; step <= job.steps; ++step) {
      if (evaluation_due(job, step)) steps.push_back(step);
    }
    return steps;
  };
  EXPECT_EQ(due(), (std::vector<std::uint64_t>{4, 6}));
  job.evaluate_every = 2;
  EXPECT_EQ(due(), (std::vector<std::uint64_t>{2, 4, 6}));
  job.evaluate_every = 5;
  EXPECT_EQ(due(), (std::vector<std::uint64_t>{5, 6}));
  job.test_samples = 0;
  EXPECT_FALSE(evaluation_due(job, 6));
}

TEST(Identity, SeesWhatMakesTheBitsAndNothingElse) {
  const Job job = job_of(100, 32);
  Job other = job;
  other.steps = 5;
  other.keep = 9;
  other.checkpoint_every = 1;
  other.exchange = "tcp";
  other.exchange_integrity = !job.exchange_integrity;
  other.task.data = "/elsewhere";
  EXPECT_EQ(first_difference(identity_of(job), identity_of(other)), "");
  other.seed = 2;
  EXPECT_EQ(first_difference(identity_of(job), identity_of(other)), "seed");
  other = job;
  other.optimizer = "adadelta";
  EXPECT_NE(first_difference(identity_of(job), identity_of(other)), "");
  other = job;
  other.init = "00112233445566778899aabbccddeeff";
  EXPECT_EQ(first_difference(identity_of(job), identity_of(other)), "init");
  EXPECT_EQ(first_difference(identity_of(other), identity_of(job)), "init");
}

}  // namespace
}  // namespace rekindle::protocol
