// Storage that may be too small. tests/network_disk runs this test on such storage, and on storage where only
// fsync or close reports the error.
#include "checkpoint/export.hpp"
#include "fixture.hpp"

namespace rekindle::checkpoint {
namespace {

constexpr int kShards = 2, kCheckpoints = 6;

Result<Manifest> write_and_commit(const fs::path& run, const CheckpointId& id, const State& state) {
  Manifest manifest{id, state_digest(id.step, state).hex(),   "{}", "{}",
                    "", {spec_of(state), hash_chunks(state)}, {}};
  for (int shard = 0; shard < kShards; ++shard) {
    REKINDLE_TRY(ShardEntry entry, write_shard_either_way(run, id, state, kShards, shard));
    manifest.shards.push_back(std::move(entry));
  }
  REKINDLE_CHECK(commit(run, manifest));
  return manifest;
}

using FullStorage = CheckpointTest;

TEST_F(FullStorage, EachCheckpointIsWholeOrReportedAndLeavesNoTemporaryFile) {
  const OwnedState owned(mixed_spec());
  const std::uint64_t all = kCheckpoints * total_bytes(mixed_spec());
  const bool too_small = fs::space(run_dir).available < all;
  std::vector<CheckpointId> whole;
  int failed = 0;
  for (std::uint64_t step = 1; step <= kCheckpoints; ++step) {
    const CheckpointId id{step, 1, 1};
    if (write_and_commit(run_dir, id, owned.state)) {
      whole.insert(whole.begin(), id);
      continue;
    }
    ++failed;
    for (const std::string& name : files_in(directory_of(run_dir, id)))
      EXPECT_EQ(name.find(".tmp."), std::string::npos) << name;
    ASSERT_TRUE(discard(run_dir, id));
  }
  EXPECT_EQ(failed > 0, too_small) << failed << " of " << kCheckpoints << " failed";
  ASSERT_FALSE(whole.empty());
  EXPECT_EQ(list_committed(run_dir), whole);
  for (const CheckpointId& id : whole) {
    const auto loaded = load(directory_of(run_dir, id));
    ASSERT_TRUE(loaded) << loaded.error().line();
    EXPECT_EQ(loaded->storage, owned.storage);
  }
  // Deleting a checkpoint makes room for the next one.
  ASSERT_TRUE(discard(run_dir, whole.back()));
  const auto next = write_and_commit(run_dir, {kCheckpoints + 1, 1, 1}, owned.state);
  ASSERT_TRUE(next) << next.error().line();
  EXPECT_TRUE(verify(directory_of(run_dir, next->id), *next));
}

}  // namespace
}  // namespace rekindle::checkpoint
