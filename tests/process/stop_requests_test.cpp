// `rekindle stop` while no coordinator runs.
#include <gtest/gtest.h>

#include <csignal>

#include "base/files.hpp"
#include "base/process.hpp"
#include "faults_fixture.hpp"
#include "run/layout.hpp"
#include "run/terms.hpp"

namespace rekindle::process_test {
namespace {

class StopRequests : public Faults {
 protected:
  Arguments job(int steps = 100000) const {
    return mnist_run(dir(), 1, steps) + Arguments{"--checkpoint-every", "5"};
  }
  // Kills all processes of a run at one moment, so that none can report an end.
  void crash() {
    Program program(Arguments{rekindle()} + job());
    ASSERT_NO_FATAL_FAILURE(reach(program, 12));
    for (const int signal : {SIGSTOP, SIGKILL}) {
      for (const pid_t pid : processes_with(dir())) ::kill(pid, signal);
    }
    program.wait();
    ASSERT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
  }
  std::string request() const { return read_text(run::Layout(dir()).stop_request()).value_or(""); }
};

// The command that starts the run again reads options, data and model for a second or more before its
// coordinator claims the run.
TEST_F(StopRequests, AskedWhileACrashedRunIsBeingStartedAgain_IsObeyed) {
  ASSERT_NO_FATAL_FAILURE(crash());
  Program program(Arguments{rekindle()} + job());
  pid_t question = 0;  // the child that describes the model
  ASSERT_TRUE(eventually([&] {
    for (int i = 0; i < 1000 && question == 0; ++i) {
      const auto children = children_of(program.pid());
      if (!children.empty()) question = children.front();
    }
    return question != 0 || !program.running();
  }));
  ASSERT_EQ(::kill(question, SIGSTOP), 0);
  ASSERT_TRUE(is_running(question)) << "the question was answered too early for this test";
  ASSERT_EQ(run::newest_term(run::Layout(dir())).value()->term, 1U) << "nothing has claimed the run yet";
  const Outcome stop = run({"stop", dir()});
  EXPECT_EQ(stop.exit_code, 0) << stop.err;
  EXPECT_NE(stop.out.find("if it is just being started again"), std::string::npos) << stop.out;
  ::kill(question, SIGCONT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("stopped"), std::string::npos) << outcome.out;
}

TEST_F(StopRequests, AskedBeforeTheRunIsStartedAgain_IsOldAndRemoved) {
  ASSERT_NO_FATAL_FAILURE(crash());
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  ASSERT_FALSE(request().empty());
  const int steps = static_cast<int>(reached_step(dir())) + 5;
  const Outcome outcome = run(job(steps));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(request(), "");
}

}  // namespace
}  // namespace rekindle::process_test
