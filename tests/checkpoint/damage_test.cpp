#include "checkpoint/export.hpp"
#include "fixture.hpp"
#include "resign.hpp"

namespace rekindle::checkpoint {
namespace {

class Damage : public CheckpointTest {
 protected:
  static constexpr int kShards = 3;
  CheckpointId id{5, 1, 1};
  OwnedState owned{mixed_spec()};
  Manifest manifest = write_checkpoint(run_dir, id, owned.state, kShards);
  fs::path directory = directory_of(run_dir, id);

  fs::path shard(std::size_t i) const { return directory / manifest.shards[i].file; }
  void expect_whole() {
    OwnedState back(mixed_spec(), 99);
    ASSERT_TRUE(verify(directory, manifest));
    ASSERT_TRUE(restore(directory, manifest, 2, back));
    ASSERT_EQ(back.storage, owned.storage);
  }
  // Every way to read must find the damage and name the file.
  void expect_damaged(const std::string& file, const std::string& how) {
    OwnedState back(mixed_spec(), 99);
    for (const Status& status : {verify(directory, manifest), restore(directory, manifest, 2, back)}) {
      ASSERT_FALSE(status) << how;
      EXPECT_EQ(status.error().kind, ErrorKind::kDamage) << status.error().line();
      EXPECT_NE(status.error().what.find(file), std::string::npos) << status.error().line();
    }
  }
};

#if defined(__SANITIZE_THREAD__)
constexpr int kFlips = 50;  // a few seconds each
#else
constexpr int kFlips = 300;
#endif

TEST_F(Damage, OneFlippedBitAnywhereInAShard_IsFoundAndNamed) {
  expect_whole();
  Rng rng(stream_key(7, Draws::kOrder));
  for (int round = 0; round < kFlips; ++round) {
    const ShardEntry& entry = manifest.shards[rng.below(kShards)];
    // A third of the offsets is in the headers, some are at the very ends.
    std::uint64_t offset = rng.below(round % 3 == 0 ? 4096 : entry.bytes);
    if (round == 1) offset = 0;
    if (round == 2) offset = entry.bytes - 1;
    const int bit = static_cast<int>(rng.below(8));
    flip_bit(directory / entry.file, offset, bit);
    const Status status = verify(directory, manifest);
    ASSERT_FALSE(status) << entry.file << " byte " << offset << " bit " << bit;
    EXPECT_NE(status.error().what.find(entry.file), std::string::npos);
    const auto inside = [offset](const DatasetEntry& each) {
      return offset >= each.offset && offset < each.offset + each.bytes;
    };
    if (std::ranges::any_of(entry.datasets, inside)) {
      expect_damaged(entry.file, "flip");
    } else {
      OwnedState back(mixed_spec(), 99);
      EXPECT_TRUE(restore(directory, manifest, 2, back)) << "nobody who restores reads the headers";
      EXPECT_EQ(back.storage, owned.storage);
    }
    flip_bit(directory / entry.file, offset, bit);
  }
  expect_whole();
}

TEST_F(Damage, TruncatedLongerMissingOrNotAFile_IsFound) {
  const fs::path path = shard(1);
  const auto bytes = fs::file_size(path);
  fs::resize_file(path, bytes - 1);
  expect_damaged(manifest.shards[1].file, "truncated");
  fs::resize_file(path, 0);
  expect_damaged(manifest.shards[1].file, "empty");
  fs::resize_file(path, bytes + 1);
  expect_damaged(manifest.shards[1].file, "longer");
  fs::remove(path);
  expect_damaged(manifest.shards[1].file, "missing");
  fs::create_directory(path);
  expect_damaged(manifest.shards[1].file, "directory");
}

// Waiting does not help with such a name. The patience is longer than the test's time limit.
TEST_F(Damage, SymbolicLinksInACircle_AreAnErrorAtOnceAndNoDamage) {
  constexpr std::chrono::hours kPatience{1};
  fs::remove(shard(1));
  fs::create_symlink(shard(1), shard(1));
  OwnedState back(mixed_spec(), 99);
  const Status part = read_part(directory, manifest, 1, 0, back.state, kPatience);
  ASSERT_FALSE(part);
  EXPECT_NE(part.error().kind, ErrorKind::kDamage) << part.error().line();

  const fs::path its_manifest = directory / "manifest.json";
  fs::remove(its_manifest);
  fs::create_symlink(its_manifest, its_manifest);
  const auto read = read_manifest(directory, kPatience);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().kind, ErrorKind::kDamage) << read.error().line();
}

TEST_F(Damage, SwappedShards_AreFound) {
  fs::rename(shard(0), directory / "x");
  fs::rename(shard(1), shard(0));
  fs::rename(directory / "x", shard(1));
  EXPECT_FALSE(verify(directory, manifest));
  EXPECT_FALSE(load(directory));
}

TEST_F(Damage, AShardOrManifestOfAnotherCheckpoint_IsFound) {
  const CheckpointId other_id{6, 1, 1};
  OwnedState other(mixed_spec(), 2);
  write_checkpoint(run_dir, other_id, other.state, kShards);
  const fs::path other_directory = directory_of(run_dir, other_id);
  fs::copy_file(other_directory / manifest.shards[2].file, shard(2), fs::copy_options::overwrite_existing);
  expect_damaged(manifest.shards[2].file, "mixed");
  fs::copy_file(other_directory / "manifest.json", directory / "manifest.json",
                fs::copy_options::overwrite_existing);
  EXPECT_FALSE(read_manifest(directory));
  fs::rename(directory, run_dir / "renamed");  // any name is allowed: then the chunks show the mismatch
  const auto foreign = read_manifest(run_dir / "renamed");
  ASSERT_TRUE(foreign) << foreign.error().line();
  EXPECT_FALSE(verify(run_dir / "renamed", *foreign));
  EXPECT_TRUE(load(other_directory));
}

TEST_F(Damage, OneFlippedBitAnywhereInTheManifest_IsFound) {
  const fs::path path = directory / "manifest.json";
  for (std::uint64_t offset = 0; offset < fs::file_size(path); ++offset) {
    const int bit = static_cast<int>(offset % 8);
    flip_bit(path, offset, bit);
    ASSERT_FALSE(read_manifest(directory)) << "byte " << offset << " bit " << bit;
    flip_bit(path, offset, bit);
  }
  EXPECT_TRUE(read_manifest(directory));
}

TEST_F(Damage, ATruncatedManifest_IsFoundAtEveryLength) {
  const fs::path path = directory / "manifest.json";
  for (std::uint64_t bytes = fs::file_size(path); bytes-- > 0;) {
    fs::resize_file(path, bytes);
    ASSERT_FALSE(read_manifest(directory)) << bytes;
  }
  fs::resize_file(path, std::uint64_t{1} << 40);  // a hole that must not be read into memory
  EXPECT_FALSE(read_manifest(directory));
}

TEST_F(Damage, AStateThatIsNotTheDigests_IsNotLoaded) {
  const fs::path path = directory / "manifest.json";
  std::string text = *read_text(path);
  const auto place = text.find(manifest.digest);
  text[place] = text[place] == 'a' ? 'b' : 'a';
  ASSERT_TRUE(replace_file(path, resigned(text)));
  EXPECT_FALSE(read_manifest(directory));
  EXPECT_FALSE(load(directory));
}

class SmallDamage : public CheckpointTest {};

// Garbage with a correct checksum gives an error or the same bytes, never a crash or other bytes.
TEST_F(SmallDamage, RandomlyTamperedManifestsWithRightChecksums_NeverGiveOtherBits) {
  const OwnedState owned(small_spec());
  const CheckpointId id{5, 1, 1};
  write_checkpoint(run_dir, id, owned.state, 2);
  const fs::path path = directory_of(run_dir, id) / "manifest.json";
  const std::string whole = *read_text(path);
  ASSERT_EQ(resigned(whole), whole);
  Rng rng(stream_key(11, Draws::kOrder));
  const std::string_view letters = "0123456789\"{}[],:-.e \\truefalsn\n\x80";
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole;
    for (std::uint64_t i = rng.below(3) + 1; i > 0; --i) {
      const std::uint64_t place = rng.below(text.size() - 51);
      const char letter = letters[rng.below(letters.size())];
      switch (rng.below(4)) {
        case 0:
          text[place] = letter;
          break;
        case 1:
          text.insert(place, 1, letter);
          break;
        case 2:
          text.erase(place, rng.below(20) + 1);
          break;
        default:
          text.insert(place, text.substr(rng.below(text.size() - 51), rng.below(200)));
      }
      if (text.size() < 60) text = whole;
    }
    fs::remove(path);  // ext4 flushes a file that is truncated and written again
    std::ofstream(path, std::ios::binary) << resigned(text);
    const auto loaded = load(directory_of(run_dir, id));
    refused += loaded ? 0 : 1;
    if (loaded) {
      ASSERT_EQ(loaded->storage, owned.storage) << text;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 3000);
}

}  // namespace
}  // namespace rekindle::checkpoint
