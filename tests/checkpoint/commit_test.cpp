#include <functional>
#include <thread>

#include "fixture.hpp"
#include "resign.hpp"

namespace rekindle::checkpoint {
namespace {

class Commit : public CheckpointTest {
 protected:
  CheckpointId id{5, 1, 1};
  OwnedState owned{small_spec()};
  Manifest manifest = write_shards(run_dir, id, owned.state, 2);
  fs::path directory = directory_of(run_dir, id);
};

TEST_F(Commit, BadManifests_AreRefusedAndNothingIsCommitted) {
  const std::vector<std::pair<const char*, std::function<void(Manifest&)>>> bad = {
      {"a missing shard", [](Manifest& m) { m.shards.pop_back(); }},
      {"no shard", [](Manifest& m) { m.shards.clear(); }},
      {"a shard twice", [](Manifest& m) { m.shards[1] = m.shards[0]; }},
      {"a shard of another count", [](Manifest& m) { m.shards[0].file = "shard-00000-of-00003.h5"; }},
      {"a path", [](Manifest& m) { m.shards[0].file = "../shard-00000-of-00002.h5"; }},
      {"another size", [](Manifest& m) { ++m.shards[0].bytes; }},
      {"a huge size", [](Manifest& m) { m.shards[0].bytes = ~0ULL; }},
      {"a missing chunk hash", [](Manifest& m) { m.contents.chunks.pop_back(); }},
      {"a chunk hash too many", [](Manifest& m) { m.contents.chunks.emplace_back(); }},
      {"another chunk hash", [](Manifest& m) { ++m.contents.chunks[0].low; }},
      {"a missing dataset", [](Manifest& m) { m.shards[0].datasets.pop_back(); }},
      {"a dataset twice", [](Manifest& m) { m.shards[0].datasets.push_back(m.shards[0].datasets.back()); }},
      {"a row too few", [](Manifest& m) { --m.shards[0].datasets[0].rows; }},
      {"a row too many", [](Manifest& m) { ++m.shards[0].datasets[0].rows; }},
      {"a huge row", [](Manifest& m) { m.shards[0].datasets[0].first_row = INT64_MAX; }},
      {"a negative row", [](Manifest& m) { m.shards[0].datasets[0].first_row = -1; }},
      {"rows that overflow", [](Manifest& m) { m.shards[0].datasets[0].rows = INT64_MAX; }},
      {"an offset outside", [](Manifest& m) { m.shards[0].datasets.back().offset = m.shards[0].bytes - 1; }},
      {"an offset that overflows", [](Manifest& m) { m.shards[0].datasets.back().offset = ~0ULL; }},
      {"overlapping datasets", [](Manifest& m) { m.shards[0].datasets[1].offset -= 1; }},
      {"an unknown dataset", [](Manifest& m) { m.shards[0].datasets[0].name = "other"; }},
      {"a tensor without data",
       [](Manifest& m) {
         m.contents.tensors.push_back({"x", Dtype::kInt64, {2}, Role::kBuffer});
         m.contents.chunks.emplace_back();
         m.digest = state_digest(m.id.step, m.contents.tensors, m.contents.chunks).hex();
       }},
      {"a tensor twice", [](Manifest& m) { m.contents.tensors.push_back(m.contents.tensors[0]); }},
      {"a name with a slash", [](Manifest& m) { m.contents.tensors[0].name = "a/b"; }},
      {"a negative dimension",
       [](Manifest& m) {
         m.contents.tensors[0].shape = {-5, -3};
       }},
      {"a shape that overflows to 0",
       [](Manifest& m) {
         m.contents.tensors[0].shape = {1LL << 32, 1LL << 32};
       }},
      {"an overflow behind a zero",
       [](Manifest& m) {
         m.contents.tensors[0].shape = {1LL << 40, 1LL << 40, 0};
       }},
      {"too many dimensions",
       [](Manifest& m) { m.contents.tensors[1].shape.insert(m.contents.tensors[1].shape.end(), 40, 1); }},
      {"no digest", [](Manifest& m) { m.digest.clear(); }},
      {"a digest in capitals", [](Manifest& m) { m.digest = std::string(32, 'A'); }},
      {"an identity that is no object", [](Manifest& m) { m.identity = "1"; }},
      {"an identity that is no JSON", [](Manifest& m) { m.identity = "{"; }},
      {"a deep fingerprint", [](Manifest& m) { m.fingerprint = "{\"a\":" + std::string(100000, '['); }},
  };
  for (const auto& [what, spoil] : bad) {
    Manifest spoiled = manifest;
    spoil(spoiled);
    EXPECT_FALSE(commit(run_dir, spoiled)) << what;
    EXPECT_TRUE(list_committed(run_dir).empty()) << what;
  }
  const Status status = commit(run_dir, manifest);
  EXPECT_TRUE(status) << status.error().line();
  EXPECT_EQ(list_committed(run_dir), std::vector{id});
}

TEST_F(Commit, AFileThatIsNotThereOrHasAnotherSize_IsRefused) {
  const fs::path shard = directory / manifest.shards[1].file;
  fs::resize_file(shard, manifest.shards[1].bytes - 1);
  EXPECT_FALSE(commit(run_dir, manifest));
  fs::remove(shard);
  EXPECT_FALSE(commit(run_dir, manifest));
  EXPECT_EQ(files_in(directory), std::vector<std::string>{manifest.shards[0].file});
}

TEST_F(Commit, AskedTwice_IsTheSameCheckpoint) {
  ASSERT_TRUE(commit(run_dir, manifest));
  const std::string before = *read_text(directory / "manifest.json");
  manifest.created = "later";
  EXPECT_TRUE(commit(run_dir, manifest));
  ++manifest.contents.chunks[0].low;
  manifest.digest = state_digest(id.step, manifest.contents.tensors, manifest.contents.chunks).hex();
  const Status other = commit(run_dir, manifest);
  ASSERT_FALSE(other) << "another checkpoint under the same name";
  EXPECT_NE(other.error().what.find("another checkpoint is committed there"), std::string::npos)
      << other.error().line();
  EXPECT_EQ(*read_text(directory / "manifest.json"), before);
}

TEST_F(Commit, ACommittedCheckpoint_IsNotWrittenAgain) {
  ASSERT_TRUE(commit(run_dir, manifest));
  EXPECT_FALSE(write_shard(run_dir, id, OwnedState(small_spec(), 2).state, 2, 0));
  EXPECT_TRUE(verify(directory, manifest));
}

TEST_F(Commit, WrongFieldsBehindARightChecksum_AreRefused) {
  ASSERT_TRUE(commit(run_dir, manifest));
  const fs::path path = directory / "manifest.json";
  const std::string whole = *read_text(path);
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"\"rekindle-checkpoint\"", "\"other\""},
      {"\"step\": 5", "\"step\": 6"},
      {"\"step\": 5", "\"step\": -5"},
      {"\"step\": 5", "\"step\": 5.0"},
      {"\"step\": 5", "\"step\": \"5\""},
      {"\"step\": 5", "\"step\": 99999999999999999999999"},
      {"\"step\": 5,\n", ""},
      {"float32", "float31"},
      {"parameter", "perimeter"},
      {"\"shape\":[5,3]", "\"shape\":[5,-3]"},
      {"\"shape\":[5,3]", "\"shape\":[5,3.0]"},
      {"\"shape\":[5,3]", "\"shape\":[18446744073709551615,3]"},
      {"\"shape\":[5,3]", "\"shape\":15"},
      {"\"datasets\":[", "\"datasets\":[7,"},
      {"\"chunks\":[\"", "\"chunks\":[\"g"},
      {"\"chunks\":[\"", "\"chunks\":[\"00000000000000000000000000000000\",\""},
      {"\"chunks\":[", "\"chunks\":[],\"x\":["},
      {"\"frame\":\"", "\"frame\":\"0"},
      {"\"shards\": [", "\"shards\": [null,"},
      {"\"identity\": {", "\"identity\": 1, \"x\": {"},
      {"\"tensors\": [", "\"tensors\": {}, \"x\": ["},
  };
  for (const auto& [from, to] : changes) {
    std::string text = whole;
    const auto place = text.find(from);
    ASSERT_NE(place, std::string::npos) << from;
    ASSERT_TRUE(replace_file(path, resigned(text.replace(place, from.size(), to))));
    const auto read = read_manifest(directory);
    ASSERT_FALSE(read) << to;
    EXPECT_EQ(read.error().kind, ErrorKind::kDamage) << read.error().line();
  }
  ASSERT_TRUE(replace_file(path, resigned(std::string(100000, '[') + whole)));
  EXPECT_FALSE(read_manifest(directory));
  std::string text = whole;  // a later version may add a key
  ASSERT_TRUE(replace_file(path, resigned(text.insert(2, "  \"note\": 1,\n"))));
  EXPECT_TRUE(read_manifest(directory));
}

TEST_F(Commit, AnotherFormatVersion_IsNoDamage) {
  ASSERT_TRUE(commit(run_dir, manifest));
  std::string text = *read_text(directory / "manifest.json");
  const auto place = text.find("\"version\": 2");
  ASSERT_TRUE(replace_file(directory / "manifest.json", resigned(text.replace(place + 11, 1, "1"))));
  const auto read = read_manifest(directory);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().kind, ErrorKind::kDamage);
  EXPECT_EQ(read.error().code, ExitCode::kConfig);
  EXPECT_NE(read.error().what.find("version 1"), std::string::npos) << read.error().line();
}

TEST_F(Commit, AnotherModelsState_IsNoDamage) {
  ASSERT_TRUE(commit(run_dir, manifest));
  OwnedState other(mixed_spec());
  const Status status = read_part(directory, manifest, 1, 0, other.state);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().kind, ErrorKind::kDamage);
  EXPECT_EQ(status.error().code, ExitCode::kConfig);
}

// Network storage may show another node's file later than the manifest that contains its name.
TEST_F(Commit, ShardThatIsSeenLate_IsWaitedForAndNoDamage) {
  ASSERT_TRUE(commit(run_dir, manifest));
  const fs::path shard = directory / manifest.shards[0].file, away = run_dir / "away";
  fs::rename(shard, away);
  OwnedState back(small_spec(), 9);
  const Status at_once = read_part(directory, manifest, 1, 0, back.state);
  ASSERT_FALSE(at_once);
  EXPECT_EQ(at_once.error().kind, ErrorKind::kDamage) << at_once.error().line();
  const std::jthread other_node([&] { fs::rename(away, shard); });
  const Status status = read_part(directory, manifest, 1, 0, back.state, kNamesAreSeenWithin);
  EXPECT_TRUE(status) << status.error().line();
}

TEST_F(Commit, GarbageInsteadOfAReport_IsAnError) {
  for (const char* text :
       {"", "{}", "[]", "null", "{\"file\":1}", "{\"file\":\"x\",\"bytes\":-1}", "\xff", "{"}) {
    EXPECT_FALSE(shard_entry_from_json(text)) << text;
  }
}

TEST_F(Commit, ManifestThatIsNotThere_MissingOnlyWhereItsFolderCanBeRead) {
  fs::create_directories(run_dir / "checkpoints");
  const auto missing = read_manifest(directory_of(run_dir, {5, 1, 1}));
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().kind, ErrorKind::kSystem);
  EXPECT_EQ(missing.error().kind, ErrorKind::kDamage);
  fs::remove_all(run_dir / "checkpoints");
  const auto away = read_manifest(directory_of(run_dir, {5, 1, 1}));
  ASSERT_FALSE(away);
  EXPECT_EQ(away.error().kind, ErrorKind::kSystem) << "the storage may come back";
  EXPECT_NE(away.error().kind, ErrorKind::kDamage);
}

}  // namespace
}  // namespace rekindle::checkpoint
