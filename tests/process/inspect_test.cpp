// The output of `rekindle inspect` for a run and for a checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/export.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

class Inspect : public ::testing::Test {
 protected:
  // One run for all tests, which work on copies. 1000 samples and batches of 16: the second epoch begins with
  // step 63.
  static void SetUpTestSuite() {
    whole_run = new Scratch;
    ::setenv("A_TOKEN", "hidden", 1);
    const Outcome outcome = run(mnist_run(*whole_run / "run", 2, 70) + Arguments{"--checkpoint-every", "35"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  }
  static void TearDownTestSuite() { delete whole_run; }
  void SetUp() override {
    fs::copy(*whole_run / "run", dir, fs::copy_options::recursive);
    json = inspect({});
    ASSERT_EQ(json["checkpoints"].size(), 2U);
    newest = json["checkpoints"][0]["path"].get<std::string>();
  }
  nlohmann::json inspect(const Arguments& more, int exit_code = 0) const {
    const Outcome outcome = run(Arguments{"inspect", dir, "--json"} + more);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    return nlohmann::json::parse(outcome.out, nullptr, false);
  }
  // The same size, but different bytes.
  void damage(const fs::path& file) const {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(100000);
    stream << "rubbish";
  }

  inline static Scratch* whole_run = nullptr;
  Scratch scratch_;
  fs::path dir = scratch_ / "run", newest;
  nlohmann::json json;
};

TEST_F(Inspect, DamagedManifest_SameExitCodeWhateverReadsIt) {
  std::ofstream(newest / "manifest.json") << "rubbish";
  for (const Arguments& command : {Arguments{"inspect", newest}, Arguments{"digest", newest},
                                   Arguments{"export", newest, scratch_ / "out.pt"}})
    EXPECT_EQ(run(command).exit_code, 78) << command.front();
}

TEST_F(Inspect, OneObjectWithAllThatIsKnown) {
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["others"], nlohmann::json::array());
  const nlohmann::json& c = json["checkpoints"][0];
  EXPECT_EQ(c["step"], 70);
  EXPECT_EQ(c["epoch"], 1);
  EXPECT_EQ(json["checkpoints"][1]["epoch"], 0);
  EXPECT_EQ(c["digest"].get<std::string>() + "\n", digest_of(dir));
  EXPECT_EQ(c["identity"]["model"], "mnist-cnn");
  EXPECT_EQ(c["fingerprint"]["threads"], "1");
  EXPECT_NE(c["fingerprint"].value("build", ""), "") << c["fingerprint"];
  EXPECT_EQ(c["shards"].size(), 2U);
  EXPECT_EQ(c["shards"][1]["file"], "shard-00001-of-00002.h5");
  EXPECT_EQ(c["tensors"], 24);
  EXPECT_EQ(c["optimizer_bytes"], 2 * c["weight_bytes"].get<std::uint64_t>());
  EXPECT_GE(c["bytes"], 3 * c["weight_bytes"].get<std::uint64_t>());
  EXPECT_LT(c["age_seconds"], 600);
  EXPECT_EQ(c["verified"], true);
  EXPECT_EQ(c["whole"], true);
  const Outcome one = run({"inspect", newest, "--json"});
  EXPECT_EQ(nlohmann::json::parse(one.out)["checkpoints"][0]["step"], 70);
}

TEST_F(Inspect, WhatElseTheRunKeeps) {
  using testing::Contains;
  EXPECT_GT(json["run"]["environment"]["variables"], 1);
  EXPECT_THAT(json["run"]["logs"], Contains("coordinator.log"));
  EXPECT_THAT(json["run"]["logs"], Contains("trainer-w1.log"));
  const std::string text = run({"inspect", dir}).out;
  for (const char* part :
       {"\n  options     run.toml\n", "\n  environment environment: ", "\n  logs        logs/: "})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(run({"inspect", newest}).out.find("run.toml"), std::string::npos);

  struct stat info {};
  ASSERT_EQ(::stat((dir / "environment").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  std::ifstream note(dir / "environment");
  const std::string variables{std::istreambuf_iterator<char>(note), {}};
  EXPECT_NE(variables.find("A_TOKEN=***\n"), std::string::npos) << variables;
  EXPECT_EQ(variables.find("hidden"), std::string::npos);
}

TEST_F(Inspect, TextForPeopleSaysTheSame) {
  const nlohmann::json& c = json["checkpoints"][0];
  const std::string text = run({"inspect", newest}).out;
  for (const std::string& part :
       {str(c["checkpoint"].get<std::string>(), "\n  progress    step 70, epoch 2\n"),
        str("digest      ", c["digest"].get<std::string>(), "\n"),
        str("size        ", format_bytes(c["bytes"]), ": weights ", format_bytes(c["weight_bytes"]),
            ", optimizer ", format_bytes(c["optimizer_bytes"]), "; 24 tensors\n"),
        std::string("options     augment=off, batch_size=16, "), std::string("micro_batches=8"),
        std::string("made by     ATEN_CPU_CAPABILITY="),
        str("              shard-00001-of-00002.h5  ", format_bytes(c["shards"][1]["bytes"]), ", "),
        std::string("\n  check       complete: every byte was read and is right\n")})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_THAT(text, testing::ContainsRegex(str("written     ", c["created"].get<std::string>(),
                                               ", [0-9]+(s|min( [0-9]+s)?) ago\n")));
}

TEST_F(Inspect, TextForPeopleSaysWhetherTheBytesWereVerified) {
  const auto said = [&](const Arguments& more, const std::string& verdict) {
    const std::string text = run(Arguments{"inspect", newest} + more).out;
    EXPECT_TRUE(text.ends_with(verdict)) << text;
  };
  said({"--no-verify"}, "\n  check       every file is there with its size; the bytes were not read\n");
  said({}, "\n  check       complete: every byte was read and is right\n");
  damage(newest / "shard-00000-of-00002.h5");
  EXPECT_NE(run({"inspect", newest}).out.find("\n  check       DAMAGED: "), std::string::npos);
  EXPECT_EQ(run({"inspect", newest, "--no-verify"}).out.find("is right"), std::string::npos);
}

TEST_F(Inspect, WithoutVerifying_DamageInsideAFileIsNotSeenAndItSaysSo) {
  damage(newest / "shard-00000-of-00002.h5");
  const auto quick = inspect({"--no-verify"})["checkpoints"][0];
  EXPECT_EQ(quick["verified"], false);
  EXPECT_TRUE(quick["whole"].is_null());
  const auto thorough = inspect({"--verify"}, 78)["checkpoints"][0];
  EXPECT_EQ(thorough["whole"], false);
  EXPECT_NE(thorough["damage"].get<std::string>().find("shard-00000-of-00002.h5"), std::string::npos);
  fs::remove(newest / "shard-00001-of-00002.h5");
  EXPECT_EQ(inspect({"--no-verify"}, 78)["checkpoints"][0]["whole"], false);
}

TEST_F(Inspect, NamesWhatIsNoCheckpoint) {
  fs::create_directory(dir / "checkpoints" / "step-0000000099.t1.g1");
  fs::rename(newest, newest.string() + ".damaged.2");
  EXPECT_EQ(inspect({})["others"].size(), 2U);
  const std::string text = run({"inspect", dir}).out;
  EXPECT_NE(text.find(".damaged.2\n  not a checkpoint: set aside as damaged"), std::string::npos) << text;
  EXPECT_NE(text.find("step-0000000099.t1.g1\n  not a checkpoint: under way"), std::string::npos) << text;
}

TEST_F(Inspect, WhatCannotBeRead_IsNotCalledDamaged) {
  const fs::path shard = newest / "shard-00000-of-00002.h5";
  fs::remove(shard);
  // The link is not followed: unreadable like after any error.
  fs::create_symlink("shard-00000-of-00002.h5", shard);
  const auto c = inspect({}, 70)["checkpoints"][0];
  EXPECT_TRUE(c["whole"].is_null()) << c;
  EXPECT_EQ(c["damage"], "");
  EXPECT_NE(c["unreadable"].get<std::string>().find("shard-00000-of-00002.h5"), std::string::npos) << c;
  fs::remove(newest / "manifest.json");
  fs::create_symlink("manifest.json", newest / "manifest.json");
  EXPECT_EQ(inspect({}, 70)["others"], nlohmann::json::array());
  const Outcome text = run({"inspect", dir});
  EXPECT_EQ(text.exit_code, 70);
  EXPECT_NE(text.out.find("UNREADABLE"), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find("DAMAGED"), std::string::npos) << text.out;
  // Damage has priority.
  damage(fs::path(json["checkpoints"][1]["path"].get<std::string>()) / "shard-00001-of-00002.h5");
  EXPECT_EQ(run({"inspect", dir}).exit_code, 78);
}

TEST_F(Inspect, NamesThatAreNotUtf8_AreShownAllTheSame) {
  fs::create_directory(dir / "checkpoints" / "caf\xe9");
  EXPECT_EQ(inspect({})["others"], nlohmann::json::array({"caf\ufffd"}));
  const fs::path odd = scratch_ / "r\xfcn";
  fs::rename(dir, odd);
  const Outcome outcome = run({"inspect", odd, "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(nlohmann::json::accept(outcome.out)) << outcome.out;
}

// A live run may sweep old checkpoints at any moment, also between listing and reading.
TEST_F(Inspect, CheckpointsThatAreDeletedMeanwhile_AreLeftOutAndNotCalledDamaged) {
  const auto loaded = checkpoint::load(newest);
  ASSERT_TRUE(loaded) << loaded.error().line();
  checkpoint::Manifest manifest = loaded->manifest;
  manifest.id = {1, 1, 1000};
  manifest.digest = checkpoint::state_digest(1, loaded->state).hex();
  std::atomic<bool> done = false;
  std::thread sweeper([&] {
    for (; !done; ++manifest.id.generation) {
      const fs::path old = checkpoint::directory_of(dir, manifest.id).path();
      fs::create_directory(old);
      for (const auto& shard : manifest.shards) fs::create_hard_link(newest / shard.file, old / shard.file);
      EXPECT_TRUE(checkpoint::commit(dir, manifest));
      EXPECT_TRUE(checkpoint::discard(dir, manifest.id));
    }
  });
  for (int i = 0; i < 40; ++i) {
    const nlohmann::json now = inspect({});
    EXPECT_GE(now["checkpoints"].size(), 2U);
    for (const auto& c : now["checkpoints"]) EXPECT_EQ(c["whole"], true) << c;
  }
  done = true;
  sweeper.join();
}

TEST_F(Inspect, ACheckpointThatWasMovedOutOfItsRun_HasNoEpoch) {
  fs::rename(newest, scratch_ / "moved");
  const Outcome outcome = run({"inspect", scratch_ / "moved", "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto c = nlohmann::json::parse(outcome.out)["checkpoints"][0];
  EXPECT_EQ(c["step"], 70);
  EXPECT_TRUE(c["epoch"].is_null());
}

}  // namespace
}  // namespace rekindle::process_test
