#include "app/script_copy.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "../temporary_directory.hpp"

namespace rekindle::app {
namespace {

namespace fs = std::filesystem;

class ScriptCopy : public testing::Test {
 protected:
  std::string write(const std::string& name) const {
    const fs::path file = scratch_.path() / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << "rekindle.run()\n";
    return file;
  }
  std::string found(const std::string& recorded) const {
    protocol::Job job;
    job.task.script = recorded;
    find_script_here(job, run::Layout(scratch_.path() / "here/run"));
    return job.task.script;
  }

 private:
  TemporaryDirectory scratch_;
};

TEST_F(ScriptCopy, RunDirectoryHasAnotherPathOnThisMachine_CopyInItIsFound) {
  const std::string copy = write("here/run/script/train.py");
  EXPECT_EQ(found("/there/run/script/train.py"), copy);
  EXPECT_EQ(found("/there/run/bin/script/train.py"), "/there/run/bin/script/train.py") << "there is none";
  const std::string of_slurm = write("here/run/bin/script/train.py");
  EXPECT_EQ(found("/there/run/bin/script/train.py"), of_slurm);
}

// A script in the run directory itself has no copy, and an earlier attempt may have left that of another one.
TEST_F(ScriptCopy, RecordedScriptIsThere_ItRuns) {
  write("here/run/script/train.py");
  const std::string recorded = write("here/run/train.py");
  EXPECT_EQ(found(recorded), recorded);
}

TEST_F(ScriptCopy, JobWithoutAScript_StaysSo) { EXPECT_EQ(found(""), ""); }

}  // namespace
}  // namespace rekindle::app
