// Promise 3 on real processes: if any process dies, hangs or is suspended, the others continue and the bits
// stay the same.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "base/files.hpp"
#include "base/text.hpp"
#include "live_run.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

constexpr int kSteps = 80;

class Survival : public ::testing::TestWithParam<const char*> {
 protected:
  void TearDown() override {
    program_.reset();
    EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
  }

  fs::path dir() const { return scratch_ / "run"; }
  std::vector<pid_t> parts(const std::string& part) const { return parts_of(dir(), part); }
  std::string log() const {
    const auto text = read_text(run::Layout(dir()).log("coordinator"));
    return text ? *text : "";
  }

  void begin(int workers, const Arguments& more = {}) {
    program_.emplace(Arguments{rekindle()} + mnist_run(dir(), workers, kSteps) +
                     Arguments{"--exchange", GetParam(), "--checkpoint-every", "20"} + more);
    wait_for_step(static_cast<std::uint64_t>(std::uniform_int_distribution(3, 25)(random_)));
    ASSERT_EQ(parts("trainer").size(), static_cast<std::size_t>(workers));
    // A random moment in a step.
    ::usleep(static_cast<useconds_t>(std::uniform_int_distribution(0, 60000)(random_)));
  }
  void wait_for_step(std::uint64_t step) {
    ASSERT_TRUE(eventually([&] { return reached_step(dir()) >= step || !program_->running(); }));
    ASSERT_TRUE(program_->running()) << program_->wait().err;
  }
  pid_t any(const std::vector<pid_t>& pids) {
    EXPECT_FALSE(pids.empty());
    return pids.empty() ? 0 : pids[std::uniform_int_distribution<std::size_t>(0, pids.size() - 1)(random_)];
  }
  static void kill_all(const std::vector<pid_t>& pids, int signal = SIGKILL) {
    for (const pid_t pid : pids) {
      if (pid > 0) ::kill(pid, signal);
    }
  }
  void expect_same_end() {
    const Outcome outcome = program_->wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    EXPECT_EQ(digest_of(dir()), quiet_digest(kSteps)) << outcome.out;
    EXPECT_EQ(reached_step(dir()), static_cast<std::uint64_t>(kSteps));
    EXPECT_EQ(missing_steps(dir(), kSteps), std::vector<std::uint64_t>{});
  }

  const unsigned seed_ = std::random_device{}();
  std::mt19937 random_{seed_};
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__, str("seed ", seed_)};
  Scratch scratch_;
  std::optional<Program> program_;
};
INSTANTIATE_TEST_SUITE_P(Exchanges, Survival, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return info.param; });

TEST_P(Survival, TrainerKilled) {
  ASSERT_NO_FATAL_FAILURE(begin(3));
  kill_all({any(parts("trainer"))});
  expect_same_end();
}

TEST_P(Survival, WorkerKilled) {
  ASSERT_NO_FATAL_FAILURE(begin(3));
  kill_all({any(parts("worker"))});
  expect_same_end();
}

TEST_P(Survival, CoordinatorKilled_TrainingGoesOnWithoutIt) {
  ASSERT_NO_FATAL_FAILURE(begin(2));
  kill_all(parts("coordinator"));
  expect_same_end();
  EXPECT_NE(log().find("is taken over"), std::string::npos);
  EXPECT_EQ(log().find("generation t2.g1"), std::string::npos);  // no step was lost, no generation ended
}

TEST_P(Survival, CoordinatorAndATrainerKilledAtOnce) {
  ASSERT_NO_FATAL_FAILURE(begin(3));
  kill_all({any(parts("trainer")), parts("coordinator").at(0)});
  expect_same_end();
}

TEST_P(Survival, AllTrainersButOneKilled) {
  ASSERT_NO_FATAL_FAILURE(begin(4));
  auto trainers = parts("trainer");
  trainers.pop_back();
  kill_all(trainers);
  expect_same_end();
}

TEST_P(Survival, AllTrainersKilled_RestoredInProcess) {
  ASSERT_NO_FATAL_FAILURE(begin(2));
  wait_for_step(22);  // there is a checkpoint to go back to
  kill_all(parts("trainer"));
  expect_same_end();
}

TEST_P(Survival, TwoTrainersKilledOneAfterTheOther) {
  ASSERT_NO_FATAL_FAILURE(begin(4));
  const auto trainers = parts("trainer");
  kill_all({trainers[0]});
  ::usleep(static_cast<useconds_t>(std::uniform_int_distribution(0, 500000)(random_)));
  kill_all({trainers[2]});
  expect_same_end();
}

TEST_P(Survival, TrainerStopped_DeclaredLostAndReplaced) {
  ASSERT_NO_FATAL_FAILURE(begin(3, {"--lost-after", "2s"}));
  const pid_t victim = any(parts("trainer"));
  kill_all({victim}, SIGSTOP);
  ASSERT_TRUE(eventually([&] { return ::kill(victim, 0) != 0; }));  // its worker has killed it
  expect_same_end();
}

TEST_P(Survival, StopWhileATrainerDies_SavedAndResumed) {
  ASSERT_NO_FATAL_FAILURE(begin(3));
  kill_all({any(parts("trainer"))});
  program_->signal(SIGUSR1);
  const Outcome outcome = program_->wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  const std::uint64_t step = reached_step(dir());
  EXPECT_NE(outcome.out.find(str("stopped at step ", step)), std::string::npos) << outcome.out;
  program_.emplace(Arguments{rekindle()} + mnist_run(dir(), 2, kSteps));
  expect_same_end();
}

TEST_P(Survival, StopWhileTheCoordinatorDies_SavedAndResumed) {
  ASSERT_NO_FATAL_FAILURE(begin(2));
  program_->signal(SIGUSR1);
  kill_all(parts("coordinator"));
  EXPECT_EQ(program_->wait().exit_code, 75);
  program_.emplace(Arguments{rekindle()} + mnist_run(dir(), 3, kSteps));
  expect_same_end();
}

// For tests in which the run must not end before an event was seen.
class LongSurvival : public LiveRun, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Exchanges, LongSurvival, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return info.param; });

TEST_P(LongSurvival, TrainerKilledWhileTheStateIsCopiedToANewcomer) {
  ASSERT_NO_FATAL_FAILURE(begin(3, {"--exchange", GetParam()}));
  ::kill(parts_of(dir(), "trainer").at(0), SIGKILL);
  // The second generation after this one copies the state to the replacement of the killed trainer.
  ASSERT_NO_FATAL_FAILURE(wait_for_log("1 of them new"));
  ::kill(parts_of(dir(), "trainer").at(0), SIGKILL);
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(5));
  stop_and_compare();
}

TEST_P(LongSurvival, WorkerStopped_DoesNoHarmWhenItGoesOn) {
  ASSERT_NO_FATAL_FAILURE(begin(3, {"--exchange", GetParam(), "--lost-after", "2s"}));
  const pid_t victim = parts_of(dir(), "worker").at(1);
  ::kill(victim, SIGSTOP);
  ASSERT_NO_FATAL_FAILURE(wait_for_log("no heartbeat"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  ::kill(victim, SIGCONT);
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(10));
  stop_and_compare();
}

}  // namespace
}  // namespace rekindle::process_test
