// How a script is developed: with a debugger, in a session, in a test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

using testing::HasSubstr;

class PythonDevelopment : public Python {
 protected:
  // A script that calls run() with `arguments` besides, after `prelude`.
  std::string with(const std::string& prelude, const std::string& arguments = "steps=2") const {
    return script("train.py", str("import os, sys, torch, rekindle\n", prelude, R"(
rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=lambda model, x: (model(x) ** 2).mean(),
             train_data=[torch.ones(4)] * 16, batch_size=16, micro_batches=1, loader_threads=0, run_dir=')",
                                  (scratch_ / "run").string(), "', ", arguments, ")\n"));
  }
};

// A terminal, or in a container the worker's link to its supervisor: what reads from either waits for ever.
TEST_F(PythonDevelopment, StdinOfTheRun_IsNotThatOfTrainersAndSpares) {
  const std::string train =
      with("assert os.path.samefile('/proc/self/fd/0', '/dev/null')\n", "steps=1000000");
  Program program(Arguments{"/bin/sh", "-c", "exec \"$@\" < \"$0\"", train, rekindle()} +
                  local(scratch_ / "run", 1, "shm", 0, train));
  ASSERT_TRUE(eventually([&] { return reached_step(scratch_ / "run") > 0 || !program.running(); }));
  EXPECT_TRUE(fs::equivalent(str("/proc/", program.pid(), "/fd/0"), train));
  std::vector<pid_t> spares;
  ASSERT_TRUE(
      eventually([&] { return !(spares = spares_of(scratch_ / "run")).empty() || !program.running(); }));
  ASSERT_FALSE(spares.empty());
  EXPECT_EQ(fs::read_symlink(str("/proc/", spares.front(), "/fd/0")), "/dev/null");
  program.signal(SIGUSR1);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
}

TEST_F(PythonDevelopment, ScriptThatAsksATerminal_TheErrorSaysHowToDebug) {
  const std::string advice = "trainers read no terminal: debug without a run: python -c 'import train; ";
  for (const auto& [asks, error] : {std::pair("input()", "EOFError: EOF when reading a line: "),
                                    std::pair("breakpoint()", "bdb.BdbQuit: ")}) {
    const Outcome outcome = run({"local", "--run-dir", scratch_ / "run", with(str(asks, "\n"))});
    EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(str("train.py cannot be trained: ", error, advice)));
  }
  const Outcome hints = python({"-c",
                                "import bdb; from rekindle._errors import hint_for\n"
                                "for error in bdb.BdbQuit(), EOFError('EOF when reading a line'), "
                                "EOFError('Ran out of input'): print(hint_for(error))\n"});
  EXPECT_EQ(times_in(hints.out, advice), 2U) << hints.out << hints.err;
  EXPECT_EQ(times_in(hints.out, "the traceback is in logs/"), 1U) << hints.out;
}

}  // namespace
}  // namespace rekindle::process_test
