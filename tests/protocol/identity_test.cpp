#include "protocol/identity.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "protocol/training.hpp"

namespace rekindle::protocol {
namespace {

std::string difference(const Job& job, const nlohmann::json& identity) {
  return first_difference(identity_of(job), identity);
}

// What a resume may change is in run.toml as the last start has set it.
TEST(Identity, SkipCorruptChangedAtAResume_CheckpointsOnBothSidesAreOfThisRun) {
  for (const bool then : {false, true}) {
    Job earlier;
    earlier.task.dataset = "image-folder";
    earlier.task.skip_corrupt = then;
    Job last = earlier;
    last.task.skip_corrupt = !then;
    const nlohmann::json identity = identity_of(earlier);
    ASSERT_EQ(difference(last, identity), "skip_corrupt");
    use_changes_of(last, identity);
    EXPECT_EQ(difference(last, identity), "");
    EXPECT_EQ(last.task.skip_corrupt, then) << "an audit must make the steps as they were made";
  }
}

TEST(Identity, RatesChangedAtAResume_AreThoseOfTheCheckpoint) {
  Job earlier;
  earlier.lr = 0.5;
  Job last = earlier;
  last.lr = 0.25;
  last.rates_since = 7;
  last.earlier_rates = {{0, earlier.lr, earlier.lr_step, earlier.lr_gamma}};
  const nlohmann::json identity = identity_of(earlier);
  use_changes_of(last, identity);
  EXPECT_EQ(difference(last, identity), "");
}

TEST(Identity, JobWithTheIdentityOfACheckpoint_HasItsRatesAndTheLengthOfItsSchedule) {
  Job earlier;
  earlier.schedule = "cosine";
  earlier.schedule_steps = 100;
  earlier.seed = 5;
  earlier.init = "0123";
  earlier.lr = 0.25;
  earlier.rates_since = 7;
  earlier.earlier_rates = {{0, 0.5, earlier.lr_step, earlier.lr_gamma}};
  Job now;
  now.steps = 200;
  now.clip_norm = 2;
  now.cpu_capability = "avx2";
  now.bf16_isa = "AVX512_CORE_AMX";
  now.environment = {"MKL_CBWR=AVX2"};
  const Job before = job_with_identity(identity_of(earlier), now);
  EXPECT_EQ(difference(before, identity_of(earlier)), "");
  EXPECT_EQ(before.schedule_steps, 100U);
  EXPECT_EQ(before.earlier_rates, earlier.earlier_rates);
  EXPECT_EQ(before.cpu_capability, now.cpu_capability);
  EXPECT_EQ(before.bf16_isa, now.bf16_isa);
  EXPECT_EQ(before.environment, now.environment);
}

// Its identity has a key that is no field of a job.
TEST(Identity, JobWithTheIdentityOfAScript_IsThatOfTheScript) {
  Job earlier;
  earlier.task.script = "/run/script/train.py";
  earlier.optimizer = kScriptsOptimizer;
  earlier.train_samples = 64;
  const Job before = job_with_identity(identity_of(earlier), Job{});
  EXPECT_TRUE(is_script(before));
  EXPECT_EQ(difference(before, identity_of(earlier)), "");
}

TEST(Identity, AnotherSeed_IsAnotherRun) {
  Job job, other;
  other.seed = job.seed + 1;
  const nlohmann::json identity = identity_of(other);
  use_changes_of(job, identity);
  EXPECT_EQ(difference(job, identity), "seed");
}

// Runs of earlier versions have exactly these options.
TEST(Identity, OfEachOptimizer_HasTheOptionsThatItUses) {
  const std::set<std::string> every = {"momentum", "dampening", "nesterov", "beta1",
                                       "beta2",    "alpha",     "rho",      "eps"};
  const std::map<std::string, std::set<std::string>> expected = {{"sgd", {"momentum"}},
                                                                 {"adam", {"beta1", "beta2", "eps"}},
                                                                 {"adamw", {"beta1", "beta2", "eps"}},
                                                                 {"adadelta", {"eps", "rho"}},
                                                                 {"rmsprop", {"alpha", "eps", "momentum"}},
                                                                 {kScriptsOptimizer, {"eps"}}};
  for (const auto& [optimizer, options] : expected) {
    Job job;
    job.optimizer = optimizer;
    std::set<std::string> found;
    const nlohmann::json identity = identity_of(job);
    for (const auto& [key, value] : identity.items())
      if (every.contains(key)) found.insert(key);
    EXPECT_EQ(found, options) << optimizer;
  }
  Job job;
  job.dampening = 0.5;
  job.nesterov = true;
  EXPECT_EQ(identity_of(job).at("dampening"), 0.5);
  EXPECT_EQ(identity_of(job).at("nesterov"), true);
}

}  // namespace
}  // namespace rekindle::protocol
