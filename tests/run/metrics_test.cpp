// The metrics of a run: rewinding, reading, and skipping damaged lines.
#include <fstream>

#include "../read_lines.hpp"
#include "base/files.hpp"
#include "run/records.hpp"
#include "run_directory_fixture.hpp"

namespace rekindle::run {
namespace {

TEST_F(RunDirectory, MetricsOfLostStepsAreRewoundAndATornLineIsDropped) {
  MetricsFile metrics(layout_);
  ASSERT_TRUE(metrics.rewind(0));
  for (int step = 1; step <= 5; ++step) ASSERT_TRUE(metrics.append({{"step", step}}));
  std::ofstream(layout_.metrics().path(), std::ios::app) << "{\"step\": 6, \"lo";
  MetricsFile again(layout_);
  ASSERT_TRUE(again.rewind(3));
  ASSERT_TRUE(again.append({{"step", 4}, {"test_loss", 1.0}}));
  EXPECT_EQ(read_lines(layout_.metrics()).size(), 4U);
  EXPECT_EQ(recorded(layout_).evaluated, std::set<std::uint64_t>{4});
}

TEST_F(RunDirectory, MetricsOutOfOrder_RewoundAllTheSame) {
  MetricsFile metrics(layout_);
  for (const int step : {1, 5, 2, 3, 6}) ASSERT_TRUE(metrics.append({{"loss", 1.0}, {"step", step}}));
  ASSERT_TRUE(metrics.rewind(3));
  std::vector<int> steps;
  for (const nlohmann::json& line : read_lines(layout_.metrics())) steps.push_back(line.at("step"));
  EXPECT_EQ(steps, (std::vector{1, 2, 3}));
}

TEST_F(RunDirectory, ManyMetricsOutOfOrder_AllThatStayAreCopied) {
  std::string before, after;
  for (int step = 2; step <= 50000; step += 2) {
    const std::string late = str(R"({"step":)", step, "}\n"),
                      early = str(R"({"loss":0.5,"step":)", step - 1, "}\n");
    before += late + early;
    after += (step <= 40001 ? late : "") + (step - 1 <= 40001 ? early : "");
  }
  std::ofstream(layout_.metrics().path()) << before;
  ASSERT_TRUE(MetricsFile(layout_).rewind(40001));
  EXPECT_TRUE(read_text(layout_.metrics()).value_or("") == after);
  EXPECT_EQ(look_at(layout_.metrics()).value()->st_mode & 0777, 0600U);
}

TEST_F(RunDirectory, DamagedLinesOfTheMetrics_CountForNothing) {
  MetricsFile metrics(layout_);
  ASSERT_TRUE(metrics.append({{"loss", 1.0}, {"step", 3}}));
  ASSERT_TRUE(metrics.append({{"step", 3}, {"test_accuracy", 0.5}, {"test_loss", nullptr}}));  // not finite
  std::ofstream(layout_.metrics().path(), std::ios::app) << R"({"loss":1,"step":"7"})"
                                                         << "\n"
                                                         << R"({"step":9,"test_accuracy":"x","test_loss":1})"
                                                         << "\n"
                                                         << R"(["step":9])"
                                                         << "\n"
                                                         << R"({"step":8,"lo)";
  EXPECT_EQ(recorded(layout_).step, 3U);
  EXPECT_EQ(recorded(layout_).evaluated, std::set<std::uint64_t>{3});
  EXPECT_EQ(best_evaluated(layout_, {3, 9}, {}), 3U);
  EXPECT_TRUE(last_evaluation(layout_));
}

TEST_F(RunDirectory, EvaluationsWithoutAnAccuracy_TheLowestLossIsTheBest) {
  MetricsFile metrics(layout_);
  ASSERT_TRUE(metrics.append({{"step", 1}, {"test_loss", nullptr}}));
  ASSERT_TRUE(metrics.append({{"step", 2}, {"test_loss", 0.5}, {"test_perplexity", 9.0}}));
  ASSERT_TRUE(metrics.append({{"step", 3}, {"test_loss", 0.25}}));
  ASSERT_TRUE(metrics.append({{"step", 4}, {"test_loss", 0.25}}));
  EXPECT_EQ(best_evaluated(layout_, {1, 2, 3, 4}, {}), 3U);
  EXPECT_EQ(best_evaluated(layout_, {1, 2}, {}), 2U);
}

// An earlier build reported an accuracy of models that predict numbers.
TEST_F(RunDirectory, TheLastEvaluationHasNoAccuracy_TheLowestLossIsTheBest) {
  MetricsFile metrics(layout_);
  ASSERT_TRUE(metrics.append({{"step", 1}, {"test_loss", 0.5}, {"test_accuracy", 0.9}}));
  ASSERT_TRUE(metrics.append({{"step", 2}, {"test_loss", 0.25}}));
  EXPECT_EQ(best_evaluated(layout_, {1, 2}, {}), 2U);
}

TEST_F(RunDirectory, BestMetric_ByItsNameAndInItsDirection) {
  MetricsFile metrics(layout_);
  ASSERT_TRUE(metrics.append({{"step", 1}, {"test_loss", 0.1}, {"test_accuracy", 0.5}, {"test_f1", 0.25}}));
  ASSERT_TRUE(metrics.append({{"step", 2}, {"test_loss", 0.2}, {"test_accuracy", 0.75}, {"test_f1", 0.5}}));
  ASSERT_TRUE(metrics.append({{"step", 3}, {"test_loss", 0.3}, {"test_accuracy", 0.5}, {"test_f1", 0.75}}));
  const std::pair<const char*, std::optional<std::uint64_t>> best[] = {
      {"", 2},       {"accuracy", 2}, {"f1", 3},       {"max:f1", 3},
      {"min:f1", 1}, {"loss", 1},     {"max:loss", 3}, {"f2", {}}};
  for (const auto& [metric, step] : best)
    EXPECT_EQ(best_evaluated(layout_, {1, 2, 3}, best_by(metric)).value(), step) << metric;
}

}  // namespace
}  // namespace rekindle::run
