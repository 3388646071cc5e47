// The process may die, or the power may fail, at every file system call of writing, committing and sweeping.
// See docs/checkpoint-format.md, "Writing, and what a crash leaves".
#include <optional>
#include <tuple>

#include "crash_points_fixture.hpp"

namespace rekindle::checkpoint {
namespace {

using Kind = Fault::Kind;

TEST_F(CrashPoints, PowerLostAtAnyMoment_CommittedCheckpointsAreWholeAndTheRunGoesOn) {
  const Recording recording = record();
  for (std::size_t operations = 0; operations <= recording.journal.size(); ++operations) {
    ASSERT_EQ(flaw_of_disks(recording.journal, operations, recording.promised(operations), 4, true), "");
  }
}

TEST_F(CrashPoints, PowerLostAroundTheFirstCheckpoint_ItIsThereOnceItWasPromised) {
  fs::create_directory(run);
  std::optional<Shim> shim(run);
  ASSERT_TRUE(write_and_commit(own(run), kNew));
  const Journal journal = shim->journal();
  shim.reset();
  for (std::size_t operations = 0; operations <= journal.size(); ++operations) {
    ASSERT_EQ(flaw_of_disks(journal, operations, operations < journal.size() ? Ids{} : Ids{kNew}, 6, false),
              "");
  }
}

TEST_F(CrashPoints, PowerLostWhileLargeShardsAreWritten_CommittedCheckpointsAreWhole) {
  start_again();
  std::optional<Shim> shim(run);
  ASSERT_TRUE(write_and_commit(own(run), kLarge));
  const Journal journal = shim->journal();
  shim.reset();
  const Ids before{kOldest, kOld}, after{kOld, kLarge};
  for (std::size_t operations = 0; operations <= journal.size(); ++operations) {
    ASSERT_EQ(flaw_of_disks(journal, operations, operations < journal.size() ? before : after, 4, false), "");
  }
}

// The check above must be able to fail.
TEST_F(CrashPoints, Planted_AnFsyncThatDoesNothingIsFound) {
  const Recording recording = record();
  for (const bool of_directories : {false, true}) {
    const Journal planted = recording.journal.without_syncs(of_directories);
    EXPECT_NE(flaw_of_disks(planted, planted.size(), recording.promised(planted.size()), 0, false), "");
  }
}

// Data that the dead process had not fsynced are still in the page cache when the next process starts, and
// are lost later.
TEST_F(CrashPoints, WriterKilledAtAnyCallAndPowerLostLater_NothingPromisedIsLost) {
  Rng rng(stream_key(3, Draws::kOrder));
  bool killed = true;
  for (std::size_t n = 0; killed; ++n) {
    start_again();
    std::optional<Shim> shim(run);
    shim->arm({Kind::kStopped}, n);
    std::ignore = write_and_commit(own(run), kNew);
    killed = shim->struck();
    SCOPED_TRACE(str("killed at call ", n, ": ", shim->struck_call()));
    shim->disarm();

    const std::size_t restarted = shim->journal().size();
    ASSERT_EQ(flaw(run, {kOld}), "");
    const Ids found = list_committed(own(run));
    ASSERT_EQ(flaw_of_going_on(run, kNext), "");
    const Journal journal = shim->journal();
    shim.reset();
    ASSERT_EQ(flaw_of_disks(journal, journal.size(), {kNext, found.front()}, 2, false), "");
    const std::size_t operations = restarted + rng.below(journal.size() - restarted);
    ASSERT_EQ(flaw_of_disks(journal, operations, {}, 2, true), "");
  }
}

TEST_F(CrashPoints, WriterOfLargeShardsKilledAtAnyCall_TheRunGoesOn) {
  constexpr CheckpointId kAfterLarge{70, 4, 1};
  bool killed = true;
  for (std::size_t n = 0; killed; ++n) {
    start_again();
    Shim shim(run);
    shim.arm({Kind::kStopped}, n);
    std::ignore = write_and_commit(own(run), kLarge);
    killed = shim.struck();
    SCOPED_TRACE(str("killed at call ", n, ": ", shim.struck_call()));
    shim.disarm();
    ASSERT_EQ(flaw(run, {kOld}), "");
    ASSERT_EQ(flaw_of_going_on(run, kAfterLarge), "");
  }
}

TEST_F(CrashPoints, SweepKilledAtAnyCallAndPowerLostInTheNext_NoCheckpointLacksFiles) {
  bool killed = true;
  for (std::size_t n = 0; killed; ++n) {
    start_again();
    std::optional<Shim> shim(run);
    ASSERT_TRUE(write_and_commit(own(run), kNew));
    shim->arm({Kind::kStopped}, n);
    std::ignore = sweep(own(run), {kNew, kKeep});
    killed = shim->struck();
    SCOPED_TRACE(str("killed at call ", n, ": ", shim->struck_call()));
    shim->disarm();

    const std::size_t restarted = shim->journal().size();
    ASSERT_TRUE(sweep(own(run), {kNew, kKeep}));
    ASSERT_EQ(files_in(run / "checkpoints"), (std::vector{kOld.directory_name(), kNew.directory_name()}));
    const Journal journal = shim->journal();
    shim.reset();
    for (std::size_t operations = restarted; operations <= journal.size(); ++operations) {
      ASSERT_EQ(flaw_of_disks(journal, operations, {kOld, kNew}, 4, false), "");
    }
  }
}

TEST_F(CrashPoints, PowerLostWhileOneIsSetAside_TheOthersStay) {
  start_again();
  std::optional<Shim> shim(run);
  ASSERT_TRUE(set_aside(run, kOld));
  const Journal journal = shim->journal();
  shim.reset();
  for (std::size_t operations = 0; operations <= journal.size(); ++operations) {
    ASSERT_EQ(flaw_of_disks(journal, operations, {kOldest}, 2, false), "");
  }
  EXPECT_EQ(list_committed(own(disk)), Ids{kOldest});
}

}  // namespace
}  // namespace rekindle::checkpoint
