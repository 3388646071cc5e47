// Which checkpoints a run makes and keeps.
#include <gtest/gtest.h>

#include <set>

#include "checkpoint/checkpoint.hpp"
#include "harness.hpp"
#include "run/records.hpp"

namespace rekindle::process_test {
namespace {

std::set<std::uint64_t> committed_steps(const fs::path& run_dir) {
  std::set<std::uint64_t> steps;
  for (const checkpoint::CheckpointId& id : checkpoint::list_committed(run_dir)) steps.insert(id.step);
  return steps;
}

TEST(Checkpoints, KeepBest_TheOneOfTheBestEvaluationStays) {
  const Scratch scratch;
  const fs::path dir = scratch / "run";
  // The rate grows until nothing is learnt any more: the last evaluation is not the best.
  const Outcome outcome = run(mnist_run(dir, 2, 160) +
                              Arguments{"--keep", "1", "--keep-best", "--lr-step", "1", "--lr-gamma", "8"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const run::Layout layout(dir);
  const std::set<std::uint64_t> evaluated = run::recorded(layout).evaluated;
  ASSERT_GE(evaluated.size(), 3U);
  const auto best = run::best_evaluated(layout, evaluated);
  ASSERT_TRUE(best);
  EXPECT_EQ(committed_steps(dir), (std::set<std::uint64_t>{*best, 160}));
}

}  // namespace
}  // namespace rekindle::process_test
