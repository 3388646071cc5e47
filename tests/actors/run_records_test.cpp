// The lines of metrics.jsonl: what is recorded, lost, and made up for.
#include "run_records_fixture.hpp"

namespace rekindle::actors {
namespace {

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

TEST_F(RunRecordsTest, RecordsThatCannotBeWritten_AreALineForTheUserOnce) {
  std::filesystem::create_directory(layout_.metrics().path());  // in the way
  RunRecords records(writer_, 1);
  records.begin(false);
  Lines lines = records.record(step_done(1));  // the writer's thread may have told it by now
  writer_.flush();
  const Lines later = records.record(step_done(2));
  lines.insert(lines.end(), later.begin(), later.end());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(lines[0].starts_with("records are not written: cannot open ")) << lines[0];
  writer_.flush();
  EXPECT_TRUE(records.record(step_done(3)).empty());
  EXPECT_EQ(writer_.take_warning(), "");
}

TEST_F(RunRecordsTest, Metrics_GetKeysOfTheirNamesAndReplaceNoOther) {
  RunRecords records(writer_, 1);
  records.begin(false);
  protocol::StepDone done = step_done(7);
  done.metrics = {{"accuracy", 0.5}, {"step", 3.0}};
  records.record(done);
  records.record(protocol::Evaluated{{}, 7, 0, 16, 0.25, {{"accuracy", 0.75}, {"top5", 1.0}}});
  writer_.flush();
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
