#include "checkpoint/export.hpp"
#include "fixture.hpp"

namespace rekindle::checkpoint {
namespace {

class Retention : public CheckpointTest {
 protected:
  OwnedState owned{small_spec()};
  void committed(const CheckpointId& id) { write_checkpoint(run_dir, id, owned.state, 2); }
  void uncommitted(const CheckpointId& id) { ASSERT_TRUE(write_shard(run_dir, id, owned.state, 2, 0)); }
  bool exists(const CheckpointId& id) { return fs::exists(directory_of(run_dir, id)); }
};

TEST_F(Retention, List_IsNewestFirstAndShowsCommittedOnesOnly) {
  EXPECT_TRUE(list_committed(run_dir).empty());
  committed({20, 1, 1});
  committed({100, 1, 1});
  committed({20, 2, 1});
  committed({20, 1, 3});
  uncommitted({200, 1, 1});
  fs::create_directory(run_dir / "checkpoints" / "other");
  EXPECT_EQ(list_committed(run_dir),
            (std::vector<CheckpointId>{{100, 1, 1}, {20, 2, 1}, {20, 1, 3}, {20, 1, 1}}));
}

TEST_F(Retention, Noted_IsMissedUnlessItOrANewerOneIsThereOrItWasSetAside) {
  using std::chrono::milliseconds;
  const CheckpointId id{20, 1, 1};
  const fs::path note = run_dir / "newest";
  const auto missing = [&] { return await_newest(run_dir, note, milliseconds(0)); };
  EXPECT_EQ(missing(), std::nullopt);  // no note is written
  EXPECT_TRUE(fs::exists(note));
  ASSERT_TRUE(note_newest(note, id));
  EXPECT_EQ(missing(), id);
  committed({10, 1, 1});
  EXPECT_EQ(missing(), id);
  uncommitted(id);
  EXPECT_EQ(missing(), id);
  committed({30, 1, 1});
  EXPECT_EQ(missing(), std::nullopt);
  ASSERT_TRUE(note_newest(note, {40, 1, 1}));
  committed({40, 1, 1});
  EXPECT_EQ(missing(), std::nullopt);
  ASSERT_TRUE(set_aside(run_dir, {40, 1, 1}));
  EXPECT_EQ(missing(), std::nullopt);
  std::ofstream(note) << "rubbish";
  EXPECT_EQ(missing(), std::nullopt);
}

TEST_F(Retention, NotedButLate_IsWaitedForUnlessAStopIsAsked) {
  const CheckpointId id{20, 1, 1};
  const fs::path note = run_dir / "newest";
  ASSERT_TRUE(note_newest(note, id));
  int looks = 0;
  const auto tired = [&] { return ++looks == 3; };
  EXPECT_EQ(await_newest(run_dir, note, std::chrono::hours(1), tired), id);
  EXPECT_EQ(looks, 3);
  const auto comes = [&] {
    if (++looks == 6) committed(id);
    return false;
  };
  EXPECT_EQ(await_newest(run_dir, note, std::chrono::hours(1), comes), std::nullopt);
}

TEST_F(Retention, Sweep_KeepsTheNewestAndWhatIsBeingWritten) {
  for (std::uint64_t step : {10, 20, 30, 40}) committed({step, 2, 1});
  uncommitted({35, 1, 9});  // of an older term
  uncommitted(
      {50, 1, 9});  // in flight: an older coordinator's generation continues under the new coordinator
  uncommitted({25, 2, 1});  // abandoned: a later checkpoint of the same term is committed
  uncommitted({50, 2, 1});  // in flight
  uncommitted({15, 3, 1});  // of a newer term: must not be touched
  const Status status = sweep(run_dir, {{40, 2, 1}, 2});
  ASSERT_TRUE(status) << status.error().line();
  EXPECT_EQ(list_committed(run_dir), (std::vector<CheckpointId>{{40, 2, 1}, {30, 2, 1}}));
  EXPECT_EQ(
      files_in(run_dir / "checkpoints"),
      (std::vector<std::string>{"step-0000000015.t3.g1", "step-0000000030.t2.g1", "step-0000000040.t2.g1",
                                "step-0000000050.t1.g9", "step-0000000050.t2.g1"}));
  for (const CheckpointId& id : list_committed(run_dir)) EXPECT_TRUE(load(directory_of(run_dir, id)));
  EXPECT_TRUE(sweep(run_dir, {{40, 2, 1}, 2})) << "nothing left to do";
}

TEST_F(Retention, OneThatTheGroupMayChange_StaysAndKeepsNoOther) {
  for (std::uint64_t step : {10, 20, 30, 40}) committed({step, 1, 1});
  const std::filesystem::path open = directory_of(run_dir, {20, 1, 1});
  std::filesystem::permissions(open, std::filesystem::perms::group_write, std::filesystem::perm_options::add);
  const Status status = sweep(FilePath::below(run_dir, Trust::kOwn), {{40, 1, 1}, 1});
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().line().find("chmod -R go-w"), std::string::npos) << status.error().line();
  EXPECT_EQ(files_in(run_dir / "checkpoints"),
            (std::vector<std::string>{"step-0000000020.t1.g1", "step-0000000040.t1.g1"}));
}

TEST_F(Retention, TheNewestThatTheGroupMayChange_IsNotUsable) {
  const FilePath own = FilePath::below(run_dir, Trust::kOwn);
  EXPECT_TRUE(check_newest_usable(own)) << "there is none";
  committed({10, 1, 1});
  committed({20, 1, 1});
  EXPECT_TRUE(check_newest_usable(own));
  const fs::path newest = directory_of(run_dir, {20, 1, 1});
  for (const fs::path& open : {newest, newest / "manifest.json", newest / "shard-00001-of-00002.h5"}) {
    fs::permissions(open, fs::perms::group_write, fs::perm_options::add);
    const Status status = check_newest_usable(own);
    ASSERT_FALSE(status) << open;
    EXPECT_EQ(status.error().code, ExitCode::kConfig);
    EXPECT_EQ(status.error().hint, str("chmod -R go-w ", run_dir.string()));
    fs::permissions(open, fs::perms::group_write, fs::perm_options::remove);
  }
  fs::permissions(directory_of(run_dir, {10, 1, 1}), fs::perms::group_write, fs::perm_options::add);
  EXPECT_TRUE(check_newest_usable(own)) << "an older one";
  fs::remove(newest / "shard-00001-of-00002.h5");
  EXPECT_TRUE(check_newest_usable(own)) << "an attempt goes back to the older one";
}

TEST_F(Retention, TheBest_IsKeptBesideTheNewest) {
  for (std::uint64_t step : {10, 20, 30, 40}) committed({step, 1, 1});
  committed({10, 2, 1});
  ASSERT_TRUE(sweep(run_dir, {{40, 1, 1}, 1, 10}));
  EXPECT_EQ(list_committed(run_dir), (std::vector<CheckpointId>{{40, 1, 1}, {10, 2, 1}}));
  ASSERT_TRUE(sweep(run_dir, {{40, 1, 1}, 2, 40})) << "among the newest";
  EXPECT_EQ(list_committed(run_dir).size(), 2U);
  ASSERT_TRUE(sweep(run_dir, {{40, 1, 1}, 1, 40}));
  EXPECT_EQ(list_committed(run_dir), (std::vector<CheckpointId>{{40, 1, 1}}));
}

// After the run's last step, no later checkpoint's sweep removes leftovers.
TEST_F(Retention, HalfWrittenOneOfTheSameStepAndAnEarlierTerm_IsRemoved) {
  uncommitted({40, 1, 9});
  uncommitted({40, 2, 1});  // of a generation of this term: its coordinator removes it
  committed({40, 2, 3});
  ASSERT_TRUE(sweep(run_dir, {{40, 2, 3}, 1}));
  EXPECT_FALSE(exists({40, 1, 9}));
  EXPECT_TRUE(exists({40, 2, 1}));
}

TEST_F(Retention, TheSpared_StayBesideTheNewestHoweverManyComeAfterThem) {
  for (std::uint64_t step : {10, 20, 30, 40}) committed({step, 1, 1});
  ASSERT_TRUE(sweep(run_dir, {{40, 1, 1}, 1, 20, {{10, 1, 1}, {5, 1, 1}}}));
  EXPECT_EQ(list_committed(run_dir), (std::vector<CheckpointId>{{40, 1, 1}, {20, 1, 1}, {10, 1, 1}}));
  ASSERT_TRUE(sweep(run_dir, {{40, 1, 1}, 2, {}, {{40, 1, 1}}}));
  EXPECT_EQ(list_committed(run_dir), (std::vector<CheckpointId>{{40, 1, 1}, {20, 1, 1}}));
}

// A checkpoint of a later step could not be read and could not be set aside. The checkpoint from which the
// run went on must stay.
TEST_F(Retention, WhatIsOfLaterStepsThanTheNewest_StaysAndCountsForNothing) {
  for (std::uint64_t step : {10, 20, 30, 60, 70}) committed({step, 1, 1});
  committed({30, 2, 1});
  ASSERT_TRUE(sweep(run_dir, {{30, 1, 1}, 2}));
  EXPECT_EQ(list_committed(run_dir),
            (std::vector<CheckpointId>{{70, 1, 1}, {60, 1, 1}, {30, 2, 1}, {30, 1, 1}, {20, 1, 1}}));
}

TEST_F(Retention, HasSaved_CountsWhatWasSetAside) {
  EXPECT_FALSE(*has_saved(run_dir));
  uncommitted({5, 1, 1});
  EXPECT_FALSE(*has_saved(run_dir));
  committed({10, 1, 1});
  EXPECT_TRUE(*has_saved(run_dir));
  EXPECT_FALSE(*has_set_aside(run_dir, 9));
  ASSERT_TRUE(set_aside(run_dir, {10, 1, 1}));
  EXPECT_TRUE(*has_set_aside(run_dir, 9));
  EXPECT_FALSE(*has_set_aside(run_dir, 10));
  EXPECT_TRUE(*has_saved(run_dir));
}

TEST_F(Retention, SweepOfAFreshRun_IsFine) { EXPECT_TRUE(sweep(run_dir, {{1, 1, 1}, 1})); }

TEST_F(Retention, ASweepThatStoppedHalfWay_IsFinishedByTheNext) {
  committed({10, 1, 1});
  committed({20, 1, 1});
  fs::remove(directory_of(run_dir, {10, 1, 1}) /
             "manifest.json");  // the result of a crash after the first unlink
  EXPECT_EQ(list_committed(run_dir), (std::vector<CheckpointId>{{20, 1, 1}}));
  ASSERT_TRUE(sweep(run_dir, {{20, 1, 1}, 3}));
  EXPECT_FALSE(exists({10, 1, 1}));
  EXPECT_TRUE(exists({20, 1, 1}));
}

TEST_F(Retention, SetAside_HidesButKeepsTheBytes) {
  committed({10, 1, 1});
  committed({20, 1, 1});
  ASSERT_TRUE(set_aside(run_dir, {20, 1, 1}));
  EXPECT_TRUE(set_aside(run_dir, {20, 1, 1})) << "two nodes may ask";
  EXPECT_EQ(list_committed(run_dir), (std::vector<CheckpointId>{{10, 1, 1}}));
  ASSERT_TRUE(sweep(run_dir, {{10, 1, 1}, 1}));
  EXPECT_TRUE(fs::exists(run_dir / "checkpoints/step-0000000020.t1.g1.damaged/manifest.json"));
  EXPECT_FALSE(set_aside(run_dir, {30, 1, 1})) << "there is none";
  committed({20, 1, 1});
  EXPECT_TRUE(set_aside(run_dir, {20, 1, 1})) << "again";
  EXPECT_TRUE(fs::exists(run_dir / "checkpoints/step-0000000020.t1.g1.damaged/manifest.json"));
  EXPECT_TRUE(fs::exists(run_dir / "checkpoints/step-0000000020.t1.g1.damaged.2/manifest.json"));
}

TEST_F(Retention, Discard_RemovesOneAndMindsNoAbsence) {
  committed({10, 1, 1});
  uncommitted({20, 1, 1});
  EXPECT_TRUE(discard(run_dir, {20, 1, 1}));
  EXPECT_TRUE(discard(run_dir, {20, 1, 1}));
  EXPECT_FALSE(exists({20, 1, 1}));
  EXPECT_TRUE(load(directory_of(run_dir, {10, 1, 1})));
}

}  // namespace
}  // namespace rekindle::checkpoint
