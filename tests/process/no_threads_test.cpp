// The parts of a run on a machine, or in a container, that has no process left (pids.max).
#include <gmock/gmock.h>

#include "../needs.hpp"
#include "base/files.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

using ::testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCanPreload = false;
#else
constexpr bool kCanPreload = true;
#endif

class NoThreads : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kCanPreload) REKINDLE_SKIP(Needs::kMachine, "a sanitizer has to be loaded first");
    ASSERT_EQ(run(mnist_run(dir(), 1, 1)).exit_code, 0);
  }
  fs::path dir() const { return scratch_ / "run"; }
  static Outcome without_threads(const Arguments& arguments) {
    return Program(Arguments{"/usr/bin/env", "LD_PRELOAD=" REKINDLE_NO_THREADS, rekindle()} + arguments)
        .wait();
  }
  const Scratch scratch_;
};

// An exit of a coordinator does not count as a crash: its supervisor starts another one later.
TEST_F(NoThreads, Coordinator_EndsByItselfAndSaysWhy) {
  const Outcome outcome = without_threads({"coordinator", "--run-dir", dir(), "--attempt", "1"});
  EXPECT_EQ(outcome.exit_code, 70) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("is a limit of processes reached"));
  EXPECT_THAT(read_text(dir() / "logs/coordinator.log").value_or(""),
              HasSubstr("is a limit of processes reached"));
}

TEST_F(NoThreads, Worker_EndsByItselfWithACodeThatLetsItStartAgain) {
  const Outcome outcome = without_threads({"worker", "--run-dir", dir(), "--name", "w0-t"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("is a limit of processes reached"));
}

}  // namespace
}  // namespace rekindle::process_test
