// Which checkpoints a run makes and keeps.
#include <gtest/gtest.h>

#include <csignal>
#include <set>

#include "../checkpoint/resign.hpp"
#include "base/files.hpp"
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
  ASSERT_TRUE(best && *best);
  EXPECT_EQ(committed_steps(dir), (std::set<std::uint64_t>{**best, 160}));
}

// A run of a program that knew another version of the format.
TEST(Checkpoints, OfAnotherFormatVersion_TheRunEndsWith78AndTheyKeepTheirNames) {
  const Scratch scratch;
  const fs::path dir = scratch / "run";
  ASSERT_EQ(run(mnist_run(dir, 1, 4) + Arguments{"--checkpoint-every", "2"}).exit_code, 0);
  const auto committed = checkpoint::list_committed(dir);
  ASSERT_EQ(committed.size(), 2U);
  for (const checkpoint::CheckpointId& id : committed) {
    const fs::path manifest = checkpoint::directory_of(dir, id) / "manifest.json";
    std::string text = *read_text(manifest);
    const auto place = text.find("\"version\": 2");
    ASSERT_NE(place, std::string::npos);
    ASSERT_TRUE(replace_file(manifest, checkpoint::resigned(text.replace(place + 11, 1, "9"))));
  }
  const Outcome resumed = run(mnist_run(dir, 1, 8));
  EXPECT_EQ(resumed.exit_code, 78) << resumed.err;
  EXPECT_NE(resumed.err.find("its format is version 9"), std::string::npos) << resumed.err;
  EXPECT_EQ(checkpoint::list_committed(dir), committed);
}

TEST(Checkpoints, ByInterval_MadeWhileTheRunGoesOn) {
  const Scratch scratch;
  const fs::path dir = scratch / "run";
  Program program(Arguments{rekindle()} + mnist_run(dir, 2, 1000000) +
                  Arguments{"--checkpoint-interval", "300ms"});
  ASSERT_TRUE(eventually([&] { return committed_steps(dir).size() >= 3; }));
  EXPECT_TRUE(program.running());
  program.signal(SIGUSR1);
  EXPECT_EQ(program.wait().exit_code, 75);
}

// The interval is the run's, not a trainer's.
TEST(Checkpoints, ByInterval_MadeThoughNoTrainerLivesThatLong) {
  const Scratch scratch;
  const fs::path dir = scratch / "run";
  Program program(Arguments{rekindle()} + mnist_run(dir, 1, 1000000) +
                  Arguments{"--checkpoint-interval", "20s"});
  constexpr std::uint64_t kSteps = 100;  // a life
  bool rewound = true;
  const bool made = eventually([&] {
    const std::uint64_t step = reached_step(dir);
    rewound = rewound || step < kSteps;
    if (rewound && step >= kSteps && committed_steps(dir).empty()) {
      for (const pid_t pid : parts_of(dir, "trainer")) ::kill(pid, SIGKILL);
      rewound = false;
    }
    return !committed_steps(dir).empty();
  });
  EXPECT_TRUE(made);
  program.signal(SIGUSR1);
  EXPECT_EQ(program.wait().exit_code, 75);
}

}  // namespace
}  // namespace rekindle::process_test
