// The decision after each end of an attempt: a table from (cause, signal, saved, --on-limit) to the action.
#include <gtest/gtest.h>

#include <csignal>

#include "base/text.hpp"
#include "slurm/attempt_end.hpp"

namespace rekindle::slurm {
namespace {

struct Row {
  Cause cause;
  int signal;
  bool saved;  // the attempt has saved a new step
  OnLimit on_limit;
  bool asks_slurm, futile;
  const char* words;  // words of a line; "": there is no line
};

AttemptEnd end_of(const Row& row) {
  return {.cause = row.cause,
          .signal = row.signal,
          .step = row.saved ? 20U : 10U,
          .step_at_start = 10,
          .is_successor = false,
          .on_limit = row.on_limit,
          .job = "7_1"};
}

TEST(AttemptEnd, Table) {
  using enum Cause;
  using enum OnLimit;
  const Row rows[] = {
      {kFinished, 0, true, kRequeue, false, false, ""},
      {kTimeLimit, SIGUSR1, true, kRequeue, true, false, ""},
      {kTimeLimit, SIGUSR1, true, kResubmit, true, false, ""},
      {kTimeLimit, SIGUSR1, true, kExit, false, false, "--on-limit exit"},
      {kTimeLimit, SIGUSR1, false, kRequeue, true, true, "saved no new step"},
      {kPreemption, SIGTERM, false, kRequeue, true, false, ""},
      {kNodeLeaves, SIGTERM, false, kRequeue, true, false, ""},
      {kBatchHostLost, 0, false, kRequeue, true, false, ""},
      {kScriptKilled, 0, false, kRequeue, true, true, ""},
      {kScriptKilled, 0, true, kRequeue, true, false, ""},
      {kShellKilled, SIGUSR1, true, kRequeue, true, false, ""},
      {kRequeued, SIGTERM, true, kRequeue, false, false, "Slurm has requeued this job"},
      {kCancelled, SIGTERM, true, kRequeue, false, false, "was cancelled"},
      {kStopped, 0, true, kRequeue, false, false, "submit the job again"},
      {kOperator, SIGTERM, true, kRequeue, false, false, "submit the job again"},
      {kOperator, SIGUSR1, true, kRequeue, true, false, ""},
      {kUnknown, SIGTERM, true, kRequeue, false, false, "scontrol requeue 7_1"},
      {kUnknown, SIGUSR1, true, kRequeue, true, false, ""},
      {kFailed, 0, true, kRequeue, true, true, ""},
      {kGaveUp, 0, false, kRequeue, false, false, ""},
  };
  for (const Row& row : rows) {
    const EndDecision decision = decide(end_of(row));
    const std::string name = str(to_text(row.cause), ", signal ", row.signal, ", saved ", row.saved);
    EXPECT_EQ(decision.asks_slurm, row.asks_slurm) << name;
    EXPECT_EQ(decision.futile, row.futile) << name;
    std::string lines;
    for (const std::string& line : decision.lines) lines += line + "\n";
    if (*row.words == '\0')
      EXPECT_EQ(lines, "") << name;
    else
      EXPECT_NE(lines.find(row.words), std::string::npos) << name << ": " << lines;
  }
}

TEST(AttemptEnd, SuccessorOfACompleteRun_AsksForTheAttemptThatEndsTheJob) {
  AttemptEnd end{
      .cause = Cause::kFinished, .step = 20, .step_at_start = 10, .is_successor = true, .job = "7"};
  EXPECT_TRUE(decide(end).asks_slurm);
  end.on_limit = OnLimit::kExit;
  EXPECT_FALSE(decide(end).asks_slurm);
}

TEST(AttemptEnd, WhatFailedByItselfWaitsLongerEachTime) {
  using std::chrono::minutes;
  EXPECT_EQ(pause_after(Cause::kFailed, 0), minutes(0));  // it made steps
  EXPECT_EQ(pause_after(Cause::kFailed, 1), minutes(0));  // Slurm itself waits two minutes
  minutes all(0);
  for (std::uint64_t futile = 2; futile < most_futile_attempts(Cause::kFailed); ++futile) {
    EXPECT_GT(pause_after(Cause::kFailed, futile), pause_after(Cause::kFailed, futile - 1)) << futile;
    all += pause_after(Cause::kFailed, futile);
  }
  EXPECT_GE(all, std::chrono::hours(1));
  EXPECT_EQ(pause_after(Cause::kFailed, 1000), minutes(60));
}

TEST(AttemptEnd, WhatUsedItsTimeGoesOnAtOnceAndIsGivenUpSooner) {
  for (const Cause cause : {Cause::kTimeLimit, Cause::kOperator, Cause::kScriptKilled}) {
    EXPECT_EQ(pause_after(cause, 2), std::chrono::minutes(0)) << to_text(cause);
    EXPECT_LT(most_futile_attempts(cause), most_futile_attempts(Cause::kFailed)) << to_text(cause);
  }
}

}  // namespace
}  // namespace rekindle::slurm
