// The decisions of rekindle submit, without Slurm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "../temporary_directory.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "slurm/ask.hpp"
#include "slurm/commands.hpp"
#include "slurm/output.hpp"
#include "slurm/sbatch_options.hpp"
#include "slurm/script.hpp"

namespace rekindle::slurm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// ---- submitting from within a job ----

// Sites put programs of their own in sbatch's place.
TEST(SlurmSubmit, TheJobsNumberAmongOtherLines_IsFound) {
  const auto id = [](const char* printed) { return ask_for_job({"printf", printed}, {}).value_or("none"); };
  EXPECT_EQ(id("4711\n"), "4711");
  EXPECT_EQ(id("4711;cluster\n"), "4711");
  EXPECT_EQ(id("\n--------\n  Welcome to the 64 node cluster\n--> 2 checks passed\n4711\n"), "4711");
  EXPECT_EQ(id("Welcome\n"), "none");
}

TEST(Submit, FromWithinAJob_ThatJobsVariablesStayBehind) {
  TemporaryDirectory folder;
  std::ofstream(folder.path() / "sbatch") << "#!/bin/sh\necho $((100 + ${SLURM_MEM_PER_NODE:-0}))\n";
  std::filesystem::permissions(folder.path() / "sbatch", std::filesystem::perms::owner_all);
  const std::string path = environment_variable("PATH");
  ::setenv("PATH", str(folder.path().string(), ":", path).c_str(), 1);
  ::setenv("SLURM_MEM_PER_NODE", "5", 1);
  EXPECT_EQ(submit({}).value_or(""), "105") << "set by the person";
  ::setenv("SLURM_JOB_ID", "7", 1);
  EXPECT_EQ(submit({}).value_or(""), "100");
  EXPECT_EQ(submit_text("#!/bin/sh\n").value_or(""), "100");
  for (const char* name : {"SLURM_MEM_PER_NODE", "SLURM_JOB_ID"}) ::unsetenv(name);
  ::setenv("PATH", path.c_str(), 1);
}

// Slurm, too, starts a job whose folder is not there.
TEST(Submit, Successor_FromTheFolderOfTheJobIfItIsThere) {
  const TemporaryDirectory folder;
  std::ofstream(folder.path() / "sbatch")
      << "#!/bin/sh\n[ \"$REKINDLE_FOLLOWS\" = 7 ] && [ -e sbatch ] && echo 1 || echo 2\n";
  std::filesystem::permissions(folder.path() / "sbatch", std::filesystem::perms::owner_all);
  const std::string path = environment_variable("PATH");
  ::setenv("PATH", str(folder.path().string(), ":", path).c_str(), 1);
  Successor successor;
  successor.after = "7";
  successor.directory = folder.path();
  EXPECT_EQ(submit_successor(successor).value_or(""), "1");
  successor.directory = folder.path() / "nowhere";
  EXPECT_EQ(submit_successor(successor).value_or(""), "2");
  ::setenv("PATH", path.c_str(), 1);
}

// ---- a forgotten -- ----

TEST(SbatchOptions, AreTakenWithTheirValues) {
  std::vector<std::string> words{"rekindle",    "submit",  "--run-dir", "r",    "--nodes=4",
                                 "--time",      "1:00:00", "-p",        "long", "-N2",
                                 "--exclusive", "--steps", "5",         "-H"};
  EXPECT_THAT(take_sbatch_options(words),
              ElementsAre("--nodes=4", "--time", "1:00:00", "-p", "long", "-N2", "--exclusive", "-H"));
  EXPECT_THAT(words, ElementsAre("rekindle", "submit", "--run-dir", "r", "--steps", "5"));
}

TEST(SbatchOptions, OthersStay) {
  const std::vector<std::string> all{"--node=4",       "--nodess", "-4",          "-",        "--",
                                     "--bacth-size=5", "--help",   "--test-only", "--wrap=x", "nodes"};
  std::vector<std::string> words = all;
  EXPECT_THAT(take_sbatch_options(words), IsEmpty());
  EXPECT_EQ(words, all);
  std::vector<std::string> last{"--time"};  // sbatch reports the missing value
  EXPECT_THAT(take_sbatch_options(last), ElementsAre("--time"));
}

TEST(SbatchOptions, GpusAreSeenHoweverTheyAreAskedFor) {
  for (const std::vector<std::string>& options : {std::vector<std::string>{"--gpus=4"},
                                                  {"--gpus", "1"},
                                                  {"-G4"},
                                                  {"--gpus-per-task=1"},
                                                  {"--gres=gpu:2"},
                                                  {"--gres", "gpu:a100:2"},
                                                  {"--tres-per-task=gres/gpu:1"}})
    EXPECT_TRUE(asks_for_gpus(options)) << options[0];
  EXPECT_FALSE(asks_for_gpus({"--gres=nvme:1", "--partition=gpu", "--nodes=2"}));
}

TEST(SbatchOptions, ManyCpusAndNoTasks_WouldTrainOnOneCpu) {
  EXPECT_TRUE(asks_for_cpus_alone({"--nodes=2", "--exclusive"}));
  EXPECT_TRUE(asks_for_cpus_alone({"-N2", "-c", "32"}));
  EXPECT_TRUE(asks_for_cpus_alone({"--cpus-per-task=8", "--nodelist=a"}));
  EXPECT_FALSE(asks_for_cpus_alone({"--nodes=2"}));
  EXPECT_FALSE(asks_for_cpus_alone({"-c4"}));
  for (const char* tasks : {"--ntasks-per-node=4", "--ntasks", "-n8"})
    EXPECT_FALSE(asks_for_cpus_alone({"--exclusive", "-c", "8", tasks})) << tasks;
}

TEST(SbatchOptions, ValueHoweverItIsWritten_TheLastOneCounts) {
  for (const std::vector<std::string>& options : {std::vector<std::string>{"--output=b"},
                                                  {"--output", "b"},
                                                  {"-ob"},
                                                  {"-o", "b"},
                                                  {"-oa", "--output=b"},
                                                  {"--output", "a", "-ob"}})
    EXPECT_EQ(option_value(options, "--output", 'o'), "b") << options[0];
  EXPECT_EQ(option_value({"--open-mode=append", "-e", "x", "-o"}, "--output", 'o'), std::nullopt);
  EXPECT_EQ(option_value({"-ob"}, "--output"), std::nullopt);
}

TEST(SlurmScript, HasTheRunDirHoweverItIsWritten) {
  const auto has = [](const std::vector<std::string>& words, const std::string& run_dir) {
    JobScript script;
    script.command = {"/bin/rekindle", "slurm"};
    script.command.insert(script.command.end(), words.begin(), words.end());
    return has_run_dir(to_text(script), run_dir);
  };
  EXPECT_TRUE(has({"--run-dir", "runs/a-%a"}, "runs/a-%a"));
  EXPECT_TRUE(has({"--run-dir=runs/a-%a", "--seed", "%a"}, "runs/a-%a"));
  EXPECT_TRUE(has({"--run-dir=a b/%a"}, "a b/%a"));
  EXPECT_TRUE(has({"--run-dir", "a b/%a", "--seed", "%a"}, "a b/%a"));
  EXPECT_FALSE(has({"--run-dir", "runs/a-%a"}, "runs/a-%"));
  EXPECT_FALSE(has({"--run-dir", "runs/a-%a"}, "a-%a"));
  EXPECT_FALSE(has({"--run-dir", "runs/b-%a", "--seed", "%a"}, "runs/a-%a"));
}

// ---- the output file ----

TEST(SlurmOutput, PatternsThatAreKnownAreFilledIn) {
  const SubmittedJob job{"16", "a b", "me", false};
  EXPECT_EQ(expand_output("/o/%j-%x-%5j-%N-%u-%A-%a-%J-%s-%t-%n-%%j.out", job),
            "/o/16-a b-00016-%N-me-16-4294967294-16-batch-0-0-%j.out");
  EXPECT_EQ(expand_output("/o/%5N%", job), "/o/%5N%");
  EXPECT_EQ(expand_output("/o/\\%j", job), "/o/\\%j");
  const SubmittedJob array{"16", "run", "me", true};
  EXPECT_EQ(expand_output("/o/%A_%a-%j-%J-%5A.out", array), "/o/16_%a-%j-%J-00016.out");
}

TEST(SlurmOutput, SlurmsOwnPathIsRead) {
  const auto facts = parse_job(
      "JobId=4 JobName=a\n   UserId=root(0)\n   JobState=PENDING Reason=PartitionConfig Dependency=(null)\n"
      "   Requeue=1 Restarts=0 ExitCode=0:0\n   Partition=short AllocNode:Sid=a:1\n   Command=/x\n"
      "   StdOut=/a b/o-4.out\n   Power=\n");
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->output, "/a b/o-4.out");
  EXPECT_EQ(facts->partition, "short");
}

// ---- pending jobs ----

TEST(SlurmQueue, JobsAndTheirScripts) {
  const auto jobs = parse_queue("12 RUNNING /a b/job.sh\nrubbish\n13 PENDING (null)\n");
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].id + jobs[0].state + jobs[0].script, "12RUNNING/a b/job.sh");
  EXPECT_EQ(jobs[1].id, "13");
}

TEST(SlurmQueue, ReasonsThatNeverPass) {
  const auto waits = [](const std::string& state, const std::string& reason) {
    JobFacts facts;
    facts.state = state;
    facts.reason = reason;
    return never_starts(facts);
  };
  for (const char* reason :
       {"PartitionConfig", "PartitionTimeLimit", "PartitionNodeLimit", "QOSMaxWallDurationPerJobLimit"})
    EXPECT_EQ(waits("PENDING", reason), reason);
  for (const char* reason : {"None", "Priority", "Resources", "JobHeldUser", "Dependency", "PartitionDown",
                             "QOSMaxCpuPerUserLimit"})
    EXPECT_EQ(waits("PENDING", reason), "") << reason;
  EXPECT_EQ(waits("RUNNING", "PartitionConfig"), "");
}

}  // namespace
}  // namespace rekindle::slurm
