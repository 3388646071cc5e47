#include "app/script_copy.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "../temporary_directory.hpp"
#include "base/files.hpp"

namespace rekindle::app {
namespace {

namespace fs = std::filesystem;

class ScriptCopy : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(run_ / "bin" / "script"); }
  // What an attempt runs, if `script` is what the command line names.
  fs::path runs(const fs::path& script) const {
    std::ofstream(script) << "a script";
    return copy_for_attempt(script, layout_).value();
  }
  // What `evaluate` and `audit` run after such an attempt.
  std::string copy_after(const fs::path& script) const {
    protocol::Job job;
    job.task.script = runs(script).string();
    return read_text(copy_of_script(job, layout_)).value_or("none");
  }

  // The script of a run that was started at another path, on this machine.
  std::string found(const fs::path& recorded) const {
    protocol::Job job;
    job.task.script = recorded.string();
    find_script_here(job, layout_);
    return job.task.script;
  }
  static void write(const fs::path& file) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << "a script";
  }

  TemporaryDirectory scratch_;
  const fs::path run_ = scratch_.path() / "run";
  const run::Layout layout_{run_};
};

TEST_F(ScriptCopy, AScriptAnywhere_IsCopiedAndFoundAgain) {
  for (const fs::path& script : {scratch_.path() / "train.py", run_ / "train.py", run_ / "binary.py"}) {
    EXPECT_EQ(runs(script), run_ / "script" / script.filename()) << script;
    EXPECT_EQ(copy_after(script), "a script") << script;
  }
}

TEST_F(ScriptCopy, TheScriptThatIsKeptWithThePrograms_IsItsOwnCopy) {
  const fs::path kept = run_ / "bin" / "script" / "train.py";
  EXPECT_EQ(runs(kept), kept);
  EXPECT_EQ(copy_after(kept), "a script");
  EXPECT_FALSE(fs::exists(run_ / "script"));
  EXPECT_EQ(copy_for_attempt(kept, run::Layout(run_ / "")).value(), kept) << "with a slash at the end";
}

TEST_F(ScriptCopy, RunDirectoryHasAnotherPathOnThisMachine_CopyInItIsFound) {
  write(run_ / "script/train.py");
  EXPECT_EQ(found("/there/run/script/train.py"), run_ / "script/train.py");
  EXPECT_EQ(found("/there/run/bin/script/train.py"), "/there/run/bin/script/train.py") << "there is none";
  write(run_ / "bin/script/train.py");
  EXPECT_EQ(found("/there/run/bin/script/train.py"), run_ / "bin/script/train.py");
}

TEST_F(ScriptCopy, RecordedScriptIsThere_ItRuns) {
  write(run_ / "script/train.py");
  write(run_ / "train.py");
  EXPECT_EQ(found(run_ / "train.py"), run_ / "train.py");
}

TEST_F(ScriptCopy, JobWithoutAScript_StaysSo) { EXPECT_EQ(found(""), ""); }

}  // namespace
}  // namespace rekindle::app
