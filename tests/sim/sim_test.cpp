// Runs thousands of schedules of the control plane.
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <sstream>

#include "base/text.hpp"
#include "run.hpp"
#include "world.hpp"

namespace rekindle::sim {
namespace {

// `percent`: of the possible pairs of a state and an event that the schedules must reach.
void report(const Coverage& coverage, std::size_t percent) {
  const Coverage::Summary all = coverage.summary();
  std::cout << all.table << all.reached << " of " << all.possible
            << " possible pairs were reached; not reached:" << all.missing << "\n";
  EXPECT_EQ(all.wrong, "") << "these are possible";
  EXPECT_GE(100 * all.reached, percent * all.possible);
}

void keep_every_promise(std::uint64_t schedules, std::size_t percent) {
  Coverage coverage;
  const Totals totals = run_schedules(1, 1, schedules, coverage);
  ASSERT_EQ(totals.violation, "") << "replay: build/dev/bin/sim --seed " << totals.failed_seed
                                  << " --transcript";
  const double n = static_cast<double>(totals.schedules);
  std::cout << totals.schedules << " schedules; on average " << static_cast<double>(totals.steps) / n
            << " steps, " << static_cast<double>(totals.faults) / n << " faults, "
            << static_cast<double>(totals.events) / n << " events; " << totals.bits_unknown
            << " ended at a flipped bit that no check could notice\n";
  EXPECT_EQ(totals.schedules, schedules);
  EXPECT_GE(totals.steps, 50 * totals.schedules);
  EXPECT_GE(totals.faults, 3 * totals.schedules);
  EXPECT_LE(100 * totals.bits_unknown, totals.schedules) << "their bits are not compared to the end";
  report(coverage, percent);
}

TEST(Simulator, EverySchedule_KeepsEveryPromise) { keep_every_promise(5000, 90); }

TEST(Simulator, TwentyThousandSchedules_KeepEveryPromise) { keep_every_promise(20000, 95); }

TEST(Coverage, AnEvent_IsCountedUnderItsOwnName) {
  Coverage coverage;
  using namespace protocol;
  coverage.coordinator(Phase::kRunning, Swept{});
  coverage.coordinator(Phase::kRunning, Tick{});
  coverage.coordinator(Phase::kEnded, Fenced{});
  coverage.coordinator(Phase::kRunning, TrainerReported{"w", TrainerReady{}});
  coverage.coordinator(Phase::kRunning, TrainerReported{"w", ShardBegun{}});
  EXPECT_EQ(coverage.coordinator_count("running", "Swept"), 1U);
  EXPECT_EQ(coverage.coordinator_count("running", "Tick"), 1U);
  EXPECT_EQ(coverage.coordinator_count("running", "Fenced"), 0U);
  EXPECT_EQ(coverage.coordinator_count("ended", "Fenced"), 1U);
  EXPECT_EQ(coverage.coordinator_count("running", "TrainerReady"), 1U);
  EXPECT_EQ(coverage.coordinator_count("running", "ShardBegun"), 1U);
}

TEST(Simulator, WorkLeftAndNothingThatWillEverHappen_IsADeadlock) {
  Coverage coverage;
  World world(make_plan(1), coverage, nullptr);
  world.engine().at(1500, [&world] { world.engine().forget_all(); });
  const Outcome outcome = world.run();
  EXPECT_TRUE(outcome.violation.starts_with("deadlock: ")) << outcome.violation;
}

// Only what `disturb` adds to a plan, which must not cost a trainer: one generation does the complete run.
void expect_one_generation(const std::function<void(Plan&)>& disturb) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Plan plan = make_plan(seed);
    plan.poison = Poison::kNone;
    plan.bad_host.clear();
    plan.faults.clear();
    plan.nccl_fails.reset();
    plan.samples_away.reset();
    disturb(plan);
    Coverage coverage;
    const Outcome outcome = run_plan(plan, coverage);
    if (outcome.violation.empty() && outcome.generations == 1) continue;
    std::ostringstream transcript;
    run_plan(plan, coverage, &transcript);
    FAIL() << "seed " << seed << " of this test: " << outcome.generations << " generations "
           << outcome.violation << "\n"
           << transcript.str();
  }
}

void expect_one_generation(Fault fault) {
  expect_one_generation([fault](Plan& plan) {
    for (Ms at = 3500; at < 9000; at += 2500) plan.faults.push_back({fault, at, {}, {}, 1});
  });
}

// A fault of NCCL comes again in each generation. Where it hangs, nobody is killed.
TEST(Simulator, NcclThatAlwaysFailsOrHangs_TwoTriesAndThenHostMemory) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Plan plan = make_plan(seed);
    plan.poison = Poison::kNone;
    plan.bad_host.clear();
    plan.faults.clear();
    plan.samples_away.reset();
    plan.on_devices = true;
    plan.job.exchange = "auto";
    plan.nccl_fails = {0, 1000000000, seed % 2 == 0 || seed > 50, seed > 50};
    Coverage coverage;
    const Outcome outcome = run_plan(plan, coverage);
    EXPECT_EQ(outcome.violation, "") << seed;
    EXPECT_EQ(outcome.generations, 3) << seed;
  }
}

TEST(Simulator, KilledCoordinators_NoTrainingStops) { expect_one_generation(Fault::kKillCoordinator); }
TEST(Simulator, SamplesAwayForLessThanTheWait_NobodyIsLost) {
  for (const bool hangs : {false, true})
    expect_one_generation([hangs](Plan& plan) { plan.samples_away = {1500, 5500, hangs, ""}; });
}
TEST(Simulator, SuspendedJob_GoesOnWithNobodyLost) { expect_one_generation(Fault::kSuspendAll); }

}  // namespace
}  // namespace rekindle::sim
