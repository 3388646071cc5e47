// The slurm room without Slurm: what is parsed, judged and decided.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>

#include "slurm/cause.hpp"
#include "slurm/commands.hpp"
#include "slurm/deadline.hpp"
#include "slurm/environment.hpp"
#include "slurm/preflight.hpp"
#include "slurm/requeue.hpp"
#include "slurm/script.hpp"

namespace rekindle::slurm {
namespace {

using std::chrono::milliseconds;
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

TEST(SlurmEnvironment, OutsideOfAJobOrInsideOfAStep_Refused) {
  const auto outside = read_environment(environment({}));
  ASSERT_FALSE(outside);
  EXPECT_THAT(outside.error().line(), HasSubstr("this is not a Slurm job"));
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
}

TEST(SlurmEnvironment, ASuccessorKnowsWhichJobItFollows) {
  const auto successor =
      read_environment(environment({{"SLURM_JOB_ID", "9"}, {"SLURMD_NODENAME", "n1"}, {kFollows, "8"}}));
  EXPECT_EQ(successor->follows, "8");
}

// sbatch in an array task of a requeued job: its variables are not this job's.
TEST(SlurmEnvironment, WhatAnotherJobLeftThereIsCorrected) {
  Environment inherited;
  inherited.job = "11";
  inherited.array_job = "10";
  inherited.array_task = "1";
  inherited.restarts = 3;
  inherited.tasks_per_node = 3;
  inherited.tasks = {1, 1};
  JobFacts facts;
  facts.tasks = 2;
  correct(inherited, facts);
  EXPECT_EQ(inherited.id(), "11");
  EXPECT_EQ(inherited.restarts, 0U);
  EXPECT_EQ(inherited.tasks_per_node, 0U);
  Environment own = inherited;
  own.restarts = 1;
  own.tasks_per_node = 2;
  own.tasks = {2, 2};
  facts.restarts = 2;  // requeued while it began
  facts.tasks = 4;
  facts.array_job = "10";
  facts.array_task = "7";
  correct(own, facts);
  EXPECT_EQ(own.id(), "10_7");
  EXPECT_EQ(own.restarts, 1U);
  EXPECT_EQ(own.tasks_per_node, 2U);
}

// ---- what scontrol says ----

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
  EXPECT_FALSE(facts->preempting);
  EXPECT_TRUE(facts->end);
  EXPECT_EQ(facts->node_list, "n[1-3]");
  EXPECT_EQ(facts->array_job + "_" + facts->array_task, "3_1");
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

// ---- why an attempt ends ----

JobFacts facts(const std::string& state, const std::string& reason = "None", std::uint64_t restarts = 0) {
  JobFacts job;
  job.state = state;
  job.reason = reason;
  job.restarts = restarts;
  return job;
}

Seen saved(int signal, std::optional<JobFacts> job = std::nullopt) {
  Seen seen;
  seen.exit_code = 75;
  seen.signal = signal;
  seen.facts = std::move(job);
  return seen;
}

TEST(SlurmCause, EachIsToldFromTheOthers) {
  Seen finished = saved(SIGTERM, facts("COMPLETING"));
  finished.exit_code = 0;
  EXPECT_EQ(judge(finished), Cause::kFinished);
  EXPECT_EQ(judge(saved(SIGTERM, facts("COMPLETING"))), Cause::kCancelled);
  EXPECT_EQ(judge(saved(SIGTERM, facts("COMPLETING", "TimeLimit"))), Cause::kTimeLimit);
  EXPECT_EQ(judge(saved(SIGTERM, facts("COMPLETING", "None", 1))), Cause::kRequeued);
  EXPECT_EQ(judge(saved(SIGTERM, facts("RUNNING"))), Cause::kOperator);
  EXPECT_EQ(judge(saved(SIGTERM)), Cause::kUnknown);
  for (const char* state : {"RUNNING", "SUSPENDED", "SIGNALING", "STOPPED", "RESIZING", "CONFIGURING"})
    EXPECT_EQ(judge(saved(SIGUSR1, facts(state))), Cause::kOperator) << state;
  Seen preempted = saved(SIGTERM, facts("COMPLETING", "None", 1));
  preempted.preempting = true;
  EXPECT_EQ(judge(preempted), Cause::kPreemption);
  Seen late = saved(SIGUSR1);
  late.signalled_at = std::chrono::system_clock::now();
  late.limit = late.signalled_at + std::chrono::seconds(50);
  EXPECT_EQ(judge(late), Cause::kTimeLimit);
  late.signal = SIGTERM;
  late.facts = facts("RUNNING");
  EXPECT_EQ(judge(late), Cause::kOperator);  // it says nothing of the time that is left
  Seen one_node = saved(SIGTERM, facts("RUNNING"));
  one_node.some_nodes_alone = true;
  EXPECT_EQ(judge(one_node), Cause::kNodeLeaves);
  one_node.facts = facts("COMPLETING");
  EXPECT_EQ(judge(one_node), Cause::kCancelled);
  EXPECT_EQ(judge(saved(0)), Cause::kFailed);
  Seen stopped = saved(0);
  stopped.stop_asked = true;
  EXPECT_EQ(judge(stopped), Cause::kStopped);
  stopped.signal = SIGUSR1;  // on top of it
  EXPECT_EQ(judge(stopped), Cause::kStopped);
  EXPECT_FALSE(wants_requeue(Cause::kStopped, SIGUSR1));
  Seen crashed = saved(0);
  crashed.exit_code = 70;
  EXPECT_EQ(judge(crashed), Cause::kGaveUp);
  crashed.never_trained = true;
  EXPECT_EQ(judge(crashed), Cause::kFailed);
}

TEST(SlurmCause, WhatAPersonEndedIsNotRequeuedButForUsr1) {
  EXPECT_TRUE(wants_requeue(Cause::kOperator, SIGUSR1));
  EXPECT_FALSE(wants_requeue(Cause::kOperator, SIGTERM));
  EXPECT_FALSE(wants_requeue(Cause::kOperator, 0));
  EXPECT_FALSE(wants_requeue(Cause::kCancelled, SIGUSR1));
  EXPECT_FALSE(wants_requeue(Cause::kRequeued, SIGTERM));
  EXPECT_FALSE(wants_requeue(Cause::kGaveUp, 0));
}

// ---- by when ----

TEST(SlurmDeadline, AsSlurmAnswers) {
  using std::chrono::seconds;
  Stopping stop;
  stop.signalled = std::chrono::system_clock::now();
  stop.kill_wait = seconds(30);
  const SystemTime now = stop.signalled, later = now + seconds(5);
  EXPECT_FALSE(stop_deadline(stop, now));
  EXPECT_FALSE(stop_deadline(stop, later));  // USR1, and no time limit is known
  stop.end = now + seconds(60);
  EXPECT_FALSE(stop_deadline(stop, now));  // it may have been extended: Slurm is asked
  EXPECT_EQ(stop_deadline(stop, later), now + seconds(58));
  stop.terminated = now + seconds(1);
  EXPECT_EQ(stop_deadline(stop, later), now + seconds(25));  // nobody says that it means nothing
  stop.answer = facts("RUNNING");
  EXPECT_FALSE(stop_deadline(stop, later));
  stop.answer = facts("SIGNALING");  // the signal is still on its way to others
  EXPECT_FALSE(stop_deadline(stop, later));
  stop.answer->end = now + seconds(15);  // preemption
  EXPECT_EQ(stop_deadline(stop, later), now + seconds(13));
  stop.answer = facts("COMPLETING");
  EXPECT_EQ(stop_deadline(stop, now), now + seconds(25));
  stop.within = seconds(3);
  EXPECT_EQ(stop_deadline(stop, now), now + seconds(3));
}

// ---- requeue, once ----

struct FakeSlurm {
  std::uint64_t restarts = 0;
  int calls = 0, looks = 0;
  bool sure = true;
  std::function<Result<JobFacts>(FakeSlurm&)> show = [](FakeSlurm& self) {
    return facts("RUNNING", "None", self.restarts);
  };
  std::function<Status(FakeSlurm&)> ask = [](FakeSlurm& self) {
    ++self.restarts;
    return Status();
  };
  std::chrono::steady_clock::time_point now;

  Requeued requeue() {
    const Queue queue{[this] { return ++looks, show(*this); },
                      [this](bool) -> Result<bool> {
                        ++calls;
                        REKINDLE_CHECK(ask(*this));
                        return sure;
                      },
                      [this](milliseconds pause) { now += pause; }, [this] { return now; }};
    return requeue_once(queue, 0, milliseconds(60000));
  }
};

TEST(SlurmRequeue, AcceptedAtOnce) {
  FakeSlurm slurm;
  EXPECT_TRUE(slurm.requeue().accepted);
  EXPECT_EQ(slurm.calls, 1);
}

TEST(SlurmRequeue, AnswerLost_NotAskedAgain) {
  FakeSlurm slurm;
  slurm.ask = [](FakeSlurm& self) {
    ++self.restarts;
    return Status(fail("timed out"));
  };
  EXPECT_TRUE(slurm.requeue().accepted);
  EXPECT_EQ(slurm.calls, 1);
}

TEST(SlurmRequeue, AlreadyRequeued_NotAsked) {
  FakeSlurm slurm;
  slurm.restarts = 1;
  EXPECT_TRUE(slurm.requeue().accepted);
  EXPECT_EQ(slurm.calls, 0);
}

TEST(SlurmRequeue, JobThatCannotBeSeen_NeverAsked) {
  FakeSlurm slurm;
  slurm.show = [](FakeSlurm&) -> Result<JobFacts> { return fail("no answer"); };
  const Requeued done = slurm.requeue();
  EXPECT_FALSE(done.accepted);
  EXPECT_EQ(done.detail, "no answer");
  EXPECT_EQ(slurm.calls, 0);
  EXPECT_GT(slurm.looks, 5);
}

TEST(SlurmRequeue, SeenLate_Asked) {
  FakeSlurm slurm;
  slurm.show = [](FakeSlurm& self) -> Result<JobFacts> {
    if (self.looks < 4) return fail("no answer");
    return facts("RUNNING", "None", self.restarts);
  };
  EXPECT_TRUE(slurm.requeue().accepted);
  EXPECT_EQ(slurm.calls, 1);
}

TEST(SlurmRequeue, RefusedForGood_GivenUp) {
  FakeSlurm slurm;
  slurm.ask = [](FakeSlurm&) { return Status(fail("Access denied")); };
  const Requeued done = slurm.requeue();
  EXPECT_FALSE(done.accepted);
  EXPECT_EQ(done.detail, "Access denied");
}

TEST(SlurmRequeue, BusyForAWhile_AskedAgain) {
  FakeSlurm slurm;
  slurm.ask = [](FakeSlurm& self) {
    if (self.calls < 8) return Status(fail("Job submit limit is reached"));
    ++self.restarts;
    return Status();
  };
  EXPECT_TRUE(slurm.requeue().accepted);
  EXPECT_EQ(slurm.calls, 8);
}

// Between the look and the call, which does nothing then.
TEST(SlurmRequeue, CancelledMeanwhile_NotRequeued) {
  FakeSlurm slurm;
  slurm.sure = false;
  slurm.show = [](FakeSlurm& self) -> Result<JobFacts> {
    return facts(self.calls == 0 ? "RUNNING" : "COMPLETING");
  };
  slurm.ask = [](FakeSlurm&) { return Status(); };
  EXPECT_FALSE(slurm.requeue().accepted);
  EXPECT_EQ(slurm.calls, 1);
  FakeSlurm accepted;
  accepted.sure = false;
  EXPECT_TRUE(accepted.requeue().accepted);
  EXPECT_EQ(accepted.calls, 1);
}

TEST(SlurmRequeue, CancelledOrNotRequeuable_NotAsked) {
  FakeSlurm cancelled, fixed;
  cancelled.show = [](FakeSlurm&) -> Result<JobFacts> { return facts("COMPLETING"); };
  fixed.show = [](FakeSlurm&) -> Result<JobFacts> {
    JobFacts job = facts("RUNNING");
    job.may_requeue = false;
    return job;
  };
  for (FakeSlurm* slurm : {&cancelled, &fixed}) {
    EXPECT_FALSE(slurm->requeue().accepted);
    EXPECT_EQ(slurm->calls, 0);
  }
}

// Its time is over, and it may still be requeued.
TEST(SlurmRequeue, TimeIsOver_Asked) {
  FakeSlurm slurm;
  slurm.show = [](FakeSlurm& self) -> Result<JobFacts> {
    return facts("COMPLETING", "TimeLimit", self.restarts);
  };
  EXPECT_TRUE(slurm.requeue().accepted);
}

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
  EXPECT_THAT(lines_of(known), HasSubstr("comes at once"));
  known = sound();
  known.least_cpus = 4;
  known.trainers_per_node = 2;
  known.threads = 3;
  EXPECT_THAT(lines_of(known), HasSubstr("a node has 4 CPUs"));
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
