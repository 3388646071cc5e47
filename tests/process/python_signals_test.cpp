// Signals to `python train.py` (docs/python.md).
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>

#include "base/text.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

class PythonSignals : public Python {
 protected:
  std::string train(const std::string& before, const std::string& steps, const std::string& after) const {
    return script("train.py",
                  str("import os, signal, subprocess, sys, threading, time, torch, rekindle\n", before, R"(
def train():
    rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=lambda model, values: (model(values) ** 2).mean(),
                 train_data=[torch.ones(4)] * 16, batch_size=16, micro_batches=1, loader_threads=0, steps=)",
                      steps, ", run_dir='", (scratch_ / "run").string(), "')\n", after));
  }
};

TEST_F(PythonSignals, AfterTheRun_HaveTheirUsualEffect) {
  const std::string text = train("signal.signal(signal.SIGUSR1, lambda *_: print('own', flush=True))", "2",
                                 "train()\nprint('after', flush=True)\ntime.sleep(60)\n");
  Program program(python_with({text}));
  ASSERT_TRUE(eventually([&] { return times_in(program.printed(), "after") > 0 || !program.running(); }));
  program.signal(SIGUSR1);
  EXPECT_TRUE(eventually([&] { return times_in(program.printed(), "own") > 0 || !program.running(); }));
  program.signal(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(times_in(outcome.err, "KeyboardInterrupt"), 1U) << outcome.err;
}

// The run's program may get it before it can handle a signal.
TEST_F(PythonSignals, WhileTheRunIsBeingStarted_EndItToo) {
  const std::string text = train(R"(
Popen = subprocess.Popen
def slow(*arguments, **named):
    child = Popen(*arguments, **named)
    os.kill(os.getpid(), signal.SIGTERM)
    return child
subprocess.Popen = slow
)",
                                 "1000000", "train()\n");
  Program program(python_with({text}));
  const Outcome outcome = program.wait();
  EXPECT_TRUE(outcome.exit_code == 75 || outcome.exit_code == 128 + SIGTERM) << outcome.out << outcome.err;
  EXPECT_TRUE(eventually([&] { return processes_with(text).empty(); }, std::chrono::seconds(20)));
}

// As from the stop button of an editor. setsid takes the terminal away.
TEST_F(PythonSignals, InterruptOfTheScriptAloneWithoutATerminal_TheStateIsSaved) {
  const std::string text = train("", "1000000", "train()\n");
  Program program(Arguments{"/usr/bin/setsid"} + python_with({text}));  // the same process
  ASSERT_TRUE(eventually([&] { return reached_step(scratch_ / "run") > 0 || !program.running(); }));
  program.signal(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.out + outcome.err, "KeyboardInterrupt"), 0U) << outcome.err;
}

TEST_F(PythonSignals, RunInAnotherThread_Trains) {
  const Outcome outcome = python({train("", "2", R"(
thread = threading.Thread(target=train)
thread.start()
thread.join()
print("steps", rekindle.open(sys.argv[1]).metrics()["step"][-1])
)"),
                                  scratch_ / "run"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.out, "steps 2"), 1U) << outcome.out << outcome.err;
}

// Python waits for it at its end.
TEST_F(PythonSignals, RunInAThreadThatTheScriptDoesNotJoin_Trains) {
  const std::string text = train("", "2", R"(
def train_at_the_end():
    if not any("rekindle.trainer" in word for word in sys.orig_argv):
        threading.main_thread().join()
    train()
threading.Thread(target=train_at_the_end).start()
)");
  for (const bool by_python : {false, true}) {
    fs::remove_all(scratch_ / "run");
    const Outcome outcome = by_python ? python({text}) : run({"local", "--run-dir", scratch_ / "run", text});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    EXPECT_EQ(reached_step(scratch_ / "run"), 2U);
  }
}

}  // namespace
}  // namespace rekindle::process_test
