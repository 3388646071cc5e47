// Files that claim more than they contain, and input that never comes or never ends.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>

#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "hostile_files_fixture.hpp"

namespace rekindle::process_test {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

std::string idx_header(std::uint32_t magic, std::uint32_t count) {
  std::string header;
  for (const std::uint32_t word : {magic, count, 28U, 28U}) {
    for (const int shift : {24, 16, 8, 0}) header += static_cast<char>(word >> shift);
  }
  return header.substr(0, magic == 0x803 ? 16 : 8);
}

// ---- memory ----

TEST_F(HostileFiles, AFileOfHoles_IsImportedInLittleMemoryAndOnLittleDisk) {
  const fs::path file = at("holes.safetensors");
  write_safetensors(
      file, str(R"({"a":{"dtype":"U8","shape":[)", 3 * kGiB, R"(],"data_offsets":[0,)", 3 * kGiB, "]}}"),
      3 * kGiB);
  const Outcome imported = run_in_little_memory({"import", file, at("out.safetensors")});
  EXPECT_EQ(imported.exit_code, 0) << imported.err;
  EXPECT_GT(fs::file_size(at("out.safetensors")), 3 * kGiB);
  struct stat info {};
  ASSERT_EQ(::stat(at("out.safetensors").c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 64 << 20);
}

TEST_F(HostileFiles, InitFromAnotherModelsFile_IsRefusedBeforeItIsRead) {
  const fs::path file = at("holes.safetensors");
  write_safetensors(
      file,
      str(R"({"conv1.weight":{"dtype":"U8","shape":[)", 3 * kGiB, R"(],"data_offsets":[0,)", 3 * kGiB, "]}}"),
      3 * kGiB);
  expect_refused(run_in_little_memory(mnist_run(at("run"), 1, 2) + Arguments{"--init", file}), 78,
                 "tensor conv1.weight is uint8 [3221225472]");
  EXPECT_FALSE(fs::exists(at("run")));
}

// One row of a tensor is one chunk, independent of its size.
TEST_F(HostileFiles, ACheckpointOfOneLongRow_IsVerifiedInPieces) {
  using namespace checkpoint;
  constexpr std::uint64_t kFrame = 4096;
  const CheckpointId id{1, 1, 1};
  const TensorSpec tensor{"row", Dtype::kUint8, {1, std::int64_t{kGiB}}, Role::kParameter};
  const std::vector<std::byte> piece(1 << 20);
  Hasher128 hasher;
  for (std::uint64_t i = 0; i < kGiB / piece.size(); ++i) hasher.update(piece);
  Manifest manifest{.id = id,
                    .digest = {},
                    .identity = "{}",
                    .fingerprint = "{}",
                    .created = "",
                    .contents = {},
                    .shards = {}};
  manifest.contents = {{tensor}, {hasher.digest()}};
  manifest.digest = state_digest(id.step, manifest.contents.tensors, manifest.contents.chunks).hex();
  const std::string file = "shard-00000-of-00001.h5";
  manifest.shards.push_back(
      {file, kFrame + kGiB, hash128(std::span(piece).first(kFrame)), {{"row", 0, 1, kFrame, kGiB}}});
  const fs::path directory = directory_of(FilePath(at("run")), id).path();
  fs::create_directories(directory);
  write(directory / file, "");
  fs::resize_file(directory / file, kFrame + kGiB);
  const Status committed = commit(at("run"), manifest);
  ASSERT_TRUE(committed) << committed.error().line();

  const Outcome inspected = run_in_little_memory({"inspect", directory});
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_NE(inspected.out.find("complete: every byte was read"), std::string::npos) << inspected.out;
  const Outcome digest = run_in_little_memory({"digest", directory});
  EXPECT_EQ(digest.out, manifest.digest + "\n") << digest.err;
  expect_refused(run_in_little_memory(mnist_run(at("other"), 1, 2) + Arguments{"--init", directory}), 78,
                 "lacks tensor conv1.weight");
  for (const char* out : {"out.safetensors", "out.h5", "out.pt"}) {
    const Outcome exported = run_in_little_memory({"export", directory, at(out)});
    EXPECT_EQ(exported.exit_code, 0) << exported.err;
    EXPECT_GT(fs::file_size(at(out)), kGiB);
  }
  // Changes a byte in the middle of the file.
  std::fstream shard(directory / file, std::ios::in | std::ios::out | std::ios::binary);
  shard.seekp(static_cast<std::streamoff>(kFrame + kGiB / 2)).put(1);
  shard.close();
  expect_refused(run_in_little_memory({"digest", directory}), 78, "do not match their checksum");
}

TEST_F(HostileFiles, ADataSetOfHoles_IsRefusedBeforeItIsRead) {
  constexpr std::uint32_t kCount = 4'000'000;
  fs::copy(mnist_data(), at("data"));
  write(at("data") / "train-images-idx3-ubyte", idx_header(0x803, kCount));
  fs::resize_file(at("data") / "train-images-idx3-ubyte", 16 + std::uint64_t{kCount} * 784);
  const Arguments command = {"local",  "--run-dir", at("run"), "--model", "mnist-cnn",
                             "--data", at("data"),  "--steps", "1"};
  expect_refused(run_in_little_memory(command), 78, "train-images-idx3-ubyte has 3.14 GB, but only ");
  // A file whose header promises more than its size allows.
  fs::resize_file(at("data") / "train-images-idx3-ubyte", 1000);
  expect_refused(run_in_little_memory(command), 78, "has 1000 bytes, but its header requires 3136000016");
  EXPECT_FALSE(fs::exists(at("run")));
}

// ---- time ----

TEST_F(HostileFiles, AHeaderOfManyTensors_TakesTimeInProportion) {
  constexpr int kTensors = 200'000;
  std::string header = "{";
  for (int i = 0; i < kTensors; ++i)
    header += str(i == 0 ? "" : ",", "\"t", i, R"(":{"dtype":"U8","shape":[1],"data_offsets":[)", i, ",",
                  i + 1, "]}");
  write_safetensors(at("many.safetensors"), header + "}", kTensors);
  for (const char* out : {"out.safetensors", "out.pt"}) {
    const Outcome imported = run({"import", at("many.safetensors"), at(out)});
    EXPECT_EQ(imported.exit_code, 0) << imported.err;
    EXPECT_NE(imported.out.find("200000 tensors"), std::string::npos) << imported.out;
  }
}

// ---- signals ----

TEST_F(HostileFiles, SignalsBeforeARunBegins_EndItAtOnceAndNothingIsMade) {
  for (const auto& [signal, exit_code] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 75)}) {
    // The command waits for a checkpoint that it expects.
    fs::create_directories(at("run"));
    fs::permissions(at("run"), fs::perms::owner_all);
    write(at("run") / "newest", "step-0000000010.t1.g1\n");
    Program local(Arguments{rekindle()} + mnist_run(at("run"), 1, 2));
    ASSERT_TRUE(eventually(
        [&] { return local.printed().find("waits until the storage shows") != std::string::npos; }));
    local.signal(signal);
    const Outcome outcome = local.wait();
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_FALSE(fs::exists(at("run") / "terms"));
    // The command waits for a run to appear.
    Program join({rekindle(), "join", at("none")});
    ASSERT_TRUE(eventually([&] { return can_be_ended(join.pid()); }));
    join.signal(signal);
    EXPECT_EQ(join.wait().exit_code, 0)
        << "a helper that is sent away is no failure; 78 would be its patience";
  }
}

// Commands must not wait for pipes in the place of files.
TEST_F(HostileFiles, PipesInThePlaceOfInput_AreRefusedInOneLine) {
  fs::copy(mnist_data(), at("data"));
  const auto pipe = [&](const fs::path& file) {
    fs::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  };
  for (const char* name : {"w.safetensors", "w.h5", "config.toml"}) pipe(at(name));
  const Arguments command = mnist_run(at("run"), 1, 2);
  expect_refused(run(command + Arguments{"--init", at("w.safetensors")}), 78,
                 "w.safetensors is not a regular file");
  expect_refused(run(command + Arguments{"--init", at("w.h5")}), 78, "w.h5 is not a regular file");
  expect_refused(run(command + Arguments{"--config", at("config.toml")}), 78,
                 "config.toml is not a regular file");
  expect_refused(run({"import", at("w.safetensors"), at("out.pt")}), 78,
                 "w.safetensors is not a regular file");
  const Arguments earlier =
      mnist_run(at("earlier"), 1, 2) + Arguments{"--data", at("data"), "--checkpoint-every", "1"};
  ASSERT_EQ(run(earlier).exit_code, 0);
  pipe(at("data") / "t10k-labels-idx1-ubyte");
  expect_refused(run({"audit", at("earlier"), "--from", "1", "--to", "2"}), 78,
                 "t10k-labels-idx1-ubyte is not a regular file");
  expect_refused(run(command + Arguments{"--data", at("data")}), 78,
                 "t10k-labels-idx1-ubyte is not a regular file");
  EXPECT_FALSE(fs::exists(at("run")));
}

}  // namespace
}  // namespace rekindle::process_test
