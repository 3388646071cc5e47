// The changes of a run's files by a commit, and the files that a commit must not change.
#include "actors/run_records.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "../checkpoint/fixture.hpp"
#include "actors/commits.hpp"
#include "actors/run_status.hpp"
#include "actors/survey.hpp"
#include "run/terms.hpp"

namespace rekindle::actors {
namespace {

using checkpoint::CheckpointId;

class RunRecordsTest : public checkpoint::CheckpointTest {
 protected:
  RunRecordsTest() {
    job_.keep = 1;
    job_.keep_best = true;
    job_.steps = 100;
    std::filesystem::create_directories(layout_.terms().path());
    EXPECT_EQ(claim(), 1U);
  }
  std::uint64_t claim() const {
    return run::claim_term(layout_, {.patience = {}, .answers = [](const run::Holder&) { return false; }})
        .value_or(0);
  }
  // Another run was started in this run's directory.
  void replace_claim() const {
    std::ofstream((layout_.terms() / "0001").path()) << R"({"host":"elsewhere","boot_id":"other","pid":1})";
  }
  void evaluate(std::uint64_t step, double accuracy) {
    std::ofstream(layout_.metrics().path(), std::ios::app)
        << R"({"step":)" << step << R"(,"test_loss":1.0,"test_accuracy":)" << accuracy << "}\n";
  }
  // Writes shards like trainers, and then sends the commit order.
  CommitReply commit_step(std::uint64_t step, const std::vector<std::string>& pinned = {}) {
    const checkpoint::Manifest manifest = checkpoint::write_shards(run_dir, {step, 1, 1}, owned_.state, 2);
    CommitOrder order{1, 1, 1, step, manifest.digest, "{}", to_json(manifest.contents), {}, pinned};
    for (const checkpoint::ShardEntry& shard : manifest.shards) order.shards.push_back(to_json(shard));
    return commit(layout_, job_, order);
  }
  std::vector<std::uint64_t> committed() const {
    std::vector<std::uint64_t> steps;
    for (const CheckpointId& id : checkpoint::list_committed(run_dir)) steps.push_back(id.step);
    return steps;
  }

  run::Layout layout_{run_dir};
  RecordWriter writer_{layout_, 1};
  protocol::Job job_;
  checkpoint::OwnedState owned_{checkpoint::small_spec()};
};
using Steps = std::vector<std::uint64_t>;

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

TEST_F(RunRecordsTest, TakenOverWhileItCommitted_SweepsNothing) {
  job_.keep = 3;
  commit_step(10);
  commit_step(20);
  job_.keep = 1;
  ASSERT_TRUE(run::end_term(layout_, 1));
  ASSERT_EQ(claim(), 2U);
  CommitOrder order;
  order.own_term = 1;
  order.term = order.generation = 1;
  order.step = 20;
  CommitReply reply;
  EXPECT_FALSE(sweep(layout_, job_, order, reply));
  EXPECT_EQ(reply.higher_term, 2U);
  EXPECT_EQ(committed(), (Steps{20, 10}));
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
  status.show_end(coordinator, {}, 0);
  status.show(coordinator, {});
  EXPECT_EQ(state(), "finished");
  status.show(coordinator, {});
  EXPECT_EQ(state(), "finished");
}

TEST_F(RunRecordsTest, TakenOver_TheOldCoordinatorsEndIsNoStatusOfTheRun) {
  const protocol::Coordinator coordinator(protocol::CoordinatorConfig{}, protocol::Time(0));
  ASSERT_TRUE(run::end_term(layout_, 1));
  ASSERT_EQ(claim(), 2U);
  RunStatus status(writer_, job_.steps, 1);
  status.show_end(coordinator, {}, 70);
  writer_.flush();
  EXPECT_FALSE(std::filesystem::exists(layout_.status().path()));
}

using Lines = std::vector<std::string>;

protocol::StepDone step_done(std::uint64_t step) {
  protocol::StepDone done;
  done.step = step;
  done.trainers = 1;
  return done;
}

TEST_F(RunRecordsTest, MetricsCutInMidLine_MendedAtTheResumeAndTheLostStepsAreNamed) {
  {
    RunRecords records(writer_, 1);
    records.begin(false);
    for (std::uint64_t step = 1; step <= 8; ++step) EXPECT_TRUE(records.record(step_done(step)).empty());
    records.end(75, "saved", 8);
    EXPECT_EQ(records.missing_lines(), "");
  }
  commit_step(8);
  std::ifstream in(layout_.metrics().path());
  std::string line;
  std::uintmax_t bytes = 0;
  for (int lines = 0; lines < 5; ++lines) bytes += std::getline(in, line) ? line.size() + 1 : 0;
  std::filesystem::resize_file(layout_.metrics().path(), bytes - 20);  // in the fifth line
  run::Recorded recorded;
  EXPECT_EQ(survey(layout_, job_, 1, &recorded).value().recorded_step, 4U);
  RunRecords records(writer_, 2);
  records.begin(false, recorded);
  EXPECT_EQ(records.record(step_done(9)), Lines{"metrics.jsonl has no line for steps 5 to 8"});
  EXPECT_TRUE(records.record(step_done(10)).empty());
  records.end(0, "done", 10);
  EXPECT_EQ(records.missing_lines(), "") << "nobody is told twice";
  std::vector<std::uint64_t> steps;
  std::ifstream mended(layout_.metrics().path());
  while (std::getline(mended, line)) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(json.is_object()) << line;
    EXPECT_TRUE(json.at("at").is_string());
    steps.push_back(json.at("step"));
  }
  EXPECT_EQ(steps, (Steps{1, 2, 3, 4, 9, 10}));
}

TEST_F(RunRecordsTest, Metrics_GetKeysOfTheirNamesAndReplaceNoOther) {
  RunRecords records(layout_, job_, 1, 1);
  records.begin(false);
  protocol::StepDone done = step_done(7);
  done.metrics = {{"accuracy", 0.5}, {"step", 3.0}};
  records.record(done);
  records.record(protocol::Evaluated{{}, 7, 0, 16, 0.25, {{"accuracy", 0.75}, {"top5", 1.0}}});
  records.flush();
  std::ifstream in(layout_.metrics().path());
  std::string line;
  ASSERT_TRUE(std::getline(in, line));
  const auto step = nlohmann::json::parse(line);
  EXPECT_EQ(step.at("accuracy"), 0.5);
  EXPECT_EQ(step.at("step"), 7);
  ASSERT_TRUE(std::getline(in, line));
  const auto evaluation = nlohmann::json::parse(line);
  EXPECT_EQ(evaluation.at("test_loss"), 0.25);
  EXPECT_EQ(evaluation.at("test_accuracy"), 0.75);
  EXPECT_EQ(evaluation.at("test_top5"), 1.0);
  EXPECT_EQ(evaluation.at("test_count"), 16);
}

TEST_F(RunRecordsTest, VoidedSteps_AreCountedOverResumesAndForgottenWithTheirLines) {
  const auto voided = [](std::uint64_t step) {
    protocol::StepDone done = step_done(step);
    done.voided = true;
    return done;
  };
  {
    RunRecords records(writer_, 1);
    records.begin(false);
    EXPECT_TRUE(records.record(step_done(1)).empty());
    EXPECT_EQ(
        records.record(voided(2)),
        Lines{"the gradient of step 2 is not finite, so the step changed nothing (1 such step in this run)"});
    records.record(voided(3));
    records.rewind(2);
    EXPECT_EQ(
        records.record(voided(3)),
        Lines{
            "the gradient of step 3 is not finite, so the step changed nothing (2 such steps in this run)"});
    records.end(75, "saved", 3);
  }
  commit_step(3);
  run::Recorded recorded;
  EXPECT_EQ(survey(layout_, job_, 1, &recorded).value().recorded_step, 3U);
  EXPECT_EQ(recorded.voided, (std::set<std::uint64_t>{2, 3}));
  RunRecords records(writer_, 2);
  records.begin(false, recorded);
  EXPECT_EQ(
      records.record(voided(4)),
      Lines{"the gradient of step 4 is not finite, so the step changed nothing (3 such steps in this run)"});
  std::size_t lines = 0;  // a run that only voids steps does not fill the log
  for (std::uint64_t step = 5; step <= 100; ++step) lines += records.record(voided(step)).size();
  EXPECT_EQ(lines, 8U) << "steps 4 to 8 of these, then 16, 32 and 64";
}

// A worker may still supply the missing lines until the end.
TEST_F(RunRecordsTest, StepsThatNobodyReported_AreNamedAtTheEnd) {
  RunRecords records(writer_, 1);
  records.begin(true);
  for (const std::uint64_t step : {1, 5, 3, 6}) EXPECT_TRUE(records.record(step_done(step)).empty());
  records.end(0, "done", 6);
  EXPECT_EQ(records.missing_lines(), "metrics.jsonl has no line for steps 2, 4");
}

}  // namespace
}  // namespace rekindle::actors
