// Files of a run directory that are empty, truncated, or a link to themselves, after a full disk, a crash or
// a mistake. The run continues, or ends with one line. It never retries forever, and it reports what is lost.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/files.hpp"
#include "harness.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"

namespace rekindle::process_test {
namespace {

class TornFiles : public ::testing::Test {
 protected:
  // Ten steps are made; the newest checkpoint is of step 10, the one before of step 5.
  void SetUp() override { ASSERT_EQ(go_on_to(10).exit_code, 0); }
  Outcome go_on_to(int steps) const {
    return run(mnist_run(dir(), 1, steps) + Arguments{"--checkpoint-every", "5"});
  }
  fs::path dir() const { return scratch_ / "run"; }

  Scratch scratch_;
  const run::Layout layout_{scratch_ / "run"};
};

TEST_F(TornFiles, EmptyKeyPair_EachAttemptMakesANewOneAnyway) {
  const std::string before = read_text(layout_.key_pair()).value();
  fs::resize_file(layout_.key_pair().path(), 0);
  const Outcome outcome = go_on_to(11);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_NE(read_text(layout_.key_pair()).value(), before);
}

// The user must decide: an older checkpoint is never used silently, and there are no endless retries.
TEST_F(TornFiles, ShardThatIsALink_OneLineWith78AndTheRunGoesOnOnceTheFileIsThere) {
  const fs::path checkpoint = (layout_.checkpoints() / "step-0000000010.t1.g1").path();
  fs::path shard;
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    if (entry.path().filename().string().starts_with("shard-")) shard = entry.path();
  }
  const fs::path kept = scratch_ / "kept";
  fs::rename(shard, kept);
  for (const fs::path& target : {shard, kept}) {  // in a circle, and to the file itself
    fs::create_symlink(target, shard);
    const Outcome refused = go_on_to(11);
    EXPECT_EQ(refused.exit_code, 78) << refused.out << refused.err;
    EXPECT_NE(refused.err.find("is a symbolic link, which is not followed here"), std::string::npos)
        << refused.err;
    fs::remove(shard);
  }
  fs::rename(kept, shard);
  const Outcome outcome = go_on_to(11);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(times_in(outcome.out, "resumes from step 10"), 1U) << outcome.out;
}

TEST_F(TornFiles, MetricsCutInMidLine_MendedAndTheLostStepsAreNamed) {
  const std::string text = read_text(layout_.metrics()).value();
  fs::resize_file(layout_.metrics().path(), text.find("\"step\":7"));
  std::ofstream(layout_.attempts().path(), std::ios::app) << R"({"event":"begin","atte)";
  const Outcome outcome = go_on_to(12);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(times_in(outcome.out, "warning: metrics.jsonl has no line for steps 7 to 10"), 1U) << outcome.out;
  for (const FilePath& file : {layout_.metrics(), layout_.attempts()}) {
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line);)
      EXPECT_TRUE(nlohmann::json::parse(line, nullptr, false).is_object()) << file.string() << ": " << line;
  }
  EXPECT_EQ(run::recorded(layout_).missing.text(), "steps 7 to 10");
}

// `cp -al` gives each file of the run a second name.
TEST_F(TornFiles, BackupMadeOfHardLinks_TheRunGoesOnWithRecordsAndTheBackupStaysAsItIs) {
  const fs::path backup = scratch_ / "backup";
  ASSERT_EQ(std::system(("cp -al '" + dir().string() + "' '" + backup.string() + "'").c_str()), 0);
  const run::Layout copy(backup);
  const auto records = [](const run::Layout& of) {
    std::string all;
    for (const FilePath& file : {of.metrics(), of.attempts(), of.log("supervisor"), of.log("coordinator")})
      all += read_text(file).value();
    return all;
  };
  const std::string before = records(copy);
  const Outcome outcome = go_on_to(12);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("the run is complete: 12 steps, digest"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.err.find("records are not written"), std::string::npos) << outcome.err;
  EXPECT_EQ(reached_step(dir()), 12U);
  EXPECT_TRUE(run::recorded(layout_).missing.empty());
  EXPECT_TRUE(run::recorded(layout_).evaluated.contains(12));
  EXPECT_NE(read_text(layout_.log("coordinator")).value().find("resumes from step 10"), std::string::npos);
  EXPECT_EQ(records(copy), before);
  // With the evaluation on record, the same command has nothing to do.
  const Outcome again = go_on_to(12);
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_TRUE(again.out.starts_with("the run is complete: 12 steps")) << again.out;
}

// The log of the coordinator cannot be written either.
TEST_F(TornFiles, RecordsThatCannotBeWritten_ThePersonIsTold) {
  for (const FilePath& file : {layout_.metrics(), layout_.log("coordinator")}) {
    fs::remove(file.path());
    fs::create_directory(file.path());
  }
  const Outcome outcome = go_on_to(12);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.out, "warning: the records of earlier steps cannot be read: "), 1U)
      << outcome.out;
  EXPECT_EQ(times_in(outcome.out, "warning: records are not written: "), 1U) << outcome.out << outcome.err;
  EXPECT_NE(outcome.err.find("no log file: "), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace rekindle::process_test
