// The slurm module without Slurm: the cause of an attempt's end, the deadline, and the requeue.
#include <gtest/gtest.h>

#include <csignal>

#include "job_facts.hpp"
#include "slurm/cause.hpp"
#include "slurm/deadline.hpp"
#include "slurm/requeue.hpp"

namespace rekindle::slurm {
namespace {

using std::chrono::milliseconds;

// ---- the cause of an attempt's end ----

Seen saved(int signal, std::optional<JobFacts> job = std::nullopt) {
  Seen seen;
  seen.exit_code = 75;
  seen.signal = signal;
  seen.facts = std::move(job);
  return seen;
}

TEST(SlurmCause, EachCauseIsRecognized) {
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
  EXPECT_EQ(judge(late), Cause::kOperator);  // this signal is no evidence for the time limit
  Seen one_node = saved(SIGTERM, facts("RUNNING"));
  one_node.some_nodes_alone = true;
  EXPECT_EQ(judge(one_node), Cause::kNodeLeaves);
  one_node.facts = facts("COMPLETING");
  EXPECT_EQ(judge(one_node), Cause::kCancelled);
  Seen shutdown = saved(SIGTERM, facts("RUNNING"));
  shutdown.host_stops = true;
  EXPECT_EQ(judge(shutdown), Cause::kNodeLeaves);
  shutdown.facts = facts("COMPLETING");
  EXPECT_EQ(judge(shutdown), Cause::kCancelled);
  EXPECT_EQ(judge(saved(0)), Cause::kFailed);
  Seen stopped = saved(0);
  stopped.stop_asked = true;
  EXPECT_EQ(judge(stopped), Cause::kStopped);
  stopped.signal = SIGUSR1;  // in addition to the stop request
  EXPECT_EQ(judge(stopped), Cause::kStopped);
  EXPECT_FALSE(wants_requeue(Cause::kStopped, SIGUSR1));
  Seen crashed = saved(0);
  crashed.exit_code = 70;
  EXPECT_EQ(judge(crashed), Cause::kGaveUp);
  crashed.may_pass = true;
  EXPECT_EQ(judge(crashed), Cause::kFailed);
  crashed.may_pass = false;
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

// ---- the deadline ----

TEST(SlurmDeadline, AsSlurmAnswers) {
  using std::chrono::seconds;
  Stopping stop;
  stop.signalled = std::chrono::system_clock::now();
  stop.kill_wait = seconds(30);
  const SystemTime now = stop.signalled, later = now + seconds(5);
  EXPECT_FALSE(stop_deadline(stop, now));
  EXPECT_FALSE(stop_deadline(stop, later));  // USR1, and no time limit is known
  stop.end = now + seconds(60);
  EXPECT_FALSE(stop_deadline(stop, now));  // the limit may have been extended, so Slurm is asked first
  EXPECT_EQ(stop_deadline(stop, later), now + seconds(58));
  stop.terminated = now + seconds(1);
  EXPECT_EQ(stop_deadline(stop, later), now + seconds(25));  // without an answer, SIGTERM means the end
  stop.answer = facts("RUNNING");
  EXPECT_FALSE(stop_deadline(stop, later));
  stop.answer = facts("SIGNALING");  // other processes have not got the signal yet
  EXPECT_FALSE(stop_deadline(stop, later));
  stop.answer->end = now + seconds(15);  // preemption
  EXPECT_EQ(stop_deadline(stop, later), now + seconds(13));
  stop.answer = facts("COMPLETING");
  EXPECT_EQ(stop_deadline(stop, now), now + seconds(25));
  stop.within = seconds(3);
  EXPECT_EQ(stop_deadline(stop, now), now + seconds(3));
}

// ---- exactly one requeue ----

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

  Requeued requeue(milliseconds patience = milliseconds(60000)) {
    const Queue queue{[this] { return ++looks, show(*this); },
                      [this](bool) -> Result<bool> {
                        ++calls;
                        REKINDLE_CHECK(ask(*this));
                        return sure;
                      },
                      [this](milliseconds pause) { now += pause; }, [this] { return now; }};
    return requeue_once(queue, 0, patience);
  }
};

TEST(SlurmRequeue, AcceptedAtOnce) {
  FakeSlurm slurm;
  EXPECT_TRUE(slurm.requeue().accepted);
  EXPECT_EQ(slurm.calls, 1);
}

TEST(SlurmRequeue, ControllerAwayForLong_AskedWhenItIsBack) {
  FakeSlurm slurm;
  slurm.show = [](FakeSlurm& self) -> Result<JobFacts> {
    if (self.now.time_since_epoch() < std::chrono::minutes(50))
      return fail("Unable to contact slurm controller");
    return facts("RUNNING", "None", self.restarts);
  };
  EXPECT_TRUE(slurm.requeue(std::chrono::hours(1)).accepted);
  EXPECT_EQ(slurm.calls, 1);
}

// The job's nodes are not held for an hour.
TEST(SlurmRequeue, RefusedByAControllerThatAnswers_GivenUpSooner) {
  FakeSlurm slurm;
  slurm.ask = [](FakeSlurm&) -> Status { return fail("for a reason of its own"); };
  const Requeued done = slurm.requeue(std::chrono::hours(1));
  EXPECT_FALSE(done.accepted);
  EXPECT_EQ(done.detail, "for a reason of its own");
  EXPECT_LT(slurm.now.time_since_epoch(), std::chrono::minutes(10));
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

// The job is cancelled between show() and the requeue, which then has no effect.
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

// PreemptMode=CANCEL: Slurm ends the job at once, or when its GraceTime is over, and does not requeue it. A
// person may cancel a job that was preempted.
TEST(SlurmRequeue, EndedByAPreemption_AskedUnlessAPersonCancelledIt) {
  FakeSlurm preempted, cancelled;
  const auto ended_after = [](std::chrono::seconds grace) {
    return [grace](FakeSlurm& self) -> Result<JobFacts> {
      JobFacts job = facts("COMPLETING", "None", self.restarts);
      job.end = std::chrono::system_clock::now();
      job.preempted = *job.end - grace;
      return job;
    };
  };
  preempted.show = ended_after(std::chrono::seconds(1));
  cancelled.show = ended_after(std::chrono::seconds(10));
  EXPECT_TRUE(preempted.requeue().accepted);
  EXPECT_EQ(preempted.calls, 1);
  EXPECT_FALSE(cancelled.requeue().accepted);
  EXPECT_EQ(cancelled.calls, 0);
}

// A job that has reached its time limit may still be requeued.
TEST(SlurmRequeue, TimeIsOver_Asked) {
  FakeSlurm slurm;
  slurm.show = [](FakeSlurm& self) -> Result<JobFacts> {
    return facts("COMPLETING", "TimeLimit", self.restarts);
  };
  EXPECT_TRUE(slurm.requeue().accepted);
}

}  // namespace
}  // namespace rekindle::slurm
