#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "../needs.hpp"
#include "../small_disk.hpp"
#include "checkpoint/export.hpp"
#include "fixture.hpp"

namespace rekindle::checkpoint {
namespace {

using Crash = CheckpointTest;

TEST_F(Crash, UnfinishedFiles_AreNoCheckpointAndAreSwept) {
  const OwnedState owned(small_spec());
  const CheckpointId id{5, 1, 1};
  const Manifest manifest = write_shards(run_dir, id, owned.state, 2);
  const fs::path directory = directory_of(run_dir, id);
  std::ofstream(directory / "manifest.json.tmp.123") << "{";
  std::ofstream(directory / "shard-00001-of-00002.h5.tmp.123") << "half";
  EXPECT_TRUE(list_committed(run_dir).empty());
  EXPECT_FALSE(read_manifest(directory));
  ASSERT_TRUE(commit(run_dir, manifest)) << "leftovers of others do not matter";
  EXPECT_TRUE(load(directory));
  fs::remove(directory / "manifest.json");
  ASSERT_TRUE(sweep(run_dir, {{4, 2, 1}, 1}));
  EXPECT_TRUE(fs::exists(directory)) << "it may be under way";
  ASSERT_TRUE(commit(run_dir, write_shards(run_dir, {6, 2, 1}, owned.state, 2)));
  ASSERT_TRUE(sweep(run_dir, {{6, 2, 1}, 1}));
  EXPECT_FALSE(fs::exists(directory));
}

// A writer that commits checkpoint after checkpoint is killed at any moment. All listed checkpoints are
// complete.
TEST_F(Crash, KilledWriter_WhatIsListedIsWhole) {
  // Neighbouring steps have different states.
  std::vector<OwnedState> states;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) states.emplace_back(mixed_spec(), seed);
  const auto state_of = [&states](std::uint64_t step) -> const OwnedState& { return states[step % 3]; };
  std::uint64_t step = 0;
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(str("seed ", seed));
  Rng rng(stream_key(seed, Draws::kOrder));
  for (std::size_t round = 0; round < 10; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (;; ++step) {
        write_checkpoint(run_dir, {step, 1, round}, state_of(step).state, 2);
        if (!sweep(run_dir, {{step, 1, round}, 2})) ::_exit(1);
      }
    }
    // Each round kills at another moment after another commit.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const auto committed_in_this_round = [&] {
      const auto ids = list_committed(run_dir);
      return !ids.empty() && ids.front().generation == round;
    };
    while (!committed_in_this_round() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    for (std::uint64_t looks = rng.below(400); looks > 0; --looks) list_committed(run_dir);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto ids = list_committed(run_dir);
    ASSERT_FALSE(ids.empty());
    for (const CheckpointId& id : ids) {
      const auto loaded = load(directory_of(run_dir, id));
      ASSERT_TRUE(loaded) << loaded.error().line();
      EXPECT_EQ(loaded->storage, state_of(id.step).storage);
    }
    step = ids.front().step + 1;
  }
  // The last writer's incomplete checkpoint of a later step is swept after the run has passed that step.
  write_checkpoint(run_dir, {step + 1, 2, 1}, state_of(step + 1).state, 2);
  ASSERT_TRUE(sweep(run_dir, {{step + 1, 2, 1}, 1}));
  EXPECT_EQ(files_in(run_dir / "checkpoints").size(), 1U);
}

// Writes on a file system of 8 MiB; the 12 MB state does not fit.
class FullDisk : public CheckpointTest {
 protected:
  SmallDisk disk{run_dir, 8};
};

TEST_F(FullDisk, AShardThatDoesNotFit_IsAnErrorAndLeavesNothing) {
  if (!disk.mounted()) REKINDLE_SKIP(Needs::kMounts, "needs the right to mount");
  const OwnedState owned(mixed_spec());
  const CheckpointId id{5, 1, 1};
  const auto entry = write_shard(run_dir, id, owned.state, 1, 0);
  ASSERT_FALSE(entry);
  EXPECT_NE(entry.error().what.find("No space left"), std::string::npos) << entry.error().line();
  EXPECT_TRUE(files_in(directory_of(run_dir, id)).empty());
  // The space is free again: a smaller state fits.
  write_checkpoint(run_dir, {6, 1, 1}, OwnedState(small_spec()).state, 2);
  EXPECT_TRUE(load(directory_of(run_dir, {6, 1, 1})));
}

TEST_F(FullDisk, ACommitOrExportThatDoesNotFit_IsAnErrorAndLeavesNothing) {
  if (!disk.mounted()) REKINDLE_SKIP(Needs::kMounts, "needs the right to mount");
  const CheckpointId id{5, 1, 1};
  const OwnedState owned(small_spec());
  const Manifest manifest = write_shards(run_dir, id, owned.state, 2);
  const fs::path filler = run_dir / "filler";
  std::ofstream(filler) << std::string(std::size_t{16} << 20, 'x');
  EXPECT_FALSE(commit(run_dir, manifest));
  EXPECT_TRUE(list_committed(run_dir).empty());
  EXPECT_EQ(files_in(directory_of(run_dir, id)).size(), 2U) << "only the shards";
  fs::remove(filler);
  ASSERT_TRUE(commit(run_dir, manifest));
  std::ofstream(filler) << std::string(std::size_t{16} << 20, 'x');
  EXPECT_FALSE(export_file(directory_of(run_dir, id), run_dir / "out.h5", ExportContents::kWholeState));
  EXPECT_FALSE(
      export_file(directory_of(run_dir, id), run_dir / "out.safetensors", ExportContents::kWholeState));
  EXPECT_EQ(files_in(run_dir), (std::vector<std::string>{"checkpoints", "filler"}));
}

TEST_F(Crash, AFileSizeLimit_IsAnErrorAndLeavesNothing) {
  const OwnedState owned(mixed_spec());
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit low{rlim_t{4} << 20, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &low);
  const auto entry = write_shard(run_dir, {5, 1, 1}, owned.state, 1, 0);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_FALSE(entry);
  EXPECT_TRUE(files_in(directory_of(run_dir, {5, 1, 1})).empty());
  EXPECT_TRUE(write_shard(run_dir, {5, 1, 1}, owned.state, 1, 0));
}

TEST_F(Crash, ARunDirectoryThatIsAFile_IsAnError) {
  std::ofstream(run_dir / "checkpoints") << "in the way";
  EXPECT_FALSE(write_shard(run_dir, {5, 1, 1}, OwnedState(small_spec()).state, 1, 0));
  EXPECT_TRUE(list_committed(run_dir).empty());
}

}  // namespace
}  // namespace rekindle::checkpoint
