// The registered processes, and which of them have been silent for too long.
#include "protocol/membership.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rekindle::protocol {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

class MembershipTest : public ::testing::Test {
 protected:
  MembershipTest() {
    membership_.workers["w1"] = {"h1", 2, false, Time(0)};
    membership_.workers["w2"] = {"h2", 4, false, Time(0)};
    membership_.workers["helper"] = {"h2", 8, true, Time(0)};
    add("w1", "a");
    add("helper", "c");
  }
  KnownTrainer& add(const std::string& worker, const std::string& name) {
    KnownTrainer& trainer = membership_.trainers[name];
    trainer.worker = worker;
    trainer.rank = 0;
    trainer.beat.trainer = name;
    trainer.beat.waiting_for = -1;
    return trainer;
  }
  Membership membership_;
};

TEST_F(MembershipTest, HelpersAreNotTheRunsOwn) {
  EXPECT_TRUE(membership_.joined("helper"));
  EXPECT_FALSE(membership_.joined("w1") || membership_.joined("unknown"));
  EXPECT_EQ(membership_.slots(), 14U);
  EXPECT_EQ(membership_.own_slots("h2"), 4);
  EXPECT_TRUE(membership_.own_trainer_ready_on("h1"));
  EXPECT_FALSE(membership_.own_trainer_ready_on("h2")) << "the trainer of a helper";
  EXPECT_TRUE(membership_.own_trainer_there());
  membership_.trainers.erase("a");
  EXPECT_FALSE(membership_.own_trainer_there());
}

TEST_F(MembershipTest, WorkersAndTrainersAreFoundByPlace) {
  EXPECT_THAT(membership_.workers_on("h2"), ElementsAre("helper", "w2"));
  EXPECT_THAT(membership_.trainers_of("helper"), ElementsAre("c"));
  EXPECT_EQ(membership_.host_of("w1"), "h1");
  EXPECT_EQ(membership_.host_of("unknown"), "");
  EXPECT_TRUE(membership_.others_than("h1"));
  EXPECT_EQ(membership_.find("nobody"), nullptr);
}

TEST_F(MembershipTest, WithoutAHeartbeat_IsSilent) {
  membership_.workers["w2"].last_seen = Time(900);
  EXPECT_THAT(membership_.silent_workers(Time(1000), Time(500)), ElementsAre("helper", "w1"));
  EXPECT_THAT(membership_.silent_workers(Time(500), Time(500)), IsEmpty()) << "not longer than the limit";
  membership_.beat({"c", TrainerPhase::kIdle, {}, 0, 0, -1, 0}, Time(900));
  EXPECT_THAT(membership_.silent_trainers(Time(1000), Time(500)), ElementsAre("a"));
}

TEST_F(MembershipTest, AMemberWithoutProgress_HangsUnlessItWaitsForAnother) {
  membership_.beat({"a", TrainerPhase::kComputing, {}, 0, 1, -1, 0}, Time(100));
  membership_.beat({"a", TrainerPhase::kComputing, {}, 0, 1, -1, 0}, Time(900));  // an unchanged heartbeat
  membership_.beat({"c", TrainerPhase::kExchanging, {}, 0, 1, 0, 0}, Time(100));
  EXPECT_THAT(membership_.hung(Time(1000), Time(500)), ElementsAre("a"));
  membership_.trainers["a"].paused.emplace();
  EXPECT_THAT(membership_.hung(Time(1000), Time(500)), IsEmpty());
}

TEST_F(MembershipTest, AWriterThatNeverEnds_IsStuck) {
  membership_.trainers["a"].writing = CheckpointKey{5, {1, 1}};
  membership_.trainers["a"].writing_since = membership_.trainers["a"].block_written = Time(100);
  EXPECT_THAT(membership_.stuck_writers(Time(601), Time(500), Time(3000)), ElementsAre("a"));
  EXPECT_THAT(membership_.stuck_writers(Time(600), Time(500), Time(3000)), IsEmpty());
}

TEST_F(MembershipTest, AWriterWhoseBlocksAreWritten_HasLonger) {
  membership_.trainers["a"].writing = CheckpointKey{5, {1, 1}};
  membership_.trainers["a"].writing_since = membership_.trainers["a"].block_written = Time(100);
  const auto beat = [this](std::uint64_t blocks, Time now) {
    membership_.beat({"a", TrainerPhase::kComputing, {}, 0, 1, -1, 0, blocks}, now);
  };
  beat(7, Time(400));
  beat(7, Time(800));  // no further block
  EXPECT_THAT(membership_.stuck_writers(Time(900), Time(500), Time(3000)), IsEmpty());
  EXPECT_THAT(membership_.stuck_writers(Time(901), Time(500), Time(3000)), ElementsAre("a"));
  beat(8, Time(3000));
  EXPECT_THAT(membership_.stuck_writers(Time(3100), Time(500), Time(3000)), IsEmpty());
  EXPECT_THAT(membership_.stuck_writers(Time(3101), Time(500), Time(3000)), ElementsAre("a"));
}

TEST_F(MembershipTest, OneThatWaitsForItsOwnWrite_DoesNotHang) {
  membership_.beat({"a", TrainerPhase::kWriting, {}, 0, 1, -1, 0}, Time(100));
  EXPECT_THAT(membership_.hung(Time(1000), Time(500)), Contains("a")) << "it has begun no shard";
  membership_.trainers["a"].writing = CheckpointKey{5, {1, 1}};
  EXPECT_THAT(membership_.hung(Time(1000), Time(500)), Not(Contains("a")));
}

TEST_F(MembershipTest, OnlyATrainerThatTrainsOrHoldsTheState_HasIt) {
  for (auto& [name, trainer] : membership_.trainers) trainer.beat.phase = TrainerPhase::kCopying;
  EXPECT_FALSE(membership_.state_is_safe_from_storage());
  KnownTrainer& a = membership_.trainers["a"];
  a.beat.phase = TrainerPhase::kComputing;
  EXPECT_TRUE(membership_.state_is_safe_from_storage());
  a.writing = CheckpointKey{5, {1, 1}};
  EXPECT_FALSE(membership_.state_is_safe_from_storage());
  a.writing.reset();
  a.paused.emplace().holds = false;
  EXPECT_FALSE(membership_.state_is_safe_from_storage());
  a.paused->holds = true;
  EXPECT_TRUE(membership_.state_is_safe_from_storage());
  a.rank = -1;
  EXPECT_FALSE(membership_.state_is_safe_from_storage());
}

TEST_F(MembershipTest, AShortDelayOfTheCoordinator_ForgivesNoMoreThanItself) {
  membership_.forgive(Time(100), false, Time(1000));
  EXPECT_EQ(membership_.workers["w1"].last_seen, Time(100));
  membership_.forgive(Time(5000), false, Time(1000));
  EXPECT_EQ(membership_.workers["w1"].last_seen, Time(1000)) << "never in the future";
}

TEST_F(MembershipTest, ALongDelay_ForgivesAllSilence) {
  membership_.forgive(Time(700), true, Time(1000));
  EXPECT_EQ(membership_.workers["w1"].last_seen, Time(1000));
  EXPECT_EQ(membership_.trainers["a"].last_seen, Time(1000));
  EXPECT_EQ(membership_.trainers["a"].progressed, Time(700)) << "waiting is no progress";
}

TEST_F(MembershipTest, BrokenInvariant_IsFound) {
  add("w2", "c").rank = 1;
  EXPECT_NO_THROW(membership_.check());
  add("w2", "d");
  EXPECT_NO_THROW(membership_.check());
  membership_.trainers["d"].rank = -1;
  EXPECT_NO_THROW(membership_.check());
  membership_.trainers["d"].paused = Paused{};
  EXPECT_THROW(membership_.check(), std::logic_error) << "it is in no generation";
  membership_.trainers.erase("d");
  membership_.workers.erase("w1");
  EXPECT_THROW(membership_.check(), std::logic_error) << "the worker of a";
}

}  // namespace
}  // namespace rekindle::protocol
