// What a script is between two attempts, and what it says before its run begins.
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "base/text.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

// `width` of the model's only layer, and `count` of samples.
std::string small(const std::string& width, const std::string& count, const std::string& comment = "") {
  return str("import torch, rekindle\n", comment, "rekindle.run(model=lambda: torch.nn.Linear(4, ", width,
             "), loss=lambda model, x: (model(x) ** 2).mean(), train_data=[torch.ones(4)] * ", count,
             ", test_data=[torch.ones(4)] * 4, batch_size=16, micro_batches=2, steps=4)\n");
}

TEST_F(Python, ScriptChangesBetweenTwoAttempts_WarnedOfOnceOrRefusedByName) {
  const fs::path dir = scratch_ / "run";
  const auto go_on = [&](const std::string& text, const Arguments& more) {
    return run(Arguments{"local", "--run-dir", dir} + more + Arguments{script("train.py", text)});
  };
  ASSERT_EQ(go_on(small("3", "64"), {}).exit_code, 0);
  const Outcome strict = go_on(small("3", "64", "# other\n"), {"--steps", "8", "--strict"});
  EXPECT_EQ(strict.exit_code, 78) << strict.out << strict.err;
  const Outcome changed = go_on(small("3", "64", "# other\n"), {"--steps", "8"});
  EXPECT_EQ(changed.exit_code, 0) << changed.out << changed.err;
  EXPECT_EQ(times_in(changed.out, "the trainers have script "), 1U) << changed.out;
  const Outcome wider = go_on(small("5", "64"), {"--steps", "12"});
  EXPECT_EQ(wider.exit_code, 78) << wider.out << wider.err;
  EXPECT_EQ(times_in(wider.err, "holds another model's tensors: it has weight (float32, [3, 4])"), 1U)
      << wider.err;
  const Outcome longer = go_on(small("3", "80"), {"--steps", "12"});
  EXPECT_EQ(longer.exit_code, 78) << longer.out << longer.err;
  EXPECT_EQ(times_in(longer.err, "samples"), 1U) << longer.err;

  const std::string load = str("import torch, rekindle\ntry:\n    rekindle.load('", dir.string(),
                               "', torch.nn.Linear(4, 5))\nexcept rekindle.RekindleError as error:\n"
                               "    print(error)\n");
  const Outcome loaded = python({script("load.py", load)});
  EXPECT_EQ(
      times_in(
          loaded.out,
          "the checkpoint is of another model: its weight is float32 [3, 4], the model's is float32 [5, 4]: "
          "has the script changed?\n"),
      1U)
      << loaded.out << loaded.err;
}

// The script itself stays as it is.
TEST_F(Python, ModuleBesideTheScriptChangesBetweenTwoAttempts_WarnedOfOnceOrRefused) {
  const std::string train = script("train.py", small("3", "64", "import beside\n"));
  const auto go_on = [&](const std::string& module, const Arguments& more) {
    script("beside.py", module);
    return run(Arguments{"local", "--run-dir", scratch_ / "run"} + more + Arguments{train});
  };
  ASSERT_EQ(go_on("VALUE = 1\n", {}).exit_code, 0);
  const Outcome same = go_on("VALUE = 1\n", {"--steps", "6", "--strict"});
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  const Outcome strict = go_on("VALUE = 2\n", {"--steps", "8", "--strict"});
  EXPECT_EQ(strict.exit_code, 78) << strict.out << strict.err;
  const Outcome changed = go_on("VALUE = 2\n", {"--steps", "8"});
  EXPECT_EQ(changed.exit_code, 0) << changed.out << changed.err;
  EXPECT_EQ(times_in(changed.out, "the trainers have script "), 1U) << changed.out;
}

// As of an editable install. Nodes may have it in different places, and what is installed has a version.
TEST_F(Python, ModuleOnPythonpathChangesBetweenTwoAttempts_WarnedOfOnceOrRefused) {
  fs::create_directories(scratch_ / "scripts");
  fs::create_directories(scratch_ / "here/own");
  fs::create_directories(scratch_ / "site-packages");
  const std::string train = script("scripts/train.py", small("own.WIDTH", "64", "import own, installed\n"));
  script("here/own/__init__.py", "from own.width import WIDTH\n");
  script("here/own/width.py", "WIDTH = 3\n");
  script("site-packages/installed.py", "");
  const auto go_on = [&](const std::string& place, const Arguments& more) {
    ::setenv("PYTHONPATH",
             str((scratch_ / place).string(), ":", (scratch_ / "site-packages").string()).c_str(), 1);
    Outcome outcome = run(Arguments{"local", "--run-dir", scratch_ / "run"} + more + Arguments{train});
    ::unsetenv("PYTHONPATH");
    return outcome;
  };
  ASSERT_EQ(go_on("here", {}).exit_code, 0);
  fs::rename(scratch_ / "here", scratch_ / "there");
  script("site-packages/installed.py", "# another version\n");
  const Outcome same = go_on("there", {"--steps", "6", "--strict"});
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  script("there/own/width.py", "WIDTH = 2 + 1\n");
  const Outcome strict = go_on("there", {"--steps", "8", "--strict"});
  EXPECT_EQ(strict.exit_code, 78) << strict.out << strict.err;
  const Outcome changed = go_on("there", {"--steps", "8"});
  EXPECT_EQ(changed.exit_code, 0) << changed.out << changed.err;
  EXPECT_EQ(times_in(changed.out, "the trainers have script "), 1U) << changed.out;
}

TEST_F(Python, ArgumentsOfTheScriptChangeBetweenTwoAttempts_WarnedOfOnceOrRefused) {
  const std::string train = script("train.py", small("3", "64"));
  const auto go_on = [&](const Arguments& more, const Arguments& of_script) {
    return run(Arguments{"local", "--run-dir", scratch_ / "run"} + more + Arguments{train} + of_script);
  };
  ASSERT_EQ(go_on({}, {"--lr", "0.1"}).exit_code, 0);
  const Outcome same = go_on({"--steps", "6", "--strict"}, {"--lr", "0.1"});
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  const Outcome strict = go_on({"--steps", "8", "--strict"}, {"--lr", "0.2"});
  EXPECT_EQ(strict.exit_code, 78) << strict.out << strict.err;
  const Outcome changed = go_on({"--steps", "8"}, {"--lr", "0.2"});
  EXPECT_EQ(changed.exit_code, 0) << changed.out << changed.err;
  EXPECT_EQ(times_in(changed.out, "the trainers have script arguments --lr 0.2 (not --lr 0.1)"), 1U)
      << changed.out;
}

// Libraries look for a script's folder in its functions (Hydra) or in its frames (dotenv). The original
// changes as soon as a trainer has begun.
TEST_F(Python, ScriptWhoseCopyRuns_CodeHasTheNameOfTheOriginalAndTracebacksTheLinesOfTheCopy) {
  const std::string train = script("train.py", R"(
import inspect, os, sys, torch, rekindle
def loss(model, x):
    assert inspect.getfile(loss) == sys._getframe().f_code.co_filename == os.path.abspath(__file__)
    assert os.path.samefile(os.path.dirname(inspect.getfile(loss)), os.path.dirname(sys.argv[0]))
    with open(__file__, "w") as file: file.write("# edited\n" * 20)
    raise ValueError("seen")  # in the copy
rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=loss, train_data=[torch.ones(4)] * 16, batch_size=16,
             micro_batches=1, loader_threads=0, steps=1)
)");
  const fs::path dir = scratch_ / "run";
  const Outcome outcome = run({"local", "--run-dir", dir, train});
  EXPECT_EQ(outcome.exit_code, 70) << outcome.out << outcome.err;
  EXPECT_GE(times_in(outcome.out + outcome.err, "ValueError: seen"), 1U) << outcome.out << outcome.err;
  std::string logs;
  for (const auto& entry : fs::directory_iterator(dir / "logs")) logs += read_text(entry.path()).value_or("");
  EXPECT_GE(times_in(logs, str("File \"", train, "\", line 7, in loss")), 1U) << logs;
  EXPECT_GE(times_in(logs, "raise ValueError(\"seen\")  # in the copy"), 1U) << logs;
}

// Python looks for modules in the folder of the script behind the link, and __file__ is the link.
TEST_F(Python, ScriptThatIsALink_FindsTheModulesBesideTheOneBehindIt) {
  fs::create_directories(scratch_ / "shared");
  script("shared/beside.py", "WIDTH = 3\n");
  const std::string file =
      script("shared/train.py", small("beside.WIDTH", "64",
                                      "import os, beside\n"
                                      "assert os.path.basename(__file__) == 'link.py'\n"));
  fs::create_symlink(file, scratch_ / "link.py");
  const Outcome outcome = run({"local", "--run-dir", scratch_ / "run", scratch_ / "link.py"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
}

// `python -m`: a script of a package, and one in a folder that is no package.
TEST_F(Python, ScriptStartedByItsModule_FindsTheOthersOfItsPackage) {
  fs::create_directories(scratch_ / "outer/inner");
  fs::create_directories(scratch_ / "scripts");
  for (const char* name : {"outer/__init__.py", "outer/inner/__init__.py"}) script(name, "");
  script("outer/width.py", "WIDTH = 3\n");
  const std::string train =
      script("outer/inner/train.py", small("WIDTH", "64", "from ..width import WIDTH\nimport outer.inner\n"));
  script("scripts/beside.py", "from outer.width import WIDTH\n");
  script("scripts/train.py", small("WIDTH", "64", "from .beside import WIDTH\nimport scripts.beside\n"));
  for (const char* module : {"outer.inner.train", "scripts.train"}) {
    const std::string shell = str("cd ", scratch_.path().string(), " && exec \"$@\" -m ", module);
    Program program(Arguments{"/bin/sh", "-c", shell, "sh"} + python_with({}));
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    fs::rename(scratch_ / "run", scratch_ / module);
  }
  EXPECT_EQ(digest_of(scratch_ / "outer.inner.train"), digest_of(scratch_ / "scripts.train"));
  const auto go_on = [&](const std::string& steps) {
    return run({"local", "--run-dir", scratch_ / "outer.inner.train", "--steps", steps, train});
  };
  const Outcome same = go_on("6");
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  EXPECT_EQ(times_in(same.out, "the trainers have script "), 0U) << same.out;
  script("outer/width.py", "WIDTH = 2 + 1\n");
  const Outcome changed = go_on("8");
  EXPECT_EQ(times_in(changed.out, "the trainers have script "), 1U) << changed.out << changed.err;
}

// What argparse prints is shown, before the line that says that the script must not decide so.
TEST_F(Python, ScriptThatLeavesBeforeItsRun_ItsOwnWordsAreShown) {
  const std::string train = script("train.py", str("import argparse\nparser = argparse.ArgumentParser()\n",
                                                   "parser.add_argument('--width', help='of the layer')\n",
                                                   "parser.parse_args()\n", small("3", "64")));
  const Outcome wrong = run({"local", "--run-dir", scratch_ / "run", train, "--wdith", "3"});
  EXPECT_EQ(wrong.exit_code, 64) << wrong.out << wrong.err;
  EXPECT_EQ(times_in(wrong.err, "error: unrecognized arguments: --wdith 3\n"), 1U) << wrong.err;
  EXPECT_EQ(times_in(wrong.err, "left with 2 before its rekindle.run()"), 1U) << wrong.err;
  const Outcome help = run({"local", "--run-dir", scratch_ / "run", train, "-h"});
  EXPECT_EQ(times_in(help.err, "of the layer"), 1U) << help.out << help.err;
  EXPECT_FALSE(fs::exists(scratch_ / "run"));
}

// The script runs twice: in `python train.py`, and for the description of its run.
TEST_F(Python, RunDirectoryThatTheScriptMakesUp_RunOfTheFirstOne) {
  const std::string text =
      str("import os, torch, rekindle\nrun = rekindle.run(model=lambda: torch.nn.Linear(4, 3), ",
          "loss=lambda model, x: (model(x) ** 2).mean(), train_data=[torch.ones(4)] * 64, ",
          "batch_size=16, steps=4, run_dir='", (scratch_ / "run-").string(),
          "' + str(os.getpid()))\nprint('made', len(run.metrics()['loss']))\n");
  const Outcome outcome = python({script("train.py", text)});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.out, "made 4\n"), 1U) << outcome.out << outcome.err;
}

// As under Hydra, or with a parser of its own. The other processes execute the script from its first line.
TEST_F(Python, ScriptThatChangesItsFolderAndArguments_RunsFromWhereAndWithWhatItWasStarted) {
  const std::string train = script("train.py", R"(
import os, sys, torch
assert sys.argv.pop(1) == "--width"
import rekindle
width = int(sys.argv.pop(1))
os.makedirs("work", exist_ok=True)
os.chdir("work")
run = rekindle.run(model=lambda: torch.nn.Linear(4, width), loss=lambda model, x: (model(x) ** 2).mean(),
                   train_data=[torch.ones(4)] * 16, batch_size=16, micro_batches=1, steps=2, run_dir="run")
print("trained", len(run.metrics()["loss"]))
)");
  const auto in_folder = [this](Arguments words) {
    words.insert(words.begin() + 1, "--chdir=" + scratch_.path().string());
    Program program(words);
    return program.wait();
  };
  const Outcome outcome = in_folder(python_with({"train.py", "--width", "3"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.out, "trained 2\n"), 1U) << outcome.out << outcome.err;
  EXPECT_TRUE(fs::exists(scratch_ / "work/run/run.toml"));
  const Outcome again =
      in_folder({"/usr/bin/env", rekindle(), "local", "--run-dir", "work/run", train, "--width", "3"});
  EXPECT_EQ(again.exit_code, 0) << again.out << again.err;
  EXPECT_EQ(times_in(again.out, "the run is complete: 2 steps"), 1U) << again.out << again.err;
  EXPECT_EQ(times_in(again.out + again.err, "it was trained with"), 0U) << again.out << again.err;
}

// As %run of IPython does.
TEST_F(Python, ScriptThatASessionRunsTwice_TwoRuns) {
  const std::string train = script("train.py", R"(
import sys, torch, rekindle
def train():
    run = rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=lambda model, x: model(x).sum(),
                       train_data=[torch.ones(4)] * 16, batch_size=16, micro_batches=1, steps=2, run_dir=sys.argv[1])
    print("trained", run.path.name)
train()
try:
    train()
except rekindle.RekindleError as error:
    print("refused", error.what)
)");
  const Outcome outcome = python({script("session.py", R"(
import runpy, sys
script, folder = sys.argv[1:]
for name in ("one", "two"):
    sys.argv = [script, folder + "/" + name]
    runpy.run_path(script, run_name="__main__")
)"),
                                  train, scratch_.path()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  for (const char* line : {"trained one\nrefused the script calls run() a second time\n",
                           "trained two\nrefused the script calls run() a second time\n"})
    EXPECT_EQ(times_in(outcome.out, line), 1U) << line << outcome.out << outcome.err;
}

TEST_F(Python, InterpreterWithoutTorch_ALineThatSaysSo) {
  const std::string bare = script("bare", str("#!/bin/sh\nexec ", python_, " -S \"$@\"\n"));
  fs::permissions(bare, fs::perms::owner_all);
  const Outcome outcome =
      run({"local", "--run-dir", scratch_ / "run", "--python", bare, script("train.py", small("3", "64"))});
  EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.err, "has no torch: pip install torch"), 1U) << outcome.err;
}

}  // namespace
}  // namespace rekindle::process_test
