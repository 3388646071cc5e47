// What later commands do with a run of a script: the same command again, evaluate and audit, and the programs
// that a run keeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// Its arguments: the model's width, and a word that changes nothing.
constexpr const char* kScript = R"(import os, sys, torch, rekindle
class Numbers(torch.utils.data.Dataset):
    def __init__(self): self.count = int(open("count.txt").read())
    def __len__(self): return self.count
    def __getitem__(self, index): return torch.full((4,), index / self.count), 1
def loss(model, batch): return (model(batch[0]) ** 2).mean()
rekindle.run(model=lambda: torch.nn.Linear(4, int(sys.argv[1])), loss=loss, train_data=Numbers, test_data=Numbers,
             optimizer=rekindle.SGD(lr=0.1, weight_decay=0.1), no_decay=["*bias"], batch_size=16, micro_batches=2, epochs=2)
)";

class PythonLater : public Python {
 protected:
  void SetUp() override {
    Python::SetUp();
    std::ofstream(scratch_ / "count.txt") << 64;
  }
  // A command that is typed in this folder.
  Outcome in(const fs::path& folder, const Arguments& arguments) const {
    Program program(Arguments{"/usr/bin/env", "--chdir=" + folder.string(), rekindle()} + arguments);
    return program.wait();
  }
  Outcome trained(const Arguments& arguments, const Arguments& options = {}) const {
    return in(scratch_.path(),
              Arguments{"local", "--run-dir", "run"} + options + Arguments{"train.py"} + arguments);
  }
};

TEST_F(PythonLater, CompleteRun_IsNotTakenForThatOfAnotherScript) {
  script("train.py", kScript);
  ASSERT_EQ(trained({"3", "a"}).exit_code, 0);
  const Outcome again = trained({"3", "a"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("the run is complete: 8 steps"));
  EXPECT_THAT(again.err, Not(HasSubstr("nothing was trained")));

  const Outcome other = trained({"3", "b"});
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_THAT(
      other.err,
      HasSubstr("run holds a complete run: it was trained with the arguments of the script 3 a, and nothing "
                "was trained now: a new run needs another run_dir (--run-dir)\n"));
  const Outcome strict = trained({"3", "b"}, {"--strict"});
  EXPECT_EQ(strict.exit_code, 78) << strict.out;
  EXPECT_EQ(times_in(strict.err, "it was trained with the arguments of the script 3 a"), 1U) << strict.err;

  const Outcome model = trained({"5", "a"});
  EXPECT_EQ(model.exit_code, 78) << model.out;
  EXPECT_EQ(times_in(model.err, "holds a complete run of another model: its tensor weight is not the same"),
            1U)
      << model.err;

  script("train.py", str(kScript, "# more\n"));
  EXPECT_THAT(trained({"3", "a"}).err,
              HasSubstr("train.py has changed since then, and nothing was trained now"));
}

TEST_F(PythonLater, EvaluateAndAudit_RunTheScriptWhereTheRunWasStarted) {
  script("train.py", kScript);
  ASSERT_EQ(trained({"3"}).exit_code, 0);
  const fs::path elsewhere = scratch_ / "elsewhere";
  fs::create_directory(elsewhere);
  std::ofstream(elsewhere / "count.txt") << 16;
  const Outcome evaluated = in(elsewhere, {"evaluate", "../run", "--json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_EQ(nlohmann::json::parse(evaluated.out).at("test_count"), 64) << evaluated.out;
  const Outcome audit = in(elsewhere, {"audit", "../run", "--from", "0", "--to", "8"});
  EXPECT_EQ(audit.exit_code, 0) << audit.out << audit.err;
  EXPECT_EQ(times_in(audit.out, "bit-identical"), 1U) << audit.out;
}

TEST_F(PythonLater, InterpreterOfTheRunIsGone_AnotherOneIsNamed) {
  script("train.py", kScript);
  const fs::path old = scratch_ / "old-python";
  std::ofstream(old) << "#!/bin/sh\nexec " << python_ << " \"$@\"\n";
  fs::permissions(old, fs::perms::owner_all);
  const Outcome made = trained({"3"}, {"--python", old});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  fs::remove(old);
  const std::vector<Arguments> commands = {{"evaluate", "run", "--json"},
                                           {"audit", "run", "--from", "0", "--to", "8"}};
  for (const Arguments& command : commands) {
    ::unsetenv("REKINDLE_PYTHON");
    const Outcome none = in(scratch_.path(), command);
    EXPECT_EQ(none.exit_code, 78) << none.out;
    EXPECT_THAT(none.err, HasSubstr("there is no " + old.string() + ", the interpreter that "));
    EXPECT_THAT(none.err, HasSubstr("export REKINDLE_PYTHON="));
    ::setenv("REKINDLE_PYTHON", python_.c_str(), 1);
    const Outcome done = in(scratch_.path(), command);
    EXPECT_EQ(done.exit_code, 0) << done.out << done.err;
    EXPECT_THAT(done.err, HasSubstr("runs the script in its place"));
  }
}

TEST_F(PythonLater, ScriptThatCannotBeEvaluated_IsSaidToBeSoWithWhereItsModulesWere) {
  fs::create_directory(scratch_ / "code");
  std::ofstream(scratch_ / "code/beside.py") << "";
  script("code/train.py", str("import beside\n", kScript));
  const Outcome made = in(scratch_.path(), {"local", "--run-dir", "run", "code/train.py", "3"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  fs::rename(scratch_ / "code", scratch_ / "moved");
  const Outcome none = in(scratch_.path(), {"evaluate", "run"});
  EXPECT_EQ(none.exit_code, 78) << none.out;
  EXPECT_THAT(none.err, HasSubstr("train.py cannot be evaluated: ModuleNotFoundError"));
  EXPECT_THAT(none.err, HasSubstr((scratch_ / "code").string() + ", where its modules were, is gone"));
}

// Python divides PYTHONPATH at each colon.
TEST_F(PythonLater, ColonInTheRunDirectory_ProgramsThatTheRunKeepsTrainTheScript) {
  script("train.py", kScript);
  // This Slurm refuses all jobs: submit fails after it has kept the programs.
  const fs::path slurm = scratch_ / "slurm", dir = scratch_ / "at 12:30";
  fs::create_directories(slurm);
  std::ofstream(slurm / "sbatch") << "#!/bin/sh\nexit 1\n";
  std::ofstream(slurm / "scontrol") << "#!/bin/sh\necho 'KillWait = 30 sec'\n";
  for (const char* name : {"sbatch", "scontrol"}) fs::permissions(slurm / name, fs::perms::owner_all);
  const Arguments here{"/usr/bin/env", "--chdir=" + scratch_.path().string(),
                       str("PATH=", slurm.string(), ":", std::getenv("PATH"))};
  Program submit(here + Arguments{rekindle(), "submit", "--run-dir", dir, "train.py", "3"});
  EXPECT_NE(submit.wait().exit_code, 0);
  const fs::path kept = dir / "bin/rekindle";
  ASSERT_TRUE(fs::exists(kept));
  Program program(here +
                  Arguments{kept, "local", "--run-dir", "run", "--loader-threads", "1", "train.py", "3"});
  const Outcome trained = program.wait();
  EXPECT_EQ(trained.exit_code, 0) << trained.out << trained.err;
}

}  // namespace
}  // namespace rekindle::process_test
