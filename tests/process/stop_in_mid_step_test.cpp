// A signal arrives while a step is computed. The step is finished and saved; if that takes longer than
// --stop-within, the step is dropped and the state before it is saved. In both cases the run continues with
// the same bits.
#include <gtest/gtest.h>

#include <csignal>

#include "base/files.hpp"
#include "base/text.hpp"
#include "harness.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

constexpr int kWorkers = 2;

class StopInMidStep : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run({"make-data", "mnist", scratch_ / "data", "--samples", "4000"}).exit_code, 0);
  }
  fs::path dir() const { return scratch_ / "run"; }
  // Steps of about a second.
  Arguments long_steps(const fs::path& run_dir, std::uint64_t steps, const Arguments& more = {}) const {
    return Arguments{"local",   "--run-dir",       run_dir,  "--workers",       std::to_string(kWorkers),
                     "--model", "mnist-cnn",       "--data", scratch_ / "data", "--batch-size",
                     "1000",    "--micro-batches", "8",      "--steps",         std::to_string(steps)} +
           more;
  }
  // Stopped by a signal just after its second step; the step of the state that was committed then.
  void stop_in_third_step(const Arguments& more) {
    Program program(Arguments{rekindle()} + long_steps(dir(), 1000, more));
    ASSERT_TRUE(eventually([&] { return reached_step(dir()) >= 2 || !program.running(); }));
    before_ = reached_step(dir());
    program.signal(SIGUSR1);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
    log_ = read_text(run::Layout(dir()).log("coordinator")).value_or("");
    EXPECT_EQ(missing_steps(dir(), reached_step(dir())), std::vector<std::uint64_t>{});
    EXPECT_TRUE(has_logged(str("checkpoint of step ", reached_step(dir()), " is committed"))) << log_;
  }
  bool has_logged(const std::string& words) const { return log_.find(words) != std::string::npos; }
  void expect_same_bits_afterwards() {
    const std::uint64_t steps = reached_step(dir()) + 1;
    EXPECT_EQ(run(long_steps(dir(), steps)).exit_code, 0);
    EXPECT_EQ(run(long_steps(scratch_ / "quiet", steps)).exit_code, 0);
    EXPECT_EQ(digest_of(dir()), digest_of(scratch_ / "quiet"));
    const std::string log = read_text(run::Layout(dir()).log("coordinator")).value_or("");
    EXPECT_NE(log.find(str("resumes from step ", steps - 1)), std::string::npos) << log;
  }

  Scratch scratch_;
  std::uint64_t before_ = 0;  // the step that the run had reached when the signal was sent
  std::string log_;           // the log of the coordinator
};

TEST_F(StopInMidStep, WithoutALimit_TheStepIsFinishedAndSaved) {
  ASSERT_NO_FATAL_FAILURE(stop_in_third_step({}));
  EXPECT_FALSE(has_logged("takes too long")) << log_;
  EXPECT_GT(reached_step(dir()), before_);
  expect_same_bits_afterwards();
}

TEST_F(StopInMidStep, ShorterThanTheStep_ItIsGivenUpAndTheStateBeforeItSaved) {
  ASSERT_NO_FATAL_FAILURE(stop_in_third_step({"--stop-within", "1ms"}));
  EXPECT_TRUE(has_logged(str("takes too long: the state of step ", before_, " is written instead"))) << log_;
  EXPECT_EQ(reached_step(dir()), before_);
  expect_same_bits_afterwards();
}

TEST_F(StopInMidStep, LongerThanTheStep_ItIsFinishedAndSaved) {
  ASSERT_NO_FATAL_FAILURE(stop_in_third_step({"--stop-within", "10min"}));
  EXPECT_FALSE(has_logged("takes too long")) << log_;
  EXPECT_GT(reached_step(dir()), before_);
  expect_same_bits_afterwards();
}

}  // namespace
}  // namespace rekindle::process_test
