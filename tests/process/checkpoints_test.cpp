// Which checkpoints a run writes and keeps.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <optional>
#include <random>
#include <set>

#include "../checkpoint/resign.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/listing.hpp"
#include "harness.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"

namespace rekindle::process_test {
namespace {

std::set<std::uint64_t> committed_steps(const fs::path& run_dir) {
  return checkpoint::steps_of(checkpoint::list_committed(run_dir));
}

TEST(Checkpoints, KeepBest_TheOneOfTheBestEvaluationStays) {
  const Scratch scratch;
  const fs::path dir = scratch / "run";
  // The rate grows until training fails: the last evaluation is not the best.
  const Outcome outcome = run(mnist_run(dir, 2, 160) +
                              Arguments{"--keep", "1", "--keep-best", "--lr-step", "1", "--lr-gamma", "8"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const run::Layout layout(dir);
  const std::set<std::uint64_t> evaluated = run::recorded(layout).evaluated;
  ASSERT_GE(evaluated.size(), 3U);
  const auto best = run::best_evaluated(layout, evaluated, {});
  ASSERT_TRUE(best && *best);
  EXPECT_EQ(committed_steps(dir), (std::set<std::uint64_t>{**best, 160}));
  EXPECT_EQ(run({"digest", dir, "--best"}).out, run({"digest", dir, "--step", str(**best)}).out);
  EXPECT_NE(run({"digest", dir, "--best"}).out, run({"digest", dir}).out);
  const Outcome weights = run({"export", dir, scratch / "best.safetensors", "--best"});
  EXPECT_NE(weights.out.find(str("of step ", **best, " (")), std::string::npos) << weights.out << weights.err;
  const Outcome tested = run({"evaluate", dir, "--best"});
  EXPECT_NE(tested.out.find(str("step ", **best)), std::string::npos) << tested.out << tested.err;
  EXPECT_EQ(run({"digest", dir, "--best", "--step", "160"}).exit_code, 64);
}

TEST(Checkpoints, Keep_TheNewestStayAndAResumeMayChangeHowMany) {
  const Scratch scratch;
  const fs::path dir = scratch / "run";
  // Each attempt writes one checkpoint, at its end.
  const auto kept = [&](int steps, const std::string& how_many) {
    const Outcome outcome = run(mnist_run(dir, 1, steps) + Arguments{"--keep", how_many});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return committed_steps(dir);
  };
  using Steps = std::set<std::uint64_t>;
  EXPECT_EQ(kept(2, "3"), Steps{2});
  EXPECT_EQ(kept(4, "3"), (Steps{2, 4}));
  EXPECT_EQ(kept(6, "3"), (Steps{2, 4, 6}));
  EXPECT_EQ(kept(8, "3"), (Steps{4, 6, 8}));
  // The attempt read this checkpoint completely, so all of its bytes are verified.
  EXPECT_EQ(kept(10, "1"), (Steps{8, 10}));
}

// A run of a program with another version of the format.
TEST(Checkpoints, OfAnotherFormatVersion_TheRunEndsWith78AndTheyKeepTheirNames) {
  const Scratch scratch;
  const fs::path dir = scratch / "run";
  ASSERT_EQ(run(mnist_run(dir, 1, 4) + Arguments{"--checkpoint-every", "2"}).exit_code, 0);
  const auto committed = checkpoint::list_committed(dir);
  ASSERT_EQ(committed.size(), 2U);
  for (const checkpoint::CheckpointId& id : committed) {
    const fs::path manifest = (checkpoint::directory_of(dir, id) / "manifest.json").path();
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

// The interval applies to the run, not to a single trainer.
TEST(Checkpoints, ByInterval_MadeThoughNoTrainerLivesThatLong) {
  const Scratch scratch;
  const fs::path dir = scratch / "run";
  Program program(Arguments{rekindle()} + mnist_run(dir, 1, 1000000) +
                  Arguments{"--checkpoint-interval", "20s"});
  constexpr std::uint64_t kSteps = 100;  // steps after which the trainer is killed
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

// Each killed trainer makes the current checkpoint fail, and each joining trainer ends a generation. In this
// test both happen more often than a checkpoint is due.
TEST(Checkpoints, ThoughTrainersComeAndGoAllTheTime_MadeAllTheTime) {
  constexpr int kFaults = 20, kEvery = 10;
  const unsigned seed = std::random_device{}();
  const testing::ScopedTrace trace(__FILE__, __LINE__, str("seed ", seed));
  std::mt19937 random(seed);
  const auto upto = [&random](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
  const Scratch scratch;
  const fs::path dir = scratch / "run";
  const auto arguments = [](const fs::path& run_dir, std::uint64_t steps) {
    return mnist_run(run_dir, 3, static_cast<int>(steps)) +
           Arguments{"--checkpoint-every", std::to_string(kEvery), "--checkpoint-interval", "24h"};
  };
  Program program(Arguments{rekindle()} + arguments(dir, 1000000));
  std::optional<Program> joiner;
  for (int faults = 0; faults < kFaults; ++faults) {
    const std::uint64_t step = reached_step(dir) + 1 + static_cast<std::uint64_t>(upto(kEvery));
    ASSERT_TRUE(eventually([&] { return reached_step(dir) >= step || !program.running(); }));
    ASSERT_TRUE(program.running()) << program.wait().out << program.wait().err;
    ::usleep(static_cast<useconds_t>(upto(100000)));
    if (upto(4) == 0) {
      if (joiner)
        joiner.reset();  // killed together with its child processes
      else
        joiner.emplace(Arguments{rekindle(), "join", dir});
    } else if (const auto trainers = parts_of(dir, "trainer"); !trainers.empty()) {
      ::kill(trainers[static_cast<std::size_t>(upto(static_cast<int>(trainers.size())))], SIGKILL);
    }
  }
  program.signal(SIGUSR1);
  const Outcome outcome = program.wait();
  ASSERT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  joiner.reset();
  const std::uint64_t steps = reached_step(dir);
  const std::string log = *read_text(run::Layout(dir).log("coordinator"));
  const std::size_t commits = times_in(log, "is committed"), lost = times_in(log, "could not be written");
  std::cout << commits << " checkpoints in " << steps << " steps and " << kFaults << " faults, " << lost
            << " lost" << std::endl;
  EXPECT_GE(2 * commits, steps / kEvery) << log;
  ASSERT_EQ(run(arguments(dir, steps + 3)).exit_code, 0);
  ASSERT_EQ(run(arguments(scratch / "quiet", steps + 3)).exit_code, 0);
  EXPECT_EQ(digest_of(dir), digest_of(scratch / "quiet"));
}

}  // namespace
}  // namespace rekindle::process_test
