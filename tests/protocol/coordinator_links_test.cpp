// Exchanges that fail: because a peer died, or although both ends live.
#include <gmock/gmock.h>

#include <csignal>

#include "coordinator_fixture.hpp"

namespace rekindle::protocol {
namespace {

// A peer often notices a death before the dead trainer's worker reports it.
TEST_F(CoordinatorTest, PeerReportsTheDeathFirst_NextGenerationAtOnce) {
  run_two();
  Paused seen = paused("b", 6, PauseReason::kExchangeFailed);
  seen.peer = 0;
  EXPECT_TRUE(sent<Start>(say(seen)).empty());
  const auto starts = sent<Start>(say(TrainerExited{"a", true, SIGKILL}));
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].first, "b");
}

TEST_F(CoordinatorTest, LinkFailsAndBothAreAlive_APauseFirst) {
  run_two();
  Paused seen = paused("b", 6, PauseReason::kExchangeFailed);
  seen.peer = 0;
  say(seen);
  EXPECT_TRUE(sent<Start>(pause("a", 6, PauseReason::kAborted)).empty());
  EXPECT_EQ(sent<Start>(pass(config_.link_pause)).size(), 2U);
}

// Two trainers of one worker: there is no other worker to go on with.
TEST_F(CoordinatorTest, TrainersOfOneWorkerCannotExchangeData_TheRunGivesUpAfterFiveTriesAtAStep) {
  run_two();
  int tries = 0;
  for (; !machine_->ending() && tries < 10; ++tries) {
    Paused seen = paused("b", 6, PauseReason::kExchangeFailed);
    seen.peer = 0;
    say(seen);
    auto effects = pause("a", 6, PauseReason::kAborted);
    const auto warned = of<Warn>(effects);
    ASSERT_FALSE(warned.empty());
    EXPECT_THAT(warned[0].line, testing::HasSubstr("cannot exchange data"));
    if (!machine_->ending()) {
      const auto later = pass(config_.link_pause);
      effects.insert(effects.end(), later.begin(), later.end());
      ASSERT_EQ(sent<Start>(effects).size(), 2U) << tries;
      EXPECT_EQ(sent<Start>(effects)[0].second.stop, tries == 5) << "it saves before it ends";
    }
  }
  EXPECT_EQ(tries, 7);  // the first one was before step 6 was known, and the last one only saves
  ASSERT_TRUE(machine_->ending());
  EXPECT_EQ(machine_->ending()->exit_code, 70);
  EXPECT_THAT(machine_->ending()->line, testing::HasSubstr("an exchange fails again and again at step 6"));
}

// Two trainers with a GPU each. NCCL names no peer in its errors.
class NcclErrors : public CoordinatorTest {
 protected:
  void begin_on_gpus(const std::string& exchange) {
    config_.job.exchange = exchange;
    begin();
    enter("w-h");
    for (const char* name : {"a", "b"}) say(on_gpu(name));
  }
  static TrainerReady on_gpu(const std::string& name) {
    Address address;
    address.nccl = str("22809 ", name);
    TrainerReady ready{name, "h", "cuda:0", "{}", address, 1};
    ready.gpu_identity = name;
    return ready;
  }
  // A generation ends by an error of NCCL at both trainers, or at `b` alone.
  std::vector<Effect> fail_at(std::uint64_t step, bool both = true) {
    Paused failed = paused("b", step, PauseReason::kExchangeFailed);
    failed.detail = "NCCL: error 2: no shared memory";
    auto effects = say(failed);
    if (both) {
      failed.trainer = "a";
    } else {
      failed = paused("a", step, PauseReason::kExchangeFailed);
      failed.peer = 1;  // which has left
    }
    const auto more = say(failed);
    effects.insert(effects.end(), more.begin(), more.end());
    return effects;
  }
  std::vector<std::pair<std::string, Start>> starts_within(Time time) { return sent<Start>(pass(time)); }
  std::string lines() const {
    std::string all;
    for (const Info& info : of<Info>(all_)) all += info.line + "\n";
    return all;
  }
};

TEST_F(NcclErrors, WithAuto_OneWarningAndFromTheThirdGenerationOnThroughHostMemory) {
  begin_on_gpus("auto");
  const auto warned = of<Warn>(fail_at(0));
  ASSERT_EQ(warned.size(), 1U);
  EXPECT_THAT(warned[0].line, testing::HasSubstr("trainer a on h: NCCL: error 2: no shared memory"));
  EXPECT_TRUE(starts_within(config_.link_pause - Time(200)).empty()) << "a pause first";
  auto starts = starts_within(Time(200));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_FALSE(starts[0].second.without_nccl);
  EXPECT_TRUE(of<Warn>(fail_at(0)).empty());
  starts = starts_within(2 * config_.link_pause);
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_TRUE(starts[0].second.without_nccl);
  EXPECT_THAT(lines(), testing::HasSubstr("gradients go through host memory: NCCL has failed\n"));
  EXPECT_FALSE(machine_->ending());
}

TEST_F(NcclErrors, WithNccl_TheRunEndsAfterFiveTriesWithItsText) {
  begin_on_gpus("nccl");
  int tries = 0;
  for (; !machine_->ending() && tries < 10; ++tries) {
    if (tries > 0) {
      ASSERT_EQ(starts_within(config_.link_pause * 32).size(), 2U) << tries;
    }
    fail_at(0);
  }
  EXPECT_EQ(tries, 5);
  ASSERT_TRUE(machine_->ending());
  EXPECT_EQ(machine_->ending()->exit_code, 70);
  EXPECT_THAT(machine_->ending()->line,
              testing::AllOf(testing::HasSubstr("an exchange fails again and again at step 0"),
                             testing::HasSubstr("NCCL: error 2: no shared memory")));
}

// What fails is NCCL's: a generation that only saves does without it.
TEST_F(NcclErrors, WithNccl_TheStateIsSavedBeforeTheEnd) {
  begin_on_gpus("nccl");
  say(StepDone{.generation = machine_->generation(), .step = 2});
  std::vector<std::pair<std::string, Start>> starts;
  for (int tries = 0; tries < 10 && (starts.empty() || !starts[0].second.stop); ++tries) {
    starts = sent<Start>(fail_at(2));
    if (starts.empty()) starts = starts_within(config_.link_pause * 32);
    ASSERT_EQ(starts.size(), 2U) << tries;
  }
  EXPECT_TRUE(starts[0].second.stop);
  EXPECT_TRUE(starts[0].second.without_nccl);
  EXPECT_EQ(starts[0].second.step, 2U);
  for (const char* name : {"a", "b"}) begin_shard(name, 2);
  for (const char* name : {"a", "b"}) pause(name, 2, PauseReason::kAgreed);
  for (const int rank : {0, 1}) shard(rank, 2);
  feed(CommitDone{machine_->generation(), 2, "c", "", ""});
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
  EXPECT_THAT(
      finish()->line,
      testing::AllOf(testing::HasSubstr("stopped at step 2 of "),
                     testing::HasSubstr("the state is saved: an exchange fails again and again at step 2"),
                     testing::HasSubstr("NCCL: error 2: no shared memory")));
}

TEST_F(NcclErrors, StepsBetweenThem_NcclIsKept) {
  begin_on_gpus("auto");
  for (std::uint64_t step = 0; step < 20; step += 5) {
    fail_at(step);
    const auto starts = starts_within(config_.link_pause);
    ASSERT_EQ(starts.size(), 2U);
    EXPECT_FALSE(starts[0].second.without_nccl);
    for (std::uint64_t done = step + 1; done <= step + 5; ++done) {
      StepDone report;
      report.generation = machine_->generation();
      report.step = done;
      say(report);
    }
  }
}

// Only one trainer's NCCL fails, and the other one sees it leave: no link is at fault.
TEST_F(NcclErrors, OfOneTrainer_ItsLinksAreNotBlamed) {
  begin_on_gpus("auto");
  const auto warned = of<Warn>(fail_at(0, false));
  ASSERT_EQ(warned.size(), 1U);
  EXPECT_THAT(warned[0].line, testing::HasSubstr("the exchange of gradients failed, and is tried again"));
}

TEST_F(NcclErrors, ForAPeerHasDied_NotCounted) {
  begin_on_gpus("auto");
  for (int times = 0; times < 3; ++times) {
    say(paused("b", 0, PauseReason::kExchangeFailed));
    const auto starts = sent<Start>(say(TrainerExited{"a", true, SIGKILL}));
    ASSERT_EQ(starts.size(), 1U) << "at once";
    StepDone step;
    step.generation = machine_->generation();
    step.step = 1;
    say(step);
    say(on_gpu("a"));
    ASSERT_EQ(sent<PauseForJoin>(pass(config_.join_batch + Time(200))).size(), 1U);
    const auto together = sent<Start>(pause("b", 1, PauseReason::kAgreed));
    ASSERT_EQ(together.size(), 2U);
    EXPECT_FALSE(together[0].second.without_nccl);
  }
}

// NCCL does not say for whom it waits.
TEST_F(NcclErrors, Stalled_NobodyIsBlamedOrKilled) {
  begin_on_gpus("auto");
  for (int generation = 0; generation < 2; ++generation) {
    std::vector<Effect> effects;
    for (const Time end = now_ + config_.stall_after + Time(1000); now_ < end; now_ += Time(400)) {
      const GenerationId id = machine_->generation();
      feed(WorkerBeatSeen{"w-h",
                          {{"a", TrainerPhase::kExchanging, id, 3, 7, 0, 0},
                           {"b", TrainerPhase::kExchanging, id, 3, 7, 1, 0}}});
      const auto more = feed(Tick{});
      effects.insert(effects.end(), more.begin(), more.end());
    }
    EXPECT_TRUE(of<KillTrainer>(effects).empty());
    EXPECT_EQ(sent<Abort>(effects).size(), 2U);
    EXPECT_EQ(of<Warn>(effects).size(), generation == 0 ? 1U : 0U);
    pause("a", 3, PauseReason::kAborted);
    pause("b", 3, PauseReason::kAborted);
    const auto starts = starts_within(config_.link_pause * 3);
    ASSERT_EQ(starts.size(), 2U);
    EXPECT_EQ(starts[0].second.without_nccl, generation == 1);
  }
}

// The members wait for the commit of the last state.
TEST_F(NcclErrors, AllHavePausedAtTheEnd_NothingHasFailed) {
  config_.job.steps = 100;
  begin_on_gpus("auto");
  shard(0, 100);
  ASSERT_EQ(of<Commit>(shard(1, 100)).size(), 1U);
  pause("a", 100, PauseReason::kFinished);
  pause("b", 100, PauseReason::kFinished);
  const auto effects = pass(config_.hang_after);
  EXPECT_TRUE(of<Warn>(effects).empty());
  EXPECT_TRUE(sent<Abort>(effects).empty());
}

TEST_F(NcclErrors, HangsWhileItConnects_NobodyIsKilled) {
  begin_on_gpus("auto");
  std::vector<Effect> effects;
  for (const Time end = now_ + config_.hang_after / 5 + Time(1000); now_ < end; now_ += Time(400)) {
    const GenerationId id = machine_->generation();
    feed(WorkerBeatSeen{"w-h",
                        {{"a", TrainerPhase::kConnecting, id, 3, 7, -1, 0},
                         {"b", TrainerPhase::kConnecting, id, 3, 7, -1, 0}}});
    const auto more = feed(Tick{});
    effects.insert(effects.end(), more.begin(), more.end());
  }
  EXPECT_TRUE(of<KillTrainer>(effects).empty());
  EXPECT_EQ(sent<Abort>(effects).size(), 2U);
  pause("a", 3, PauseReason::kAborted);
  // Only the one that cannot pause is killed.
  const auto kills = of<KillTrainer>(pass(Time(30000)));
  ASSERT_EQ(kills.size(), 1U);
  EXPECT_EQ(kills[0].trainer, "b");
}

// A stop must not lose the state because NCCL fails: a generation that only saves moves no gradients.
TEST_F(NcclErrors, AndAStop_TheStateIsSavedWithoutNccl) {
  begin_on_gpus("nccl");
  fail_at(3);
  const auto starts = sent<Start>(feed(StopRun{75, "SIGUSR1", Time(0)}));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_TRUE(starts[0].second.stop);
  EXPECT_TRUE(starts[0].second.without_nccl);
}

}  // namespace
}  // namespace rekindle::protocol
