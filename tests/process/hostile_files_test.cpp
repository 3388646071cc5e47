// Files that claim more than they hold, that are well-formed and wrong, or that never end: one line, the
// documented exit code, and little memory, by the real commands.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/manifest_text.hpp"
#include "checkpoint/tensor_file.hpp"
#include "harness.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

class HostileFiles : public ::testing::Test {
 protected:
  fs::path at(const std::string& name) const { return scratch_ / name; }

  // With less memory than the files claim.
  static Outcome run_in_little_memory(const Arguments& arguments) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return run(arguments);  // they reserve terabytes
#else
    return Program(Arguments{"/usr/bin/prlimit", str("--as=", 700'000'000), rekindle()} + arguments).wait();
#endif
  }
  static void expect_refused(const Outcome& outcome, int exit_code, const std::string& what) {
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_NE(outcome.err.find(what), std::string::npos) << what << "\nsaid: " << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }

  void write(const FilePath& path, const std::string& text) const {
    const fs::path file = path.path();
    std::ofstream(file, std::ios::binary) << text;
  }
  // A header, and a hole for the data.
  void write_safetensors(const fs::path& file, const std::string& header, std::uint64_t data_bytes) const {
    const std::uint64_t size = header.size();
    write(file, std::string(reinterpret_cast<const char*>(&size), sizeof size) + header);
    fs::resize_file(file, sizeof size + size + data_bytes);
  }
  Scratch scratch_;
};

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

// One row of a tensor is one chunk, whatever its size.
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
  // A byte in the middle of it.
  std::fstream shard(directory / file, std::ios::in | std::ios::out | std::ios::binary);
  shard.seekp(static_cast<std::streamoff>(kFrame + kGiB / 2)).put(1);
  shard.close();
  expect_refused(run_in_little_memory({"digest", directory}), 70, "do not match their checksum");
}

TEST_F(HostileFiles, ADataSetOfHoles_IsRefusedBeforeItIsRead) {
  constexpr std::uint32_t kCount = 4'000'000;
  fs::copy(mnist_data(), at("data"));
  write(at("data") / "train-images-idx3-ubyte", idx_header(0x803, kCount));
  fs::resize_file(at("data") / "train-images-idx3-ubyte", 16 + std::uint64_t{kCount} * 784);
  const Arguments command = {"local",  "--run-dir", at("run"), "--model", "mnist-cnn",
                             "--data", at("data"),  "--steps", "1"};
  expect_refused(run_in_little_memory(command), 78, "train-images-idx3-ubyte has 3.14 GB, but only ");
  // And one whose header promises what its size does not.
  fs::resize_file(at("data") / "train-images-idx3-ubyte", 1000);
  expect_refused(run_in_little_memory(command), 78, "has 1000 bytes where its header promises 3136000016");
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

// ---- JSON and TOML that are well-formed and wrong ----

class WrongRun : public HostileFiles {
 protected:
  void SetUp() override { ASSERT_EQ(run(mnist_run(dir(), 1, 2)).exit_code, 0); }
  fs::path dir() const { return at("run"); }
  Outcome go_on() const { return run(mnist_run(dir(), 1, 4)); }
  const run::Layout layout_{scratch_ / "run"};
};

TEST_F(WrongRun, AStatusWithAWrongField_OneLineAnd78AndTheRunGoesOn) {
  for (const std::string& text : {std::string(R"({"state":5})"), R"({"state":)" + std::string(300000, '[')}) {
    write(layout_.status(), text);
    expect_refused(run({"status", dir()}), 78, "status.json: ");
  }
  write(layout_.status(), R"({"state":5})");
  EXPECT_EQ(go_on().exit_code, 0);
  EXPECT_EQ(run({"status", dir()}).exit_code, 0);
}

TEST_F(WrongRun, AClaimThatIsNone_EveryCommandSaysSoInOneLineWith78) {
  const auto expect_all_refused = [&](const std::string& what) {
    for (const Arguments& command : {mnist_run(dir(), 1, 4), Arguments{"stop", dir()},
                                     Arguments{"status", dir()}, Arguments{"join", dir()}})
      expect_refused(run(command), 78, what);
  };
  write(layout_.status(), R"({"state":"running"})");
  write(layout_.terms() / "0002", R"({"host":5})");
  expect_all_refused("terms/0002: field 'host' is not a text: remove it if no run uses this directory\n");
  write(layout_.terms() / "0002", std::string(30000, '{'));
  expect_all_refused("terms/0002: is nested deeper than");
  write(layout_.terms() / "18446744073709551615", "{}");
  expect_all_refused("terms/18446744073709551615: there are no terms above 999999999999: remove it");
  EXPECT_TRUE(processes_with(dir()).empty());
}

TEST_F(WrongRun, ARunTomlThatIsNone_OneLineAnd78) {
  const std::string good = *read_text(layout_.config());
  const auto expect_both_refused = [&](const std::string& text, const std::string& what) {
    write(layout_.config(), text);
    expect_refused(go_on(), 78, what);
    expect_refused(run({"join", dir()}), 78, what);
  };
  const auto with = [&good](const std::string& key, const std::string& value) {
    std::string text;
    std::istringstream lines(good);
    for (std::string line; std::getline(lines, line);)
      text += (line.starts_with(key + " = ") ? key + " = " + value : line) + "\n";
    return text;
  };
  expect_both_refused(with("seed", "\"x\""), "run.toml: field 'seed' is not a whole number");
  expect_both_refused(with("earlier_rates", "[{since=0, lr_step=1, lr_gamma=0.5}]"),
                      "run.toml: entry 1 of 'earlier_rates': field 'lr' is missing");
  expect_both_refused(with("batch_size", "0"), "run.toml: field 'batch_size' cannot be 0");
  expect_both_refused(good + "deep = " + std::string(300000, '['), "run.toml");
  std::string parts = "a";
  for (int i = 0; i < 300000; ++i) parts += ".a";
  expect_both_refused(good + "\n# \" '\n[" + parts + "]\n", "run.toml: a key has more than 16 parts");
  fs::remove(layout_.config().path());
  ASSERT_EQ(::mkfifo(layout_.config().string().c_str(), 0600), 0);
  expect_refused(go_on(), 78, "run.toml is not a regular file");
  expect_refused(run({"join", dir()}), 78, "run.toml is not a regular file");
}

// The coordinator is the first to look at a manifest's identity.
TEST_F(WrongRun, ACheckpointWithARateWithoutLr_TheCoordinatorEndsWithOneLineAnd78) {
  const fs::path saved = checkpoint::directory_of(dir(), checkpoint::list_committed(dir()).at(0)).path();
  auto manifest = checkpoint::read_manifest(saved);
  ASSERT_TRUE(manifest) << manifest.error().line();
  auto identity = nlohmann::json::parse(manifest->identity);
  identity["earlier_rates"] = nlohmann::json::array({{{"since", 0}, {"lr_step", 1}, {"lr_gamma", 0.1}}});
  manifest->identity = identity.dump();
  write(saved / "manifest.json", checkpoint::manifest_text(*manifest).value());
  expect_refused(go_on(), 78, "entry 1 of 'earlier_rates': field 'lr' is missing");
  EXPECT_TRUE(processes_with(dir()).empty());
  expect_refused(run({"audit", dir(), "--from", "0", "--to", "2"}), 78, "field 'lr' is missing");
}

// ---- signals ----

TEST_F(HostileFiles, SignalsBeforeARunBegins_EndItAtOnceAndNothingIsMade) {
  for (const auto& [signal, exit_code] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 75)}) {
    // It waits for a checkpoint that it was told of.
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
    // It waits for a run to appear.
    Program join({rekindle(), "join", at("none")});
    ASSERT_TRUE(eventually([&] { return can_be_ended(join.pid()); }));
    join.signal(signal);
    EXPECT_EQ(join.wait().exit_code, 0)
        << "a helper that is sent away is no failure; 78 would be its patience";
  }
}

TEST_F(WrongRun, AnAuditThatIsEndedBeforeItsRun_LeavesNothing) {
  Program audit({rekindle(), "audit", dir(), "--from", "0", "--to", "2"});
  ASSERT_TRUE(eventually([&] { return can_be_ended(audit.pid()) || !audit.running(); }));
  audit.signal(SIGTERM);
  EXPECT_EQ(audit.wait().exit_code, 75);
  EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
  for (const auto& entry : fs::directory_iterator(dir()))
    EXPECT_FALSE(entry.path().filename().string().starts_with("audit-")) << entry.path();
}

// Pipes in the place of files are not waited for.
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
  expect_refused(run(command + Arguments{"--init", at("w.h5")}), 78, "w.h5");
  expect_refused(run(command + Arguments{"--config", at("config.toml")}), 78,
                 "config.toml is not a regular file");
  expect_refused(run({"import", at("w.safetensors"), at("out.pt")}), 78,
                 "w.safetensors is not a regular file");
  pipe(at("data") / "t10k-labels-idx1-ubyte");
  expect_refused(run(command + Arguments{"--data", at("data")}), 78,
                 "t10k-labels-idx1-ubyte is not a regular file");
  EXPECT_FALSE(fs::exists(at("run")));
}

}  // namespace
}  // namespace rekindle::process_test
