// The state shared by the control thread and the step loop of a trainer.
#include <gtest/gtest.h>

#include "protocol/trainer_control.hpp"

namespace rekindle::protocol {
namespace {

Start start_of(const GenerationId& generation) {
  Start start;
  start.generation = generation;
  return start;
}

TEST(TrainerControl, OlderStartsAreDropped) {
  TrainerControl control;
  control.on_message(start_of({2, 1}));
  control.on_message(start_of({1, 9}));
  EXPECT_EQ(control.next_start()->generation, (GenerationId{2, 1}));
  EXPECT_FALSE(control.next_start());
}

TEST(TrainerControl, AbortThatOvertakesTheEntry_Counts) {
  TrainerControl control;
  control.on_message(start_of({1, 1}));
  const auto start = control.next_start();
  control.on_message(Abort{{1, 1}});
  control.enter(start->generation);
  EXPECT_TRUE(control.aborted());
}

TEST(TrainerControl, AbortOfAnOlderGeneration_DoesNotReachTheNewer) {
  TrainerControl control;
  control.enter({1, 2});
  EXPECT_FALSE(control.on_message(Abort{{1, 1}}));
  EXPECT_FALSE(control.aborted());
  EXPECT_TRUE(control.on_message(Abort{{1, 2}}));
}

TEST(TrainerControl, StopAndPauseForJoin_OfThisGenerationAlone) {
  TrainerControl control;
  control.enter({1, 2});
  control.on_message(Stop{{1, 1}});
  EXPECT_EQ(control.flags(), 0U);
  control.on_message(PauseForJoin{{1, 2}});
  control.on_message(Stop{{1, 2}});
  EXPECT_EQ(control.flags(), kStopFlag | kPauseFlag);
}

TEST(TrainerControl, Save_FlaggedUntilACheckpointBegins) {
  TrainerControl control;
  control.enter({1, 2});
  control.on_message(Save{{1, 1}});
  EXPECT_EQ(control.flags(), 0U);
  control.on_message(Save{{1, 2}});
  EXPECT_EQ(control.flags(), kCheckpointFlag);
  control.checkpoint_begins();
  EXPECT_EQ(control.flags(), 0U);
}

TEST(TrainerControl, CheckpointDueWhileOneIsWritten_PostponedUnlessItPauses) {
  Job job;
  job.steps = 100;
  job.checkpoint_every = 5;
  EXPECT_TRUE(after_step(job, 5, 0).write);
  const Next busy = after_step(job, 5, kWritingFlag);
  EXPECT_FALSE(busy.write);
  EXPECT_TRUE(busy.postponed);
  EXPECT_FALSE(after_step(job, 6, kWritingFlag).postponed);
  EXPECT_TRUE(after_step(job, 6, kWritingFlag | kCheckpointFlag).postponed);
  EXPECT_TRUE(after_step(job, 6, kWritingFlag | kStopFlag).write);
  EXPECT_TRUE(after_step(job, 100, kWritingFlag).write);
}

// If the evaluated state is the best one, exactly this state is kept.
TEST(TrainerControl, KeepBest_EachEvaluatedStateIsWrittenAtItsOwnStep) {
  Job job;
  job.steps = 100;
  job.batch_size = 10;
  job.train_samples = 50;
  job.test_samples = 10;
  job.keep_best = true;
  ASSERT_TRUE(after_step(job, 5, kWritingFlag).evaluate);
  EXPECT_TRUE(after_step(job, 5, kWritingFlag).write);
  EXPECT_FALSE(after_step(job, 6, kWritingFlag).write);
  Start start = start_of({1, 2});
  start.step = 5;
  start.evaluate = true;
  EXPECT_TRUE(after_start(job, start).write);
  start.saved = true;
  EXPECT_FALSE(after_start(job, start).write);
}

TEST(TrainerControl, Quit_EndsWhateverRunsAndStartsNothing) {
  TrainerControl control;
  control.enter({1, 2});
  control.on_message(start_of({1, 3}));
  EXPECT_TRUE(control.on_message(Quit{}));
  EXPECT_TRUE(control.aborted());
  EXPECT_FALSE(control.next_start());
}

TEST(TrainerControl, SourceWithAnotherStep_Refuses) {
  Start start = start_of({1, 1});
  start.step = 7;
  start.sources = {0};
  EXPECT_FALSE(refusal(start, {true, 7}));
  EXPECT_TRUE(refusal(start, {true, 6}));
  EXPECT_TRUE(refusal(start, {false, 7}));
  start.rank = 1;  // rank 1 copies the state
  EXPECT_FALSE(refusal(start, {false, 0}));
}

TEST(TrainerControl, CompareHashes_NamesTheMinorityIfThereIsOne) {
  const Hash128 a{1, 1}, b{2, 2}, c{3, 3};
  EXPECT_TRUE(compare_hashes({a, a, a}).equal);
  EXPECT_EQ(compare_hashes({a, b, a}).minority, std::vector<int>{1});
  const Comparison half = compare_hashes({a, b});
  EXPECT_FALSE(half.equal);
  EXPECT_TRUE(half.minority.empty());
  EXPECT_TRUE(compare_hashes({a, b, c}).minority.empty());
}

TEST(TrainerControl, StopAtTheLastStep_IsAnAgreedPauseBecauseTheEvaluationIsStillDue) {
  Job job;
  job.steps = 10;
  EXPECT_EQ(after_step(job, 10, 0).reason, PauseReason::kFinished);
  EXPECT_EQ(after_step(job, 10, kStopFlag).reason, PauseReason::kAgreed);
  EXPECT_TRUE(after_step(job, 10, 0).write);
  EXPECT_FALSE(after_step(job, 5, kPauseFlag).write);
  EXPECT_TRUE(after_step(job, 5, kPauseFlag).pause);
}

// On a GPU, the state would have to come to the host for it.
TEST(TrainerControl, HashesOfTheState_NotOfOneTrainerAlone) {
  Job job;
  job.hash_every = 10;
  EXPECT_TRUE(hash_due(job, 20, 2));
  EXPECT_FALSE(hash_due(job, 21, 2));
  EXPECT_FALSE(hash_due(job, 0, 2));
  EXPECT_FALSE(hash_due(job, 20, 1));
}

}  // namespace
}  // namespace rekindle::protocol
