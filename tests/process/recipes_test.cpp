// Optimizers and schedules in whole runs: the bits do not depend on the number of workers, on stops and on
// kills.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

constexpr int kSteps = 40;
// So many that a kill and a stop come in time, and that --milestones 1 (of 62 steps) is passed.
constexpr int kStepsWithFaults = 160;

struct Recipe {
  const char* name;
  Arguments options;
};

class Recipes : public ::testing::TestWithParam<Recipe> {
 protected:
  Outcome train(const fs::path& dir, int workers, int steps, const Arguments& more = {}) const {
    return run(mnist_run(dir, workers, steps) + GetParam().options + more);
  }
  Scratch scratch_;
};
INSTANTIATE_TEST_SUITE_P(
    All, Recipes,
    ::testing::Values(
        Recipe{"AdamW",
               {"--optimizer", "adamw", "--schedule", "cosine", "--warmup-steps", "5", "--lr", "0.002"}},
        Recipe{"Adam", {"--optimizer", "adam", "--schedule", "linear", "--label-smoothing", "0.1"}},
        Recipe{"Nesterov",
               {"--optimizer", "sgd", "--nesterov", "--lr", "0.01", "--schedule", "multi-step",
                "--milestones", "1"}},
        Recipe{"ClippedGroups",
               {"--optimizer", "adamw", "--clip-norm", "0.5", "--no-decay", "*.bias", "--lr-scale",
                "fc2.*=0.5", "--ema", "0.9"}},
        Recipe{"Rmsprop", {"--optimizer", "rmsprop", "--momentum", "0.5", "--lr", "0.0005"}}),
    [](const auto& info) { return info.param.name; });

TEST_P(Recipes, WorkersStopsAndAKill_SameBits) {
  ASSERT_EQ(train(scratch_ / "one", 1, kStepsWithFaults).exit_code, 0);
  const std::string wanted = digest_of(scratch_ / "one");
  ASSERT_EQ(wanted.size(), 33U) << wanted;
  const fs::path dir = scratch_ / "many";
  ASSERT_NO_FATAL_FAILURE(
      kill_a_trainer_and_stop(mnist_run(dir, 3, kStepsWithFaults) + GetParam().options, dir, 8));
  EXPECT_EQ(train(dir, 2, kStepsWithFaults).exit_code, 0);
  EXPECT_EQ(digest_of(dir), wanted);
}

TEST_P(Recipes, TheLossFalls) {
  ASSERT_EQ(train(scratch_ / "run", 1, 3 * kSteps).exit_code, 0);
  std::ifstream file(scratch_ / "run/metrics.jsonl");
  double first = 0, last = 0;
  for (std::string text; std::getline(file, text);) {
    const auto line = nlohmann::json::parse(text, nullptr, false);
    if (!line.contains("loss")) continue;
    if (first == 0) first = line["loss"];
    last = line["loss"];
  }
  EXPECT_LT(last, 0.9 * first);
}

class Schedules : public ::testing::Test {
 protected:
  std::vector<double> rates(const fs::path& dir) const {
    std::vector<double> all;
    std::ifstream file(dir / "metrics.jsonl");
    for (std::string text; std::getline(file, text);) {
      const auto line = nlohmann::json::parse(text, nullptr, false);
      if (line.contains("lr")) all.push_back(line["lr"]);
    }
    return all;
  }
  Scratch scratch_;
};

TEST_F(Schedules, ARunThatIsMadeLonger_KeepsItsLengthAndItsLastRate) {
  const fs::path dir = scratch_ / "run";
  const Arguments cosine{"--schedule", "cosine", "--warmup-steps", "4", "--lr", "1"};
  ASSERT_EQ(run(mnist_run(dir, 1, 20) + cosine).exit_code, 0);
  ASSERT_EQ(run(mnist_run(dir, 1, 25) + cosine).exit_code, 0);
  const std::vector<double> all = rates(dir);
  ASSERT_EQ(all.size(), 25U);
  EXPECT_DOUBLE_EQ(all[0], 0.25);
  EXPECT_DOUBLE_EQ(all[4], 1);
  EXPECT_LT(all[19], 0.02);
  for (std::size_t step = 20; step < 25; ++step) EXPECT_EQ(all[step], all[19]) << step;
}

TEST_F(Schedules, AnotherScheduleOrOptimizer_IsAnotherRun) {
  const fs::path dir = scratch_ / "run";
  ASSERT_EQ(run(mnist_run(dir, 1, 2) + Arguments{"--optimizer", "adam"}).exit_code, 0);
  for (const Arguments& other :
       {Arguments{"--optimizer", "adamw"}, Arguments{"--optimizer", "adam", "--schedule", "cosine"},
        Arguments{"--optimizer", "adam", "--beta2", "0.99"},
        Arguments{"--optimizer", "adam", "--warmup-steps", "1"},
        Arguments{"--optimizer", "adam", "--clip-norm", "1"},
        Arguments{"--optimizer", "adam", "--lr-scale", "fc1.*=0.1"},
        Arguments{"--optimizer", "adam", "--precision", "bf16"}}) {
    const Outcome refused = run(mnist_run(dir, 1, 4) + other);
    EXPECT_EQ(refused.exit_code, 78) << other.back();
    EXPECT_NE(refused.err.find("belongs to another run"), std::string::npos) << refused.err;
  }
  EXPECT_EQ(run(mnist_run(dir, 1, 4) + Arguments{"--optimizer", "adam"}).exit_code, 0);
  const Outcome long_warm_up = run(mnist_run(scratch_ / "other", 1, 4) + Arguments{"--warmup-steps", "4"});
  EXPECT_EQ(long_warm_up.exit_code, 78);
  EXPECT_NE(long_warm_up.err.find("leaves nothing of a run of 4 steps"), std::string::npos)
      << long_warm_up.err;
  EXPECT_FALSE(fs::exists(scratch_ / "other")) << "a command that is refused writes nothing";
}

TEST_F(Schedules, OptionsThatTheScheduleDoesNotUse_AreNamed) {
  const Outcome outcome = run(mnist_run(scratch_ / "run", 1, 2) +
                              Arguments{"--schedule", "cosine", "--lr-step", "10", "--lr-gamma", "0.5"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("warning: --lr-step has no effect with --schedule cosine"), std::string::npos);
  EXPECT_NE(outcome.err.find("warning: --lr-gamma has no effect with"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace rekindle::process_test
