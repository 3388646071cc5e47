// The changes of a run's files by a commit, and the files that a commit must not change.
#include "run_records_fixture.hpp"

namespace rekindle::actors {
namespace {

TEST_F(RunRecordsTest, Commit_ListsTheCheckpointsAfterTheSweep) {
  commit_step(10);
  evaluate(10, 0.9);
  commit_step(20);
  const CommitReply reply = commit_step(30);
  EXPECT_EQ(committed(), (Steps{30, 10}));
  EXPECT_EQ(reply.committed, (std::vector<std::string>{"step-0000000030.t1.g1", "step-0000000010.t1.g1"}));
  commit_step(40, {"step-0000000030.t1.g1"});
  EXPECT_EQ(committed(), (Steps{40, 30, 10}));
}

TEST_F(RunRecordsTest, EvaluationsThatCannotBeRead_NothingIsRemoved) {
  commit_step(10);
  evaluate(10, 0.9);
  std::filesystem::rename(layout_.metrics().path(), run_dir / "away");
  std::filesystem::create_directory(layout_.metrics().path());  // can be opened, but not read
  const CommitReply reply = commit_step(20);
  EXPECT_EQ(reply.error, "");
  EXPECT_TRUE(reply.committed.empty());
  EXPECT_EQ(committed(), (Steps{20, 10}));
}

TEST_F(RunRecordsTest, TakenOver_NothingIsCommittedOrSwept) {
  job_.keep = 3;
  commit_step(10);
  commit_step(20);
  job_.keep = 1;
  ASSERT_TRUE(run::end_term(layout_, 1));
  ASSERT_EQ(claim(), 2U);
  EXPECT_EQ(commit_step(30).higher_term, 2U);
  EXPECT_EQ(committed(), (Steps{20, 10}));
  EXPECT_EQ(checkpoint::noted_newest(layout_.newest_checkpoint()), (checkpoint::CheckpointId{20, 1, 1}));
}

TEST_F(RunRecordsTest, DirectoryMovedAway_NothingIsCommittedThere) {
  commit_step(10);
  std::filesystem::rename(layout_.terms().path(), run_dir / "moved");
  const CommitReply reply = commit_step(20);
  EXPECT_NE(reply.error.find("this run's claim is not in"), std::string::npos) << reply.error;
  EXPECT_EQ(reply.higher_term, 0U) << "the storage may come back";
  EXPECT_EQ(committed(), (Steps{10}));
}

TEST_F(RunRecordsTest, AnotherRunInItsPlace_NothingIsCommittedDeletedOrEnded) {
  commit_step(10);
  replace_claim();
  EXPECT_EQ(commit_step(20).higher_term, 2U);
  EXPECT_EQ(sweep_after_restore(layout_, job_, {1, 1, 2, "step-0000000010.t1.g1"}).committed,
            std::vector<std::string>{});
  EXPECT_TRUE(run::end_term(layout_, 1));
  EXPECT_FALSE(std::filesystem::exists((layout_.terms() / "0001.ended").path()));
  EXPECT_EQ(committed(), (Steps{10}));
}

TEST_F(RunRecordsTest, AnotherRunOfFewerTermsInItsPlace_NothingIsCommittedOrEnded) {
  ASSERT_TRUE(run::end_term(layout_, 1));
  ASSERT_EQ(claim(), 2U);
  std::filesystem::remove((layout_.terms() / "0002").path());
  EXPECT_EQ(run::term_in_charge(layout_, 2).value(), 3U);
  EXPECT_TRUE(run::end_term(layout_, 2));
  EXPECT_FALSE(std::filesystem::exists((layout_.terms() / "0002.ended").path()));
}

TEST_F(RunRecordsTest, NewestCommittedButItsManifestIsNotSeen_IsNotSwept) {
  job_.keep = 3;
  for (const std::uint64_t step : {10, 20}) commit_step(step);
  const auto newest = checkpoint::directory_of(run_dir, {20, 1, 1});
  std::filesystem::rename(newest / "manifest.json", run_dir / "unseen");
  sweep_after_restore(layout_, job_, {1, 1, 2, "step-0000000010.t1.g1"});
  EXPECT_TRUE(std::filesystem::exists(newest));
  std::filesystem::rename(run_dir / "unseen", newest / "manifest.json");
  EXPECT_EQ(committed(), (Steps{20, 10}));
}

TEST_F(RunRecordsTest, KeepEverything_IsNotNothing) {
  for (const std::uint64_t keep :
       {std::uint64_t{1} << 31, std::uint64_t{0xffffffff}, std::uint64_t{1} << 40}) {
    job_.keep = keep;
    const std::uint64_t step = committed().size() + 1;
    commit_step(step);
    EXPECT_EQ(committed().size(), step) << keep;
  }
}

// A crash leaves incomplete files. If they filled the disk, no later checkpoint could be committed.
TEST_F(RunRecordsTest, AfterARestore_WhatEarlierGenerationsLeftIsRemoved) {
  job_.keep = 3;
  for (const std::uint64_t step : {10, 20, 30, 40}) commit_step(step);
  job_.keep = 1;
  checkpoint::write_shards(run_dir, {50, 1, 1}, owned_.state, 2);
  checkpoint::write_shards(run_dir, {50, 1, 2}, owned_.state, 2);
  const auto there = [&](const CheckpointId& id) {
    return std::filesystem::exists(checkpoint::directory_of(run_dir, id));
  };
  const SweepReply reply = sweep_after_restore(layout_, job_, {1, 1, 2, "step-0000000030.t1.g1"});
  EXPECT_EQ(committed(), (Steps{40, 30})) << "what could not be restored stays";
  EXPECT_EQ(reply.committed.size(), 2U);
  EXPECT_FALSE(there({50, 1, 1}));
  EXPECT_TRUE(there({50, 1, 2})) << "of the generation that went on";
}

TEST_F(RunRecordsTest, CheckpointMadeWithOtherRates_IsOfAnotherRun) {
  ASSERT_EQ(commit_step(10).error, "");
  EXPECT_TRUE(survey(layout_, job_, 1));
  protocol::Job other = job_;
  other.lr = 0.3;
  const auto refused = survey(layout_, other, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ExitCode::kConfig);
  // A declared change of the rates is accepted after this checkpoint, but refused before it.
  other.earlier_rates = {{0, job_.lr, job_.lr_step, job_.lr_gamma}};
  other.rates_since = 10;
  EXPECT_TRUE(survey(layout_, other, 1));
  other.rates_since = 9;
  EXPECT_FALSE(survey(layout_, other, 1));
}

// The coordinator's timer runs until its process has ended.
TEST_F(RunRecordsTest, StatusAfterTheEnd_StaysWhatTheEndWrote) {
  protocol::CoordinatorConfig config;
  config.job = job_;
  const protocol::Coordinator coordinator(config, protocol::Time(0));
  RunStatus status(writer_, job_.steps, 1);
  const auto state = [&] {
    writer_.flush();
    return nlohmann::json::parse(read_text(layout_.status()).value_or("{}")).value("state", "");
  };
  status.show(coordinator, {});
  EXPECT_EQ(state(), "running");
  status.show_end(coordinator, {}, 0, "finished");
  status.show(coordinator, {});
  EXPECT_EQ(state(), "finished");
  status.show(coordinator, {});
  EXPECT_EQ(state(), "finished");
}

// An attempt that resumes at step 500 has no loss yet. 0 would be a wrong number in every plot.
TEST_F(RunRecordsTest, StatusWithoutAStep_HasNoLoss) {
  const protocol::Coordinator coordinator(protocol::CoordinatorConfig{}, protocol::Time(0));
  RunStatus status(writer_, job_.steps, 1);
  const auto written = [&] {
    writer_.flush();
    return nlohmann::json::parse(read_text(layout_.status()).value_or("{}"));
  };
  status.show(coordinator, {});
  EXPECT_TRUE(written().contains("step"));
  for (const char* key : {"loss", "epoch", "images_per_second"}) EXPECT_FALSE(written().contains(key)) << key;
  status.show_end(coordinator, {.done = {.generation = {1, 1}, .step = 501, .epoch = 3, .loss = 0.25}}, 0,
                  "finished");
  EXPECT_EQ(written()["loss"], 0.25);
  EXPECT_EQ(written()["epoch"], 3);
}

TEST_F(RunRecordsTest, TakenOver_TheOldCoordinatorsEndIsNoStatusOfTheRun) {
  const protocol::Coordinator coordinator(protocol::CoordinatorConfig{}, protocol::Time(0));
  ASSERT_TRUE(run::end_term(layout_, 1));
  ASSERT_EQ(claim(), 2U);
  RunStatus status(writer_, job_.steps, 1);
  status.show_end(coordinator, {}, 70, "gave up");
  writer_.flush();
  EXPECT_FALSE(std::filesystem::exists(layout_.status().path()));
}

}  // namespace
}  // namespace rekindle::actors
