// Checkpoints that are damaged: found, set aside, and computed again.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "checkpoint/checkpoint.hpp"
#include "faults_fixture.hpp"
#include "planted_checkpoint.hpp"

namespace rekindle::process_test {
namespace {

fs::path newest_checkpoint(const fs::path& run_dir) {
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(run_dir / "checkpoints")) {
    const std::string name = entry.path().filename();
    if (name.find("damaged") == std::string::npos && (newest.empty() || entry.path() > newest))
      newest = entry.path();
  }
  return newest;
}

TEST_F(Faults, DamagedFinalCheckpointOfACompleteRun_ComputedAgain) {
  const Arguments job = mnist_run(dir(), 2, 20) + Arguments{"--checkpoint-every", "10"};
  ASSERT_EQ(run(job).exit_code, 0);
  const std::string expected = digest_of(dir());
  fs::resize_file(newest_checkpoint(dir()) / "shard-00000-of-00002.h5", 100);
  EXPECT_EQ(run(job).exit_code, 0);
  EXPECT_EQ(digest_of(dir()), expected);
}

// As after a site's cleaning of old files, or by a person who has no room left.
TEST_F(Faults, NoCheckpointIsThereAnyMore_NoNewBeginningAtStep0) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 4)).exit_code, 0);
  const std::string metrics = read_text(dir() / "metrics.jsonl").value_or("");
  const fs::path checkpoints = dir() / "checkpoints", moved = scratch_ / "moved";
  fs::rename(checkpoints, moved);
  const Outcome refused = run(mnist_run(dir(), 1, 8));
  EXPECT_EQ(refused.exit_code, 78) << refused.out;
  EXPECT_EQ(times_in(refused.err, "the run would begin again at step 0: put the checkpoints back"), 1U)
      << refused.err;
  EXPECT_EQ(read_text(dir() / "metrics.jsonl").value_or(""), metrics);
  fs::remove_all(checkpoints);
  fs::rename(moved, checkpoints);
  EXPECT_EQ(run(mnist_run(dir(), 1, 8)).exit_code, 0);
  EXPECT_EQ(digest_of(dir()), quiet_digest(8));
}

// Flips one bit in the middle of a tensor in each shard.
void flip_bits(const fs::path& checkpoint) {
  std::ifstream text(checkpoint / "manifest.json");
  const auto manifest = nlohmann::json::parse(text);
  for (const auto& shard : manifest.at("shards")) {
    const auto& dataset = shard.at("datasets").front();
    const auto place =
        dataset.at("offset").get<std::streamoff>() + dataset.at("bytes").get<std::streamoff>() / 2;
    std::fstream file(checkpoint / shard.at("file").get<std::string>(),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(place);
    const int byte = file.get();
    file.seekp(place);
    file.put(static_cast<char>(byte ^ 0x10));
    ASSERT_TRUE(file.good());
  }
}

TEST_F(Faults, DamagedNewestCheckpoint_SetAsideAndTheOneBeforeIsUsed) {
  const Arguments first = mnist_run(dir(), 2, 40) + Arguments{"--checkpoint-every", "20"};
  ASSERT_EQ(run(first).exit_code, 0);
  const fs::path newest = newest_checkpoint(dir());
  flip_bits(newest);
  EXPECT_EQ(run({"inspect", dir()}).exit_code, 78);
  const Outcome digest = run({"digest", dir()});
  EXPECT_EQ(digest.exit_code, 78) << digest.err;
  EXPECT_EQ(times_in(digest.err, "may be given: see rekindle inspect " + dir().string() + "\n"), 1U)
      << digest.err;
  EXPECT_EQ(times_in(run({"digest", newest}).err, "rekindle inspect"), 0U);
  const Outcome resumed = run(mnist_run(dir(), 3, 60));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("is damaged"), std::string::npos) << resumed.out;
  // The run does not start from the beginning.
  EXPECT_NE(log().find("resumes from step 20"), std::string::npos) << log();
  EXPECT_TRUE(fs::exists(newest.string() + ".damaged"));
  EXPECT_EQ(digest_of(dir()), quiet_digest(60));
}

// Ways to damage the checkpoint `newest`; `before` is the previous one.
using Spoil = void (*)(const fs::path& newest, const fs::path& before);
struct Damage {
  const char* name;
  Spoil spoil;
};
const fs::path kManifest = "manifest.json", kShard = "shard-00000-of-00002.h5",
               kOther = "shard-00001-of-00002.h5";
const Damage kDamages[] = {
    {"BitOfTheManifest",
     [](const fs::path& newest, const fs::path&) {
       std::string text = *read_text(newest / kManifest);
       text[text.size() / 2] ^= 1;
       std::ofstream(newest / kManifest) << text;
     }},
    {"ManifestCutShort",
     [](const fs::path& newest, const fs::path&) { fs::resize_file(newest / kManifest, 100); }},
    {"ManifestOfAnother",
     [](const fs::path& newest, const fs::path& before) {
       fs::copy_file(before / kManifest, newest / kManifest, fs::copy_options::overwrite_existing);
     }},
    {"ShardOfAnother",
     [](const fs::path& newest, const fs::path& before) {
       fs::copy_file(before / kShard, newest / kShard, fs::copy_options::overwrite_existing);
     }},
    {"ShardsSwapped",
     [](const fs::path& newest, const fs::path&) {
       fs::rename(newest / kShard, newest / "third");
       fs::rename(newest / kOther, newest / kShard);
       fs::rename(newest / "third", newest / kOther);
     }},
    {"ShardGone", [](const fs::path& newest, const fs::path&) { fs::remove(newest / kShard); }},
};

class Damaged : public Faults, public ::testing::WithParamInterface<Damage> {};
INSTANTIATE_TEST_SUITE_P(Newest, Damaged, ::testing::ValuesIn(kDamages),
                         [](const auto& info) { return info.param.name; });

TEST_P(Damaged, TheRunGoesOnFromTheOneBefore) {
  ASSERT_EQ(run(mnist_run(dir(), 2, 10)).exit_code, 0);
  const fs::path before = newest_checkpoint(dir());
  ASSERT_EQ(run(mnist_run(dir(), 2, 20)).exit_code, 0);
  const std::string expected = digest_of(dir());
  const fs::path newest = newest_checkpoint(dir());
  GetParam().spoil(newest, before);
  const Outcome resumed = run(mnist_run(dir(), 1, 20));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("is damaged"), std::string::npos) << resumed.out;
  // The second time because the newest one is missing.
  EXPECT_EQ(times_in(log(), "resumes from step 10"), 2U) << log();
  EXPECT_TRUE(fs::exists(newest.string() + ".damaged"));
  EXPECT_EQ(digest_of(dir()), expected);
}

TEST_F(Faults, DamageBehindAChangeOfTheLearningRate_TheOldOneMakesTheOldStepsAgain) {
  const auto finish = [](const fs::path& run_dir, int steps, const Arguments& more = {}) {
    const Outcome outcome =
        run(mnist_run(run_dir, 2, steps) + Arguments{"--checkpoint-every", "10", "--keep", "100"} + more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  };
  const Arguments lower{"--lr", "0.003"};
  for (const char* name : {"run", "quiet"}) {
    finish(scratch_ / name, 20, {"--lr", "0.01"});
    finish(scratch_ / name, 30, lower + Arguments{"--change-lr"});
  }
  flip_bits(newest_checkpoint(dir()));
  flip_bits(dir() / "checkpoints/step-0000000020.t1.g1");
  finish(dir(), 40, lower + Arguments{"--change-lr"});  // which may stay in the command
  finish(scratch_ / "quiet", 40, lower);
  EXPECT_NE(log().find("resumes from step 10"), std::string::npos) << log();
  EXPECT_EQ(digest_of(dir()), digest_of(scratch_ / "quiet"));
}

// A valid checkpoint with a changed bit of one weight: the checksums do not show the change, the digest must.
TEST_F(Faults, ChangedSingleWeight_OtherDigest) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 2)).exit_code, 0);
  const std::string before = digest_of(dir());
  const auto flip = [](const checkpoint::State& state) {
    const auto found =
        std::ranges::find(state, "fc1.weight", [](const auto& each) { return each.spec.name; });
    ASSERT_NE(found, state.end());
    found->bytes[found->bytes.size() / 2] ^= std::byte{1};
  };
  const auto newest = [&] { return checkpoint::list_committed(dir()).front(); };
  ASSERT_NO_FATAL_FAILURE(plant_checkpoint(dir(), newest(), flip));
  ASSERT_EQ(run({"inspect", dir()}).exit_code, 0) << "the planted checkpoint is valid";
  const std::string changed = digest_of(dir());
  EXPECT_EQ(changed.find("error"), std::string::npos) << changed;
  EXPECT_NE(changed, before);
  ASSERT_NO_FATAL_FAILURE(plant_checkpoint(dir(), newest(), flip));
  EXPECT_EQ(digest_of(dir()), before) << "the same bytes again, in another checkpoint";
}

}  // namespace
}  // namespace rekindle::process_test
