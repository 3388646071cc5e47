// Who is there, and who has been silent for too long.
#include "protocol/membership.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rekindle::protocol {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class MembershipTest : public ::testing::Test {
 protected:
  MembershipTest() {
    there_.workers["w1"] = {"h1", 2, false, Time(0)};
    there_.workers["w2"] = {"h2", 4, false, Time(0)};
    there_.workers["helper"] = {"h2", 8, true, Time(0)};
    add("w1", "a");
    add("helper", "c");
  }
  KnownTrainer& add(const std::string& worker, const std::string& name) {
    KnownTrainer& trainer = there_.trainers[name];
    trainer.worker = worker;
    trainer.rank = 0;
    trainer.beat.trainer = name;
    trainer.beat.waiting_for = -1;
    return trainer;
  }
  Membership there_;
};

TEST_F(MembershipTest, HelpersAreNotTheRunsOwn) {
  EXPECT_TRUE(there_.joined("helper"));
  EXPECT_FALSE(there_.joined("w1") || there_.joined("unknown"));
  EXPECT_EQ(there_.slots(), 14U);
  EXPECT_EQ(there_.own_slots("h2"), 4);
  EXPECT_TRUE(there_.own_trainer_ready_on("h1"));
  EXPECT_FALSE(there_.own_trainer_ready_on("h2")) << "a helper's";
  EXPECT_TRUE(there_.own_trainer_there());
  there_.trainers.erase("a");
  EXPECT_FALSE(there_.own_trainer_there());
}

TEST_F(MembershipTest, WorkersAndTrainersAreFoundByPlace) {
  EXPECT_THAT(there_.workers_on("h2"), ElementsAre("helper", "w2"));
  EXPECT_THAT(there_.trainers_of("helper"), ElementsAre("c"));
  EXPECT_EQ(there_.host_of("w1"), "h1");
  EXPECT_EQ(there_.host_of("unknown"), "");
  EXPECT_TRUE(there_.others_than("h1"));
  EXPECT_EQ(there_.find("nobody"), nullptr);
}

TEST_F(MembershipTest, WhoWasNotHeard_IsSilent) {
  there_.workers["w2"].heard = Time(900);
  EXPECT_THAT(there_.silent_workers(Time(1000), Time(500)), ElementsAre("helper", "w1"));
  EXPECT_THAT(there_.silent_workers(Time(500), Time(500)), IsEmpty()) << "not longer than that";
  there_.beat({"c", TrainerPhase::kIdle, {}, 0, 0, -1, 0}, Time(900));
  EXPECT_THAT(there_.silent_trainers(Time(1000), Time(500)), ElementsAre("a"));
}

TEST_F(MembershipTest, AMemberWithoutProgress_HangsUnlessItWaitsForAnother) {
  there_.beat({"a", TrainerPhase::kComputing, {}, 0, 1, -1, 0}, Time(100));
  there_.beat({"a", TrainerPhase::kComputing, {}, 0, 1, -1, 0}, Time(900));  // the same again
  there_.beat({"c", TrainerPhase::kExchanging, {}, 0, 1, 0, 0}, Time(100));
  EXPECT_THAT(there_.hung(Time(1000), Time(500)), ElementsAre("a"));
  there_.trainers["a"].parked.emplace();
  EXPECT_THAT(there_.hung(Time(1000), Time(500)), IsEmpty());
}

TEST_F(MembershipTest, AWriterThatNeverEnds_IsStuck) {
  there_.trainers["a"].writing = CheckpointKey{5, {1, 1}};
  there_.trainers["a"].writing_since = Time(100);
  EXPECT_THAT(there_.stuck_writers(Time(601), Time(500)), ElementsAre("a"));
  EXPECT_THAT(there_.stuck_writers(Time(600), Time(500)), IsEmpty());
}

TEST_F(MembershipTest, AShortDelayOfTheCoordinator_ForgivesNoMoreThanItself) {
  there_.forgive(Time(100), false, Time(1000));
  EXPECT_EQ(there_.workers["w1"].heard, Time(100));
  there_.forgive(Time(5000), false, Time(1000));
  EXPECT_EQ(there_.workers["w1"].heard, Time(1000)) << "never in the future";
}

TEST_F(MembershipTest, ALongDelay_ForgivesAllSilence) {
  there_.forgive(Time(700), true, Time(1000));
  EXPECT_EQ(there_.workers["w1"].heard, Time(1000));
  EXPECT_EQ(there_.trainers["a"].heard, Time(1000));
  EXPECT_EQ(there_.trainers["a"].progressed, Time(700)) << "progress is not made by waiting";
}

}  // namespace
}  // namespace rekindle::protocol
