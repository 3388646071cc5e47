// Every step is recorded once, independent of who reports it and how often.
#include "protocol/step_log.hpp"

#include <gtest/gtest.h>

namespace rekindle::protocol {
namespace {

TEST(StepLog, AStepReportedAgain_IsNotRecordedAgain) {
  StepLog log(0, {});
  EXPECT_TRUE(log.take(1));
  EXPECT_FALSE(log.take(1));
  EXPECT_TRUE(log.take(2));
  EXPECT_FALSE(log.take(1));
  EXPECT_EQ(log.newest(), 2U);
}

TEST(StepLog, StepsThatWereNotReported_AreTakenLateOnce) {
  StepLog log(10, {});
  EXPECT_TRUE(log.take(14));
  EXPECT_TRUE(log.take_late(12, 14));
  EXPECT_FALSE(log.take_late(12, 14));
  EXPECT_TRUE(log.take(11));
  EXPECT_FALSE(log.take_late(10, 14)) << "recorded before";
  EXPECT_FALSE(log.take_late(15, 14)) << "the generation reports its own steps";
  EXPECT_EQ(log.newest(), 14U);
}

TEST(StepLog, AfterARewind_StepsAreRecordedAgain) {
  StepLog log(0, {3, 6});
  for (std::uint64_t step = 1; step <= 8; ++step) log.take(step);
  EXPECT_TRUE(log.rewind(5));
  EXPECT_EQ(log.newest(), 5U);
  EXPECT_TRUE(log.is_evaluated(3));
  EXPECT_FALSE(log.is_evaluated(6));
  EXPECT_TRUE(log.take(6));
  EXPECT_FALSE(log.take(5));
  EXPECT_FALSE(log.rewind(6)) << "no record is later";
}

TEST(StepLog, AnEvaluation_IsTakenOnce) {
  StepLog log(4, {2});
  EXPECT_FALSE(log.take_evaluation(2));
  EXPECT_TRUE(log.take_evaluation(4));
  EXPECT_FALSE(log.take_evaluation(4));
}

// A coordinator that missed a million steps must not keep a list of them.
TEST(StepLog, AVeryLongGap_IsRememberedAsFarAsAnybodyMayTellIt) {
  StepLog log(0, {});
  EXPECT_TRUE(log.take(1000000));
  EXPECT_FALSE(log.take_late(998999, 1000000));
  EXPECT_TRUE(log.take_late(999000, 1000000));
  EXPECT_TRUE(log.take_late(999999, 1000000));
}

TEST(StepLog, GapsAndRewinds_KeepItsInvariants) {
  StepLog log(0, {});
  for (const std::uint64_t step : {1, 5, 3000, 7, 3001}) {
    log.take(step);
    EXPECT_NO_THROW(log.check()) << step;
  }
  log.rewind(2500);
  EXPECT_NO_THROW(log.check());
}

}  // namespace
}  // namespace rekindle::protocol
