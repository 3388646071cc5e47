#include <algorithm>
#include <optional>
#include <thread>

#include "checkpoint/export.hpp"
#include "fixture.hpp"

namespace rekindle::checkpoint {
namespace {

using RoundTrip = CheckpointTest;

TEST_F(RoundTrip, AnyNumberOfWriters_AnyNumberOfReaders_SameBits) {
  const OwnedState owned(mixed_spec());
  for (int writers = 1; writers <= 5; ++writers) {
    const CheckpointId id{static_cast<std::uint64_t>(writers), 1, 1};
    write_checkpoint(run_dir, id, owned.state, writers);
    const fs::path directory = directory_of(run_dir, id);
    const auto manifest = read_manifest(directory);
    ASSERT_TRUE(manifest) << manifest.error().line();
    EXPECT_TRUE(verify(directory, *manifest));
    for (int readers = 1; readers <= 5; ++readers) {
      OwnedState back(mixed_spec(), 99);
      const Status status = restore(directory, *manifest, readers, back);
      ASSERT_TRUE(status) << status.error().line();
      EXPECT_EQ(back.storage, owned.storage) << writers << " writers, " << readers << " readers";
    }
  }
}

TEST_F(RoundTrip, PartRanges_CoverEveryByteOnceAndAreWhatAPartFills) {
  const OwnedState owned(mixed_spec());
  const CheckpointId id{5, 1, 1};
  const Manifest manifest = write_checkpoint(run_dir, id, owned.state, 3);
  const OwnedState untouched(mixed_spec(), 99);
  for (int parts : {1, 3, 7, 100}) {
    std::vector<std::vector<char>> filled;
    for (const Tensor& tensor : owned.state) filled.emplace_back(tensor.bytes.size());
    for (int part = 0; part < parts; ++part) {
      auto expected = untouched.storage;
      for (const ByteRange& range : part_ranges(manifest, parts, part)) {
        ASSERT_LE(range.offset + range.bytes, owned.storage[range.tensor].size());
        const auto from = static_cast<std::ptrdiff_t>(range.offset),
                   count = static_cast<std::ptrdiff_t>(range.bytes);
        std::for_each_n(filled[range.tensor].begin() + from, count, [](char& times) { ++times; });
        std::copy_n(owned.storage[range.tensor].begin() + from, count, expected[range.tensor].begin() + from);
      }
      if (parts == 100) continue;  // the large number is for empty parts
      OwnedState back(mixed_spec(), 99);
      ASSERT_TRUE(read_part(directory_of(run_dir, id), manifest, parts, part, back.state));
      EXPECT_EQ(back.storage, expected);
    }
    for (const auto& counts : filled) {
      EXPECT_EQ(std::count(counts.begin(), counts.end(), 1), static_cast<std::ptrdiff_t>(counts.size()));
    }
  }
}

TEST_F(RoundTrip, MoreShardsThanRows_EmptyShardsWork) {
  const OwnedState owned(small_spec());
  const CheckpointId id{5, 1, 1};
  const Manifest manifest = write_checkpoint(run_dir, id, owned.state, 40);
  EXPECT_TRUE(
      std::ranges::any_of(manifest.shards, [](const ShardEntry& each) { return each.datasets.empty(); }));
  OwnedState back(small_spec(), 99);
  const auto read = read_manifest(directory_of(run_dir, id));
  ASSERT_TRUE(read) << read.error().line();
  ASSERT_TRUE(restore(directory_of(run_dir, id), *read, 3, back));
  EXPECT_EQ(back.storage, owned.storage);
}

TEST_F(RoundTrip, AStateWithoutTensors_Works) {
  const CheckpointId id{0, 1, 1};
  write_checkpoint(run_dir, id, {}, 2);
  const auto loaded = load(directory_of(run_dir, id));
  ASSERT_TRUE(loaded) << loaded.error().line();
  EXPECT_TRUE(loaded->state.empty());
}

TEST_F(RoundTrip, Manifest_ReadsBackAsCommittedWhateverTheOrderOfReports) {
  const OwnedState owned(mixed_spec());
  const CheckpointId id{5, 2, 3};
  Manifest manifest = write_shards(run_dir, id, owned.state, 3);
  std::swap(manifest.shards[0], manifest.shards[2]);
  for (ShardEntry& entry : manifest.shards) {  // as they travel
    auto travelled = shard_entry_from_json(to_json(entry));
    ASSERT_TRUE(travelled) << travelled.error().line();
    entry = *travelled;
  }
  const Status committed = commit(run_dir, manifest);
  ASSERT_TRUE(committed) << committed.error().line();
  const auto read = read_manifest(directory_of(run_dir, id));
  ASSERT_TRUE(read) << read.error().line();
  EXPECT_EQ(read->id, manifest.id);
  EXPECT_EQ(read->digest, manifest.digest);
  EXPECT_EQ(read->identity, manifest.identity);
  EXPECT_EQ(read->fingerprint, manifest.fingerprint);
  EXPECT_EQ(read->created, manifest.created);
  EXPECT_EQ(read->tensors, manifest.tensors);
  ASSERT_EQ(read->shards.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(to_json(read->shards[i]), to_json(manifest.shards[2 - i]));
}

TEST_F(RoundTrip, EqualStates_MakeEqualFiles) {
  const OwnedState owned(mixed_spec());
  const auto first = write_shard(run_dir, {5, 1, 1}, owned.state, 2, 1);
  const auto second = write_shard(run_dir, {5, 1, 2}, owned.state, 2, 1);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->block_hashes, second->block_hashes);
}

TEST_F(RoundTrip, AnotherModel_IsRefused) {
  const OwnedState owned(small_spec());
  const CheckpointId id{5, 1, 1};
  const Manifest manifest = write_checkpoint(run_dir, id, owned.state, 1);
  StateSpec spec = small_spec();
  spec[0].shape = {3, 5};
  OwnedState other(spec);
  EXPECT_FALSE(read_part(directory_of(run_dir, id), manifest, 1, 0, other.state));
  spec = small_spec();
  spec.pop_back();
  OwnedState fewer(spec);
  EXPECT_FALSE(read_part(directory_of(run_dir, id), manifest, 1, 0, fewer.state));
}

TEST_F(RoundTrip, NamesThatAreNoLinkNames_AreRefused) {
  for (const std::string& name : {std::string(), std::string("."), std::string("a/b"), std::string("a\0b", 3),
                                  std::string("\xff"), std::string(2000, 'x')}) {
    StateSpec spec = small_spec();
    spec[0].name = name;
    EXPECT_FALSE(write_shard(run_dir, {5, 1, 1}, OwnedState(spec).state, 1, 0)) << name;
  }
}

TEST_F(RoundTrip, TwoTensorsOfOneName_AreAnErrorAndTheNextWriteIsFine) {
  StateSpec spec = small_spec();
  spec[1].name = spec[0].name;
  EXPECT_FALSE(write_shard(run_dir, {5, 1, 1}, OwnedState(spec).state, 1, 0));
  write_checkpoint(run_dir, {6, 1, 1}, OwnedState(small_spec()).state, 1);
}

// What several trainers' threads in one process would do; libhdf5 itself is not thread-safe.
TEST_F(RoundTrip, ShardsWrittenByThreadsAtOnce_AreRight) {
  const OwnedState owned(small_spec());
  const CheckpointId id{5, 1, 1};
  constexpr int kShards = 8;
  std::vector<std::optional<Result<ShardEntry>>> entries(kShards);
  {
    std::vector<std::jthread> writers;
    for (int shard = 0; shard < kShards; ++shard) {
      writers.emplace_back([&, shard] {
        entries[static_cast<std::size_t>(shard)] = write_shard(run_dir, id, owned.state, kShards, shard);
      });
    }
  }
  Manifest manifest = write_shards(run_dir, {6, 1, 1}, owned.state, kShards);
  manifest.id = id;
  manifest.digest = state_digest(id.step, owned.state).hex();
  for (std::size_t i = 0; i < kShards; ++i) {
    ASSERT_TRUE(entries[i]->has_value()) << entries[i]->error().line();
    manifest.shards[i] = **entries[i];
  }
  ASSERT_TRUE(commit(run_dir, manifest));
  EXPECT_TRUE(load(directory_of(run_dir, id)));
}

}  // namespace
}  // namespace rekindle::checkpoint
