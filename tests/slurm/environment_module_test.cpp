// The slurm module without Slurm: parsing of the environment and of scontrol's output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/text.hpp"
#include "slurm/commands.hpp"
#include "slurm/environment.hpp"

namespace rekindle::slurm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Getenv environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? "" : found->second;
  };
}

// ---- environment ----

TEST(SlurmEnvironment, CountsOfNodes) {
  EXPECT_THAT(expand_counts("4(x3),2"), ElementsAre(4, 4, 4, 2));
  EXPECT_THAT(expand_counts("8"), ElementsAre(8));
  for (const char* rubbish : {"", "x", "4(x", "4(x3", "4(y3)", "-1", "4(x99999999999)", "4,,2", "4(x3)5"})
    EXPECT_THAT(expand_counts(rubbish), IsEmpty()) << rubbish;
}

TEST(SlurmEnvironment, TasksThatNobodyAskedForAreNotTrainers) {
  const auto read = [](std::map<std::string, std::string> more) {
    more["SLURM_JOB_ID"] = "7";
    more["SLURMD_NODENAME"] = "n1";
    return read_environment(environment(more))->tasks_per_node;
  };
  EXPECT_EQ(read({{"SLURM_TASKS_PER_NODE", "32(x2)"}}), 0U);
  EXPECT_EQ(read({{"SLURM_TASKS_PER_NODE", "2(x2),1"}, {"SLURM_NTASKS", "5"}}), 1U);
  EXPECT_EQ(read({{"SLURM_NTASKS_PER_NODE", "4"}}), 4U);
}

// Each version of Slurm has its own words for --gpus-per-task.
TEST(SlurmEnvironment, GpusOfATask_InEachVersionsWords) {
  const auto read = [](const char* name, const char* value) {
    return read_environment(environment({{"SLURM_JOB_ID", "7"}, {"SLURMD_NODENAME", "n1"}, {name, value}}))
        ->gpus_per_task;
  };
  for (const char* value : {"2", "a100:2"}) EXPECT_EQ(read("SLURM_GPUS_PER_TASK", value), 2U) << value;
  for (const char* value : {"gres/gpu=2", "gres/gpu:a100=2", "gres/gpu:2", "cpu=8,gres/gpu:h200:2"})
    EXPECT_EQ(read("SLURM_TRES_PER_TASK", value), 2U) << value;
  EXPECT_EQ(read("SLURM_TRES_PER_TASK", "cpu=8,license=2"), 0U);
}

// Slurm would give a step on one of several nodes either too few GPUs, or none because they are not all
// there.
TEST(SlurmEnvironment, GpusThatAStepAsksFor_AreThoseOfItsNode) {
  const auto asks = [](std::map<std::string, std::string> more) {
    more.insert({{"SLURM_JOB_ID", "7"}, {"SLURMD_NODENAME", "n1"}, {"SLURM_GPUS_ON_NODE", "2"}});
    return read_environment(environment(more))->gpus_to_ask_for(1);
  };
  EXPECT_EQ(asks({{"SLURM_JOB_CPUS_PER_NODE", "4(x2)"}}), 0U);
  for (const char* all : {"4", "a100:4"}) {
    EXPECT_EQ(asks({{"SLURM_JOB_CPUS_PER_NODE", "4(x2)"}, {"SLURM_GPUS", all}}), 2U) << all;
    EXPECT_EQ(asks({{"SLURM_JOB_CPUS_PER_NODE", "4"}, {"SLURM_GPUS", all}}), 0U) << all;
  }
  EXPECT_EQ(asks({{"SLURM_JOB_CPUS_PER_NODE", "4(x2)"},
                  {"SLURM_TASKS_PER_NODE", "3(x2)"},
                  {"SLURM_GPUS_PER_TASK", "1"},
                  {"SLURM_GPUS", "6"}}),
            3U);
}

TEST(SlurmEnvironment, OutsideOfAJobOrInsideOfAStep_Refused) {
  const auto outside = read_environment(environment({}));
  ASSERT_FALSE(outside);
  EXPECT_THAT(outside.error().line(), HasSubstr("this is not a Slurm job"));
  EXPECT_EQ(outside.error().code, ExitCode::kUsage);
  const auto interactive = read_environment(environment({{"SLURM_JOB_ID", "7"}}));
  ASSERT_FALSE(interactive);
  EXPECT_THAT(interactive.error().line(), HasSubstr("this is an interactive allocation (salloc)"));
  EXPECT_EQ(interactive.error().code, ExitCode::kUsage);
  const auto step = read_environment(environment({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}}));
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().code, ExitCode::kUsage);
}

TEST(SlurmEnvironment, AnArrayTaskIsNotItsArray) {
  const auto task = read_environment(environment({{"SLURM_JOB_ID", "9"},
                                                  {"SLURMD_NODENAME", "n1"},
                                                  {"SLURM_ARRAY_JOB_ID", "7"},
                                                  {"SLURM_ARRAY_TASK_ID", "2"}}));
  EXPECT_EQ(task->id(), "7_2");
  EXPECT_EQ(task->follows, "");
  EXPECT_EQ(expand_pattern("runs/%A-%a-%j-%%-%x-%", *task), "runs/7-2-9-%-%x-%");
  EXPECT_EQ(expand_pattern("runs/%3a-%04A-%2x-%99j-%0a-%5", *task), "runs/002-0007-%2x-%99j-2-%5");
}

TEST(SlurmEnvironment, ASuccessorKnowsWhichJobItFollows) {
  const auto successor =
      read_environment(environment({{"SLURM_JOB_ID", "9"}, {"SLURMD_NODENAME", "n1"}, {kFollows, "8"}}));
  EXPECT_EQ(successor->follows, "8");
}

// A job that was submitted in an array task of a requeued job inherits that task's variables.
TEST(SlurmEnvironment, WhatAnotherJobLeftThereIsCorrected) {
  Environment inherited;
  inherited.job = "11";
  inherited.array_job = "10";
  inherited.array_task = "1";
  inherited.restarts = 3;
  inherited.tasks_per_node = 3;
  inherited.tasks = {1, 1};
  inherited.gpus_of_all = 4;
  JobFacts facts;
  facts.tasks = 2;
  correct(inherited, facts);
  EXPECT_EQ(inherited.id(), "11");
  EXPECT_EQ(inherited.restarts, 0U);
  EXPECT_EQ(inherited.tasks_per_node, 0U);
  EXPECT_EQ(inherited.gpus_of_all, 0U);
  Environment own = inherited;
  own.restarts = 1;
  own.tasks_per_node = 2;
  own.tasks = {2, 2};
  facts.restarts = 2;  // requeued while the attempt started
  facts.tasks = 4;
  facts.array_job = "10";
  facts.array_task = "7";
  correct(own, facts);
  EXPECT_EQ(own.id(), "10_7");
  EXPECT_EQ(own.restarts, 1U);
  EXPECT_EQ(own.tasks_per_node, 2U);
}

// The batch script of such a job has all GPUs of its node, here four.
TEST(SlurmEnvironment, ExclusiveJob_HasTheGpusThatItAskedFor) {
  const auto gpus = [](std::vector<std::uint64_t> cpus, const JobFacts& asked, std::uint64_t per_task = 0) {
    Environment environment;
    environment.cpus = std::move(cpus);
    environment.tasks = std::vector<std::uint64_t>(environment.cpus.size(), 2);
    environment.gpus = 4;
    environment.gpus_per_task = per_task;
    correct(environment, asked);
    return environment.gpus;
  };
  JobFacts per_node, of_all;
  per_node.gpus_per_node = 2;
  of_all.gpus = 3;
  EXPECT_EQ(gpus({8, 8}, per_node), 2U);
  EXPECT_EQ(gpus({8}, of_all), 3U);
  EXPECT_EQ(gpus({8, 8}, of_all), 4U) << "each step asks for them";
  EXPECT_EQ(gpus({8, 8}, {}, 1), 2U);
  EXPECT_EQ(gpus({8, 8}, {}), 4U);
}

// ---- the output of scontrol ----

constexpr const char* kJob =
    "JobId=4 ArrayJobId=3 ArrayTaskId=1 JobName=a Restarts=9\n   JobState=FAILED\n"
    "   UserId=root(0) GroupId=root(0) MCS_label=N/A\n"
    "   JobState=RUNNING Reason=None Dependency=(null)\n"
    "   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0\n"
    "   RunTime=00:00:10 TimeLimit=00:01:00 TimeMin=N/A\n"
    "   StartTime=2026-11-22T08:00:00 EndTime=2026-11-22T08:01:00 Deadline=N/A\n"
    "   PreemptEligibleTime=2026-11-22T08:00:00 PreemptTime=None\n"
    "   NodeList=n[1-3]\n"
    "   Command=/x/JobState=NONE\n";

TEST(SlurmCommands, JobIsReadWhateverItsNameIs) {
  const auto facts = parse_job(kJob);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->state, "RUNNING");
  EXPECT_EQ(facts->restarts, 2U);
  EXPECT_TRUE(facts->may_requeue);
  EXPECT_FALSE(facts->preempted);
  EXPECT_TRUE(facts->end);
  EXPECT_EQ(facts->node_list, "n[1-3]");
  EXPECT_EQ(facts->array_job + "_" + facts->array_task, "3_1");
}

TEST(SlurmCommands, PreemptionIsReadWithItsTime) {
  std::string text = kJob;
  const std::string none = "PreemptTime=None";
  for (const char* unknown : {"PreemptTime=Unknown", "PreemptTime=N/A", ""})
    EXPECT_FALSE(parse_job(std::string(kJob).replace(text.find(none), none.size(), unknown))->preempted);
  text.replace(text.find(none), none.size(), "PreemptTime=2026-11-22T08:00:45");
  const auto facts = parse_job(text);
  ASSERT_TRUE(facts && facts->preempted && facts->end);
  EXPECT_EQ(*facts->end - *facts->preempted, std::chrono::seconds(15));
}

TEST(SlurmCommands, GpusOfAJob_InEachVersionsWords) {
  for (const char* words : {"gres:gpu:4", "gres:gpu:a100:4", "gres/gpu:4", "gres/nvme:1,gres/gpu:a100:4",
                            "gres/gpu:a100:3,gres/gpu:v100"}) {
    EXPECT_EQ(parse_job(str(kJob, "   TresPerJob=", words, "\n"))->gpus, 4U) << words;
    EXPECT_EQ(parse_job(str(kJob, "   TresPerNode=", words, "\n"))->gpus_per_node, 4U) << words;
  }
  for (const char* key : {"TresPerJob", "TresPerNode", "TresPerSocket", "TresPerTask"})
    EXPECT_TRUE(parse_job(str(kJob, "   ", key, "=gres:gpu:1\n"))->asks_for_gpus) << key;
  const auto none = parse_job(str(kJob, "   TresPerNode=gres:nvme:1\n"));
  EXPECT_EQ(none->gpus + none->gpus_per_node, 0U);
  EXPECT_FALSE(none->asks_for_gpus);
}

TEST(SlurmCommands, FewestGpusOfANode) {
  const auto fewest = [](const std::string& first, const std::string& second) {
    return parse_fewest_gpus(
        str("JobId=4 JobName=a\n   JOB_GRES=gpu:9\n     Nodes=n[1-2] CPU_IDs=0-3 Mem=0 GRES=", first,
            "\n     Nodes=n3 CPU_IDs=0-1 Mem=0 GRES=", second, "\n   MinCPUsNode=1\n"));
  };
  EXPECT_EQ(fewest("gpu:4(IDX:0-3)", "gpu:2(IDX:0,3)"), 2U);
  EXPECT_EQ(fewest("nvme:1(IDX:0),gpu:a100:2(IDX:0,3)", "gpu:a100:1(IDX:0),gpu:h200:2(IDX:1-2)"), 2U);
  EXPECT_EQ(fewest("gpu:4(IDX:0-3)", ""), 0U);
  EXPECT_EQ(parse_fewest_gpus("   NodeList=n1\n"), 0U);
  EXPECT_EQ(gpus_in("gres:gpu:2080ti"), 1U) << "a type, and no number";
  EXPECT_EQ(gpus_in("cpu=1,gres/gpu:3g.40gb=2"), 2U);
}

TEST(SlurmCommands, RubbishIsNoAnswer) {
  for (const char* rubbish :
       {"", "slurm_load_jobs error: Unable to contact slurm controller", "JobState=RUNNING", "   Restarts=1",
        "   Requeue=1 Restarts=x\n   JobState=RUNNING"})
    EXPECT_FALSE(parse_job(rubbish)) << rubbish;
}

TEST(SlurmCommands, ConfigAndAddresses) {
  const auto config = parse_config(
      "Configuration data as of today\nKillWait                = 30 sec\nRequeueExit = (null)\n");
  EXPECT_EQ(leading_number(config.at("KillWait")), 30U);
  EXPECT_EQ(config.at("RequeueExit"), "");
  const auto addresses =
      parse_addresses("NodeName=n1 Arch=x NodeAddr=10.0.0.1 Port=1\nNodeName=n2 NodeAddr=b\n");
  EXPECT_EQ(addresses.at("n1"), "10.0.0.1");
  EXPECT_EQ(addresses.at("n2"), "b");
}

TEST(SlurmCommands, SuccessorIsOneThatWaitsForThisVeryJobAndHasItsName) {
  const std::string text =
      "12 (null) run\n"
      "13 afterany:5(unfulfilled) other\n"
      "14 afterany:55(unfulfilled) run\n"
      "15 afterany:5_1(unfulfilled) run\n"
      "16_[3] afterok:2(unfulfilled),afterany:7_3(unfulfilled) a run\n"
      "17 singleton(unfulfilled) run\n";
  EXPECT_EQ(parse_successor(text, "5", "run"), "");
  EXPECT_EQ(parse_successor(text, "5", "other"), "13");
  EXPECT_EQ(parse_successor(text, "5_1", "run"), "15");
  EXPECT_EQ(parse_successor(text, "7_3", "a run"), "16_3");
  EXPECT_EQ(parse_successor("rubbish\n\n x", "5", "run"), "");
}

}  // namespace
}  // namespace rekindle::slurm
