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

// As to a log of its own.
TEST_F(PythonDevelopment, ScriptWithAnotherStderr_TheErrorIsTheReason) {
  for (const char* other : {"sys.stderr = open(os.devnull, 'w')", "sys.stderr = None",
                            "os.dup2(os.open(os.devnull, os.O_WRONLY), 2)"}) {
    const Outcome outcome =
        run({"local", "--run-dir", scratch_ / "run", with(str(other, "\nraise ValueError('odd')\n"))});
    EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("train.py cannot be trained: ValueError: odd: it was run by "));
    EXPECT_EQ(times_in(outcome.err, "Traceback"), 1U) << outcome.err;
  }
}

// Like IPython, which executes files and cells in a module of its own. No run begins.
constexpr const char* kSession = R"(
import builtins, sys, types, rekindle
from rekindle import _call

builtins.__IPYTHON__ = True
main = sys.modules["__main__"] = types.ModuleType("__main__")
CALL = "import rekindle\nrekindle.run(None, lambda *all: 0, []"

def start(command, *_):
    print("started", command[4])
    return 75

def execute(text, name):
    try:
        exec(compile(text, name, "exec"), vars(main))
    except SystemExit as ended:
        print("ended", ended.code)
    except rekindle.RekindleError as error:
        print(error)

_call.run_program = start
file = sys.argv[1]
)";

TEST_F(PythonDevelopment, FilesAndCellsThatASessionExecutesAgain_AreNewRuns) {
  const std::string file = script("train.py", "");
  const Outcome outcome = python({script("session.py", str(kSession, R"(
execute(CALL + ')', "cell 1")
main.__file__ = file
for text in CALL + ')', CALL + ')', CALL + ', seed=3)':
    execute(text, file)
for _ in range(2):
    execute(CALL + ', seed=4)', "cell 2")
execute("try:\n    " + CALL.replace("\n", "\n    ") + ')\nexcept SystemExit:\n    ' + CALL.split("\n")[1] + ')', file)
del main.__rekindle_run__
for _ in range(2):
    execute(CALL + ')', "cell 3")
execute(CALL + ')', "cell 4")
)")),
                                  file});
  const std::string started = str("started ", file, "\nended 75\n");
  const std::string other_cell =
      "this session has called run() before: trainers execute the file up to its first run(): execute the "
      "whole file, as by %run\n";
  EXPECT_EQ(outcome.out, str("run() needs a script: write the training into a file: trainers run it too\n",
                             started, started, started, other_cell, other_cell, "started ", file,
                             "\nthe script calls run() a second time: start the script once for each run\n",
                             started, started, other_cell))
      << outcome.err;
}

// The profiler would be the script.
TEST_F(PythonDevelopment, ScriptUnderAProfiler_IsTheScript) {
  const std::string file = script("train.py", R"(import rekindle
from rekindle import _call
_call.run_program = lambda command, variables, folder: print(command[4:], variables["REKINDLE_PACKAGE"]) or 75
rekindle.run(None, lambda *all: 0, [])
)");
  const std::string expected = str("['", file, "', '--width', '3'] \n");
  for (const Arguments& before : {Arguments(), Arguments{"-m", "cProfile"}}) {
    const Outcome outcome = python(before + Arguments{file, "--width", "3"});
    EXPECT_EQ(times_in(outcome.out, expected), 1U) << outcome.out << outcome.err;
  }
}

// As `python -m zipapp` makes it.
TEST_F(PythonDevelopment, ScriptInAnArchive_Refused) {
  const std::string archive = scratch_ / "app.pyz";
  const Outcome made = python({"-c", R"(import sys, zipfile
zipfile.ZipFile(sys.argv[1], "w").writestr("__main__.py", "import rekindle\nrekindle.run(None, lambda *all: 0, [])\n")
)",
                               archive});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const Outcome outcome = python({archive});
  EXPECT_EQ(outcome.exit_code, 64);
  EXPECT_EQ(outcome.err, str("rekindle: run() needs a script that is a file, and ", archive,
                             "/__main__.py is in an archive: unpack it\n"));
}

// The trainers execute the program, which has all tests. A test may execute the script, or start it.
TEST_F(PythonDevelopment, RunInATestOfPytest_Refused) {
  const std::string file = script("train.py", "import rekindle\nrekindle.run(None, lambda *all: 0, [])\n");
  const char* const tests = R"(import runpy, sys, types
import rekindle
from rekindle import _call
_call.run_program = lambda *_: 75

def test():
    rekindle.run(None, lambda *all: 0, [])

def test_script():
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")

pytest = types.ModuleType("_pytest.python")
exec('def call(test): test()', vars(pytest))
pytest.call(test_script if sys.argv[1:] else test)
)";
  const std::string program = script("tests.py", tests);
  const Outcome in_test = python({program});
  EXPECT_EQ(in_test.exit_code, 64);
  EXPECT_EQ(in_test.err,
            "rekindle: run() is called in a test of pytest: start the script with subprocess: trainers would "
            "execute all tests\n");
  const Outcome started = python({program, file});
  EXPECT_EQ(started.exit_code, 75) << started.err;
}

// They are no arguments of the script. %run sets those.
TEST_F(PythonDevelopment, ArgumentsOfTheKernel_NotTheScripts) {
  const std::string file = script("train.py", "");
  const Outcome outcome = python({script("kernel.py", str(kSession, R"(
main.__file__ = file
_call.run_program = lambda command, *_: print(command[4:]) or 75
sys.argv = ["kernel.py", "-f", "/tmp/x.json"]
execute(CALL + ')', file)
sys.argv = [file, "--width", "3"]
execute(CALL + ')', file)
)")),
                                  file});
  EXPECT_EQ(outcome.out, str("['", file, "']\nended 75\n['", file, "', '--width', '3']\nended 75\n"))
      << outcome.err;
}

}  // namespace
}  // namespace rekindle::process_test
