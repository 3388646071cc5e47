// A stop in each phase of a trainer. The trainer itself says in which phase the stop has found it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "live_run.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

constexpr int kSteps = 1000000, kMostAttempts = 60;

class StopPhases : public LiveRun {
 protected:
  StopPhases() { std::cout << "seed " << seed_ << std::endl; }
  int upto(int n) { return std::uniform_int_distribution(0, n - 1)(random_); }

  // The state is large and the images are small, so that the phases of a step have similar lengths.
  static Arguments job(const fs::path& run_dir, int workers, int steps) {
    return Arguments{"local",
                     "--run-dir",
                     run_dir,
                     "--workers",
                     std::to_string(workers),
                     "--model",
                     "resnet18",
                     "--data",
                     cifar_data(),
                     "--image-size",
                     "32",
                     "--batch-size",
                     "10",
                     "--micro-batches",
                     "2",
                     "--steps",
                     std::to_string(steps),
                     "--checkpoint-every",
                     "3",
                     "--keep",
                     "2"};
  }
  // Waits until a trainer that is not among `others` has logged `words`. Returns 0 if the run ends first.
  pid_t trainer_that_says(const std::string& words, const std::vector<pid_t>& others,
                          Program& program) const {
    pid_t found = 0;
    eventually([&] {
      const std::string logs = trainer_logs();
      for (const pid_t pid : parts_of(dir(), "trainer")) {
        const std::string name = name_of(pid);
        if (name.empty() || std::ranges::find(others, pid) != others.end()) continue;
        const std::string says = str("trainer ", name, ": ");
        for (std::size_t at = logs.find(says); at != std::string::npos; at = logs.find(says, at + 1))
          if (logs.substr(at, logs.find('\n', at) - at).find(words) != std::string::npos) found = pid;
      }
      return found != 0 || !program.running();
    });
    return found;
  }

  // One attempt, which is to be stopped in `phase`. Notes each phase in which the stop has found a trainer.
  void stop_in(const std::string& phase) {
    fs::remove_all(run::Layout(dir()).logs().path());
    Program program(Arguments{rekindle()} + job(dir(), 2, kSteps));
    const std::string begins = "of 2, from step", computes = "micro-batches of step";
    const bool at_begin = phase == "restoring" || phase == "copying";
    pid_t trainer = trainer_that_says(phase == "restoring" ? begins : computes, {}, program);
    ASSERT_NE(trainer, 0);
    if (phase == "copying") {
      const std::vector<pid_t> first = parts_of(dir(), "trainer");
      ::kill(trainer, SIGKILL);
      trainer = trainer_that_says(begins, first, program);
    }
    ASSERT_NE(trainer, 0);
    if (phase == "evaluating") {  // after an epoch of 10 steps
      EXPECT_TRUE(eventually([&] { return reached_step(dir()) % 10 == 9 || !program.running(); }));
      EXPECT_TRUE(eventually([&] { return reached_step(dir()) % 10 == 0 || !program.running(); }));
    } else if (phase == "writing") {
      EXPECT_TRUE(eventually([&] { return unfinished_checkpoint() || !program.running(); }));
    } else if (!at_begin) {
      ::usleep(
          static_cast<useconds_t>(1000 * upto(2500)));  // some moment of some steps; a miss is tried again
    }
    // The trainer is suspended while the order comes to it, so it cannot leave its phase meanwhile.
    ::kill(trainer, SIGSTOP);
    if (unfinished_checkpoint()) hit_.insert("writing");
    program.signal(SIGUSR1);
    EXPECT_TRUE(eventually([&] { return logged("stopping (") || !program.running(); }));
    ::usleep(30'000);  // from the coordinator's line to the order; if it is late, another attempt follows
    ::kill(trainer, SIGCONT);
    const Outcome outcome = program.wait();
    ASSERT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
    const std::string logs = trainer_logs();
    for (const char* each : kPhases)
      if (logs.find(str(", ", each, "\n")) != std::string::npos) hit_.insert(each);
  }

  static constexpr const char* kPhases[] = {"restoring", "copying",    "computing", "exchanging",
                                            "applying",  "evaluating", "writing"};
  std::set<std::string> hit_;
  const unsigned seed_ = std::random_device{}();
  std::mt19937 random_{seed_};
};

TEST_F(StopPhases, OfATrainer_EachIsHitAndTheBitsAreTheSame) {
  // A first checkpoint.
  program_.emplace(Arguments{rekindle()} + job(dir(), 2, kSteps));
  ASSERT_NO_FATAL_FAILURE(wait_for_step(4));
  program_->signal(SIGUSR1);
  ASSERT_EQ(program_->wait().exit_code, 75);
  int attempts = 0;
  for (const char* phase : kPhases) {
    for (; !hit_.contains(phase) && attempts < kMostAttempts; ++attempts)
      ASSERT_NO_FATAL_FAILURE(stop_in(phase));
    EXPECT_TRUE(hit_.contains(phase)) << phase << " was not hit";
    std::cout << phase << ": hit after " << attempts << " attempts" << std::endl;
  }
  const int steps = static_cast<int>(reached_step(dir())) + 2;
  EXPECT_EQ(run(job(dir(), 1, steps)).exit_code, 0);
  EXPECT_EQ(run(job(scratch_ / "quiet", 1, steps)).exit_code, 0);
  EXPECT_EQ(digest_of(dir()), digest_of(scratch_ / "quiet"));
}

}  // namespace
}  // namespace rekindle::process_test
