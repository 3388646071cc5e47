// The slurm module without Slurm: the warnings before a job trains, and the script that is submitted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job_facts.hpp"
#include "slurm/preflight.hpp"
#include "slurm/script.hpp"

namespace rekindle::slurm {
namespace {

using testing::HasSubstr;

// ---- preflight ----

Preflight sound() {
  Preflight known;
  known.job = facts("RUNNING");
  known.script = "#!/bin/bash\n#SBATCH --signal=B:USR1@60 --open-mode=append\nexec rekindle\n";
  known.lead_seconds = 30;
  return known;
}

std::string lines_of(const Preflight& known) {
  std::string all;
  for (const std::string& line : preflight(known)) all += line + "\n";
  return all;
}

TEST(SlurmPreflight, SoundJob_NothingSaid) { EXPECT_EQ(lines_of(sound()), ""); }

TEST(SlurmPreflight, EachFaultHasItsLine) {
  Preflight known = sound();
  known.job->may_requeue = false;
  EXPECT_THAT(lines_of(known), HasSubstr("--no-requeue"));
  known.config["JobRequeue"] = "0";
  EXPECT_THAT(lines_of(known), HasSubstr("slurm.conf has JobRequeue=0"));
  known = sound();
  known.config["RequeueExit"] = "1-3,70-75";
  EXPECT_THAT(lines_of(known),
              testing::AllOf(HasSubstr("lists 75"), HasSubstr("lists 70"), Not(HasSubstr("lists 78"))));
  known = sound();
  known.script = "#!/bin/bash\n#SBATCH --open-mode=append\nexec rekindle\n#SBATCH --signal=B:USR1\n";
  EXPECT_THAT(lines_of(known), HasSubstr("has no --signal"));
  known.has_time_limit = false;
  EXPECT_EQ(lines_of(known), "");
  known = sound();
  known.heterogeneous = true;
  EXPECT_THAT(lines_of(known), HasSubstr("only the nodes of its first component"));
  known = sound();
  known.script = "#!/bin/bash\n#SBATCH --signal USR1@60 # soon\nexec rekindle\n";
  EXPECT_THAT(lines_of(known),
              testing::AllOf(HasSubstr("not to the batch script"), HasSubstr("--open-mode=append")));
  known = sound();
  known.lead_seconds = 90;
  EXPECT_THAT(lines_of(known), HasSubstr("too late"));
  known = sound();
  known.seconds_left = 61;
  EXPECT_EQ(lines_of(known), "");
  known.seconds_left = 60;
  EXPECT_THAT(lines_of(known), HasSubstr("arrives at once"));
  known = sound();
  known.least_cpus = 4;
  known.trainers_per_node = 2;
  known.threads = 3;
  EXPECT_THAT(lines_of(known), HasSubstr("a node has 4 CPUs for 2 trainers"));
  known = sound();
  known.least_cpus = 64;
  EXPECT_EQ(lines_of(known), "") << "on GPUs, or there is no work for more";
  known.idle_micro_batches = 12;
  EXPECT_THAT(lines_of(known), HasSubstr("a node has 64 CPUs, and the run uses 1 of them"));
  known = sound();
  known.gpus_not_asked_for = 4;
  EXPECT_THAT(lines_of(known), HasSubstr("the job did not ask for GPUs"));
  EXPECT_THAT(lines_of(known), HasSubstr("add --gpus-per-node=4"));
  known = sound();
  known.tasks = {40, 20, 4};
  known.trainers_per_node = 4;
  EXPECT_THAT(lines_of(known), HasSubstr("Slurm gave the nodes 4 to 40 tasks, and each node gets 4 of them"));
  known.tasks = {4, 4};
  EXPECT_EQ(lines_of(known), "");
}

TEST(SlurmPreflight, LeadGrowsWithTheState) {
  EXPECT_EQ(signal_lead(0, 0), 30U);
  EXPECT_EQ(signal_lead(1'000'000'000, 1e9), 30U);
  EXPECT_EQ(signal_lead(100'000'000'000, 1e9), 210U);
}

// ---- submit ----

TEST(SlurmScript, UsersOptionsComeLastAndWordsAreQuoted) {
  JobScript script;
  script.name = "my run";
  script.output = "/r/logs/slurm-%j.out";
  script.directory = "/home";
  script.options = {"-N", "2", "--time=1:00", "--comment=it's"};
  script.command = {"/r/bin/rekindle", "slurm", "--run-dir", "/a b", "--seed", "%a", ""};
  const std::string text = to_text(script);
  EXPECT_THAT(text, HasSubstr("#SBATCH --job-name='my run'\n"));
  EXPECT_THAT(text, HasSubstr("#SBATCH --signal=B:USR1@30\n#SBATCH -N 2\n#SBATCH --time=1:00\n"));
  EXPECT_THAT(text, testing::EndsWith("\nexec /r/bin/rekindle slurm --run-dir '/a b' --seed %a ''\n"));
  EXPECT_EQ(quoted("it's"), "'it'\\''s'");
}

TEST(SlurmScript, FolderAboveTheFirstPattern) {
  EXPECT_EQ(without_patterns("/runs/seed-%a"), "/runs");
  EXPECT_EQ(without_patterns("/runs/%A/%a"), "/runs");
  EXPECT_EQ(without_patterns("/runs/one"), "/runs/one");
}

}  // namespace
}  // namespace rekindle::slurm
