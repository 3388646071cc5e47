// Missing programs of Slurm are reported at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../temporary_directory.hpp"
#include "slurm/programs.hpp"

namespace rekindle::slurm {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class SlurmPrograms : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "srun-is-a-folder" / "srun"); }
  void put(const std::string& name, fs::perms permissions = fs::perms::owner_all) {
    std::ofstream(folder_ / name) << "#!/bin/sh\n";
    fs::permissions(folder_ / name, permissions);
  }
  std::string path() const { return "/nowhere:" + folder_.string(); }

  TemporaryDirectory directory_;
  const fs::path folder_ = directory_.path();
};

TEST_F(SlurmPrograms, Missing_NamedWithFoldersAndConsequence) {
  const Status checked = check_programs(programs_of_a_job(false), path());
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ExitCode::kConfig);
  EXPECT_THAT(checked.error().line(),
              AllOf(HasSubstr("scontrol and srun are not on PATH (" + path() + ")"),
                    HasSubstr("; scontrol is needed to learn the job's nodes and requeue the job; srun is "
                              "needed to start workers on the nodes: "),
                    Not(HasSubstr("sbatch"))));
  put("scontrol");
  const Status one = check_programs(programs_of_a_job(true), path());
  ASSERT_FALSE(one);
  EXPECT_THAT(one.error().line(), HasSubstr("srun, squeue and sbatch are not on PATH"));
  put("srun");
  EXPECT_TRUE(check_programs(programs_of_a_job(false), path()));
  EXPECT_FALSE(check_programs(programs_of_submit(), path()));
}

TEST_F(SlurmPrograms, FoldersAndFilesThatCannotBeRun_AreNoPrograms) {
  put("scontrol", fs::perms::owner_read);
  const Status checked =
      check_programs(programs_of_a_job(false), path() + ":" + (folder_ / "srun-is-a-folder").string());
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().line(), HasSubstr("scontrol and srun are not on PATH"));
  EXPECT_FALSE(check_programs(programs_of_a_job(false), ""));
}

}  // namespace
}  // namespace rekindle::slurm
