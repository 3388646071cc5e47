#include "checkpoint/export.hpp"

#include <cstring>
#include <nlohmann/json.hpp>

#include "fixture.hpp"

namespace rekindle::checkpoint {
namespace {

class Export : public CheckpointTest {
 protected:
  OwnedState owned{mixed_spec()};
  CheckpointId id{5, 1, 1};
  fs::path directory = directory_of(run_dir, id);
  void SetUp() override { write_checkpoint(run_dir, id, owned.state, 3); }
};

TEST_F(Export, Load_GivesTheStateAndItsManifest) {
  const auto loaded = load(directory);
  ASSERT_TRUE(loaded) << loaded.error().line();
  EXPECT_EQ(loaded->storage, owned.storage);
  EXPECT_EQ(loaded->manifest.id, id);
  EXPECT_EQ(state_digest(5, loaded->state).hex(), loaded->manifest.digest);
}

// Checks the rules of the format's description directly. tests/oracle/check_safetensors.py uses the library
// as the oracle.
TEST_F(Export, Safetensors_FollowTheFormat) {
  for (const bool with_optimizer : {false, true}) {
    const fs::path path = run_dir / "out.safetensors";
    const auto status =
        export_file(directory, path, with_optimizer ? ExportContents::kWholeState : ExportContents::kModel);
    ASSERT_TRUE(status) << status.error().line();
    const std::string text = *read_text(path);
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, text.data(), 8);
    EXPECT_EQ(header_bytes % 8, 0U);
    const std::string header = text.substr(8, header_bytes);
    EXPECT_EQ(header[0], '{');
    const auto json = nlohmann::ordered_json::parse(header);
    const std::string data = text.substr(8 + header_bytes);
    EXPECT_EQ(json.at("__metadata__").dump(), R"({"format":"pt"})");
    std::uint64_t next = 0;
    std::size_t tensors = 0;
    for (const auto& [name, entry] : json.items()) {
      if (name == "__metadata__") continue;
      ++tensors;
      const auto& key = name;
      const auto tensor =
          std::ranges::find_if(owned.state, [&key](const Tensor& each) { return each.spec.name == key; });
      ASSERT_NE(tensor, owned.state.end()) << name;
      const std::uint64_t begin = entry.at("data_offsets").at(0), end = entry.at("data_offsets").at(1);
      EXPECT_EQ(begin, next) << "tightly packed, in order";
      EXPECT_EQ(begin % bytes_of(tensor->spec.dtype), 0U) << "aligned";
      ASSERT_EQ(end - begin, tensor->bytes.size());
      EXPECT_EQ(entry.at("shape").get<std::vector<std::int64_t>>(), tensor->spec.shape);
      EXPECT_TRUE(
          std::ranges::equal(std::as_bytes(std::span(data).subspan(begin, end - begin)), tensor->bytes))
          << name;
      next = end;
    }
    EXPECT_EQ(next, data.size());
    EXPECT_EQ(tensors, owned.state.size() - (with_optimizer ? 0 : 2));
    EXPECT_EQ(json.contains("momentum.features.0.weight"), with_optimizer);
    EXPECT_EQ(json.at("bn.num_batches_tracked").at("dtype"), "I64");
    EXPECT_EQ(json.at("half").at("dtype"), "BF16");
  }
}

TEST_F(Export, FromTheShards_TheSameBytesAsFromTheStateInMemory) {
  const auto loaded = load(directory);
  ASSERT_TRUE(loaded) << loaded.error().line();
  for (const char* extension : {".safetensors", ".h5", ".pt"}) {
    const fs::path from_memory = run_dir / str("memory", extension),
                   from_shards = run_dir / str("shards", extension);
    ASSERT_TRUE(write_tensors(from_memory, loaded->state));
    const auto status = export_file(directory, from_shards, ExportContents::kWholeState);
    ASSERT_TRUE(status) << status.error().line();
    EXPECT_TRUE(*read_file(from_shards) == *read_file(from_memory)) << extension;
  }
}

// With a moving average, a model is exported by its average, unless it was never updated.
TEST_F(Export, MovingAverage_StandsForTheModelOnceItWasUpdated) {
  const StateSpec spec = {{"fc.weight", Dtype::kFloat32, {3, 4}, Role::kParameter},
                          {"bn.count", Dtype::kInt64, {}, Role::kBuffer},
                          {"momentum.fc.weight", Dtype::kFloat32, {3, 4}, Role::kOptimizer},
                          {"ema.fc.weight", Dtype::kFloat32, {3, 4}, Role::kOptimizer},
                          {"updates", Dtype::kInt32, {3}, Role::kOptimizer}};
  // The last: a script's own optimizer has a state called ema.
  for (const auto& [updates, identity] :
       {std::pair(0, R"({"ema":0.5})"), std::pair(2, R"({"ema":0.5})"), std::pair(3, R"({"seed":1})")}) {
    const OwnedState averaged(spec);
    std::memcpy(averaged.state[4].bytes.data(), &updates, sizeof updates);
    const CheckpointId other{7, 1, 1 + static_cast<std::uint64_t>(updates)};
    write_checkpoint(run_dir, other, averaged.state, 2, identity);
    for (const ExportContents contents : {ExportContents::kModel, ExportContents::kRawModel}) {
      const fs::path path = run_dir / "average.safetensors";
      const auto names = export_file(directory_of(run_dir, other), path, contents);
      ASSERT_TRUE(names) << names.error().line();
      EXPECT_EQ(names->size(), 2U);
      const auto read = read_safetensors(path);
      ASSERT_TRUE(read) << read.error().line();
      const auto weight = std::ranges::find_if(
          read->state, [](const Tensor& tensor) { return tensor.spec.name == "fc.weight"; });
      ASSERT_NE(weight, read->state.end());
      const bool is_average = contents == ExportContents::kModel && updates == 2;
      EXPECT_TRUE(std::ranges::equal(weight->bytes, averaged.state[is_average ? 3 : 0].bytes));
    }
  }
}

// Tensors of several pieces of 8 MiB with borders other than the chunks' borders; and a single row that is a
// chunk of several pieces.
TEST_F(Export, TensorsOfManyPieces_ComeWholeAndEachChunkIsVerified) {
  const OwnedState large({{"rows", Dtype::kFloat32, {3000, 1777}, Role::kParameter},
                          {"row", Dtype::kUint8, {1, 20'000'000}, Role::kBuffer}});
  const CheckpointId other{6, 1, 1};
  write_checkpoint(run_dir, other, large.state, 3);
  const fs::path from = directory_of(run_dir, other);
  for (const char* extension : {".safetensors", ".pt"}) {
    const fs::path from_memory = run_dir / str("memory", extension),
                   from_shards = run_dir / str("shards", extension);
    ASSERT_TRUE(write_tensors(from_memory, large.state));
    const auto status = export_file(from, from_shards, ExportContents::kWholeState);
    ASSERT_TRUE(status) << status.error().line();
    EXPECT_TRUE(*read_file(from_shards) == *read_file(from_memory)) << extension;
  }
  const auto manifest = read_manifest(from);
  for (const ShardEntry& shard : manifest->shards) {
    for (const DatasetEntry& dataset : shard.datasets) {
      for (const std::uint64_t at : {dataset.offset, dataset.offset + dataset.bytes - 1}) {
        flip_bit(from / shard.file, at, 3);
        const auto refused = export_file(from, run_dir / "none.safetensors", ExportContents::kWholeState);
        ASSERT_FALSE(refused);
        EXPECT_NE(refused.error().line().find("do not match their checksum"), std::string::npos)
            << refused.error().line();
        EXPECT_FALSE(fs::exists(run_dir / "none.safetensors"));
        flip_bit(from / shard.file, at, 3);
      }
    }
  }
}

TEST_F(Export, AnotherExtension_IsAUsageErrorAndWritesNothing) {
  for (const char* name : {"out.pth.tar", "out", "out.h5.txt"}) {
    const auto status = export_file(directory, run_dir / name, ExportContents::kModel);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ExitCode::kUsage);
    EXPECT_FALSE(fs::exists(run_dir / name));
  }
}

TEST_F(Export, ADamagedCheckpoint_IsNotExportedAndAnOldFileStays) {
  const fs::path path = run_dir / "out.h5";
  std::ofstream(path) << "old";
  const auto manifest = read_manifest(directory);
  flip_bit(directory / manifest->shards[0].file, manifest->shards[0].datasets[0].offset, 0);
  EXPECT_FALSE(export_file(directory, path, ExportContents::kModel));
  EXPECT_TRUE(*read_text(path) == "old");
  EXPECT_FALSE(export_file(run_dir, path, ExportContents::kModel)) << "not a checkpoint";
  EXPECT_FALSE(export_file(directory, run_dir / "no/such/folder/out.h5", ExportContents::kModel));
}

}  // namespace
}  // namespace rekindle::checkpoint
