#include <algorithm>
#include <optional>
#include <thread>

#include "checkpoint/export.hpp"
#include "checkpoint/manifest_text.hpp"
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

TEST_F(RoundTrip, APart_FillsItsRowsAndNothingElse) {
  const OwnedState owned(mixed_spec());
  const CheckpointId id{5, 1, 1};
  const Manifest manifest = write_checkpoint(run_dir, id, owned.state, 3);
  for (int parts : {1, 3, 7}) {
    for (int part = 0; part < parts; ++part) {
      OwnedState expected(mixed_spec(), 99), back(mixed_spec(), 99);
      for (const Slice& slice : part_of(mixed_spec(), parts, part))
        std::ranges::copy(bytes_of(owned.state, slice), bytes_of(expected.state, slice).begin());
      ASSERT_TRUE(read_part(directory_of(run_dir, id), manifest, parts, part, back.state));
      EXPECT_EQ(back.storage, expected.storage);
    }
  }
}

TEST_F(RoundTrip, APart_CanBeGivenUpBeforeEachBlock) {
  const OwnedState owned(mixed_spec());
  const CheckpointId id{5, 1, 1};
  const Manifest manifest = write_checkpoint(run_dir, id, owned.state, 3);
  OwnedState back(mixed_spec(), 99);
  const auto blocks_of_a_read = [&](int most) {
    int blocks = 0;
    const auto each_block = [&]() -> Status {
      return ++blocks > most ? Status(forward_error(Error{ExitCode::kGaveUp, "", "", ErrorKind::kAborted}))
                             : Status();
    };
    const Status read = read_part(directory_of(run_dir, id), manifest, 1, 0, back.state, {}, each_block);
    EXPECT_TRUE(read || read.error().kind == ErrorKind::kAborted) << read.error().line();
    return std::pair(blocks, read.has_value());
  };
  EXPECT_EQ(blocks_of_a_read(2), std::pair(3, false));
  const auto [blocks, complete] = blocks_of_a_read(1000);
  EXPECT_GT(blocks, 5) << "of 2 MiB";
  EXPECT_TRUE(complete);
  EXPECT_EQ(back.storage, owned.storage);
}

// A state with a flipped bit in memory, or a state that was updated during the read, never becomes a
// checkpoint.
TEST_F(RoundTrip, AStateThatIsNotWhatWasHashed_IsNotWritten) {
  OwnedState owned(mixed_spec());
  const ChunkHashes chunks = hash_chunks(owned.state);
  for (std::size_t i = 0; i < owned.state.size(); ++i) {
    if (owned.storage[i].empty()) continue;
    owned.storage[i].back() ^= std::byte{1};
    const auto entry = write_shard(run_dir, {5, 1, 1}, owned.state, chunks, 1, 0);
    ASSERT_FALSE(entry) << owned.state[i].spec.name;
    EXPECT_EQ(entry.error().kind, ErrorKind::kChangedState) << entry.error().line();
    owned.storage[i].back() ^= std::byte{1};
  }
  EXPECT_TRUE(files_in(directory_of(run_dir, {5, 1, 1})).empty());
  EXPECT_TRUE(write_shard(run_dir, {5, 1, 1}, owned.state, chunks, 1, 0));
}

// Large tensors with parts at the storage's alignment, large tensors without, and small tensors.
TEST_F(RoundTrip, WrittenFromWhereItLies_IsTheSameFile) {
  StateSpec spec = mixed_spec();
  spec.push_back({"large", Dtype::kFloat32, {5, 512, 1024}, Role::kOptimizer});
  spec.push_back({"one_row", Dtype::kFloat32, {1, 3 << 20}, Role::kOptimizer});
  OwnedState owned(spec);
  const auto large =
      std::ranges::find(owned.state, "large", [](const Tensor& each) { return each.spec.name; });
  for (const bool aligned : {true, false}) {
    if (!aligned) {
      auto& memory = owned.storage[static_cast<std::size_t>(large - owned.state.begin())];
      memory.resize(memory.size() + 64);
      large->bytes = std::span(memory).subspan(64);
    }
    fs::create_directories(run_dir / "copied");
    for (const int shards : {1, 2, 3, 7}) {
      for (int shard = 0; shard < shards; ++shard) {
        const CheckpointId id{static_cast<std::uint64_t>(shards), aligned ? 1U : 2U, 1};
        const auto copied = write_shard(run_dir / "copied", id, owned.state, shards, shard);
        int all_read = 0, asked = 0;
        const Reading reading{[&all_read] { ++all_read; }, {}, [&asked] { return ++asked == 1; }};
        const auto lent =
            write_shard(run_dir, id, owned.state, hash_chunks(owned.state), shards, shard, reading);
        ASSERT_TRUE(copied && lent);
        EXPECT_EQ(all_read, 1);
        EXPECT_EQ(asked, 1);
        EXPECT_EQ(to_json(*lent), to_json(*copied));
        EXPECT_EQ(read_file(directory_of(run_dir, id) / lent->file).value(),
                  read_file(directory_of(run_dir / "copied", id) / lent->file).value());
      }
    }
  }
}

TEST_F(RoundTrip, AStateThatItsOwnerFindsChanged_IsNotWritten) {
  const OwnedState owned(mixed_spec());
  const auto entry = write_shard(run_dir, {5, 1, 1}, owned.state, hash_chunks(owned.state), 1, 0,
                                 {{}, {}, [] { return false; }});
  ASSERT_FALSE(entry);
  EXPECT_EQ(entry.error().kind, ErrorKind::kChangedState) << entry.error().line();
  EXPECT_TRUE(files_in(directory_of(run_dir, {5, 1, 1})).empty());
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
  for (ShardEntry& entry : manifest.shards) {  // as in a message
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
  EXPECT_EQ(read->contents, manifest.contents);
  ASSERT_EQ(read->shards.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(to_json(read->shards[i]), to_json(manifest.shards[2 - i]));
}

// Equal states give equal bytes in every version of this program.
TEST_F(RoundTrip, ManifestText_HasTheFormatsOrderOfKeys) {
  const Manifest manifest{.id = {5, 2, 3},
                          .digest = "d",
                          .identity = R"({"model": "vgg11", "seed": 1})",
                          .fingerprint = R"({"threads":1})",
                          .created = "2031-02-03T04:05:06Z",
                          .contents = {{{"w", Dtype::kFloat32, {2, 3}, Role::kParameter}}, {Hash128{1, 2}}},
                          .shards = {{"shard-00000-of-00001.h5", 100, Hash128{3, 4}, {{"w", 0, 2, 64, 24}}}}};
  const std::string text = manifest_text(manifest).value_or("none");
  EXPECT_EQ(text.substr(0, text.find("  \"checksum\"")), R"({
  "format": "rekindle-checkpoint",
  "version": 2,
  "step": 5,
  "term": 2,
  "generation": 3,
  "created": "2031-02-03T04:05:06Z",
  "digest": "d",
  "identity": {"model":"vgg11","seed":1},
  "fingerprint": {"threads":1},
  "tensors": [
    {"name":"w","dtype":"float32","shape":[2,3],"role":"parameter","chunks":["00000000000000010000000000000002"]}
  ],
  "shards": [
    {"file":"shard-00000-of-00001.h5","bytes":100,"frame":"00000000000000030000000000000004","datasets":[{"name":"w","first_row":0,"rows":2,"offset":64,"bytes":24}]}
  ],
)");
}

// If each new key were searched among all keys, the test would take a quarter of an hour.
TEST_F(RoundTrip, AnIdentityOfAMillionKeys_TakesTimeInProportion) {
  const OwnedState owned(small_spec());
  Manifest manifest = write_shards(run_dir, {5, 1, 1}, owned.state, 1);
  manifest.identity = "{";
  for (int i = 1'000'000; i < 2'000'000; ++i)
    manifest.identity += str(i == 1'000'000 ? "" : ",", "\"key", i, "\":1");
  manifest.identity += "}";
  const auto text = manifest_text(manifest);
  ASSERT_TRUE(text) << text.error().line();
  const auto read = parse_manifest(*text);
  ASSERT_TRUE(read) << read.error().line();
  EXPECT_TRUE(read->identity == manifest.identity);
}

TEST_F(RoundTrip, EqualStates_MakeEqualFiles) {
  const OwnedState owned(mixed_spec());
  const auto first = write_shard(run_dir, {5, 1, 1}, owned.state, 2, 1);
  const auto second = write_shard(run_dir, {5, 1, 2}, owned.state, 2, 1);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(to_json(*first), to_json(*second));
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

// Several threads write shards in one process, although libhdf5 itself is not thread-safe.
TEST_F(RoundTrip, ShardsWrittenByThreadsAtOnce_AreRight) {
  const OwnedState owned(small_spec());
  const CheckpointId id{5, 1, 1};
  constexpr int kShards = 8;
  std::vector<std::optional<Result<ShardEntry>>> entries(kShards);
  {
    std::vector<std::jthread> writers;
    writers.reserve(kShards);
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
