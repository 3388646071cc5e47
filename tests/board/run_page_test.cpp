#include "board/run_page.hpp"

#include <gmock/gmock.h>

#include "fixture.hpp"

namespace rekindle::board {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RunPageTest : public BoardTest {
 protected:
  RunPage page_{layout_.root().path(), "run"};
};

TEST_F(RunPageTest, OfARun_ShowsWhatItsFilesSay) {
  status(
      {{"step", 4}, {"loss", 0.25}, {"trainers", {{{"trainer", "a"}, {"rank", 0}, {"phase", "computing"}}}}});
  event("started", {{"host", "n1"}});
  for (std::uint64_t i = 1; i <= 4; ++i) step(i, 1.0 / static_cast<double>(i));
  log("2026-01-01T00:00:01.000Z warning rekindle: look out");
  log("2026-01-01T00:00:02.000Z info rekindle: all is well");
  ASSERT_TRUE(page_.read());
  const nlohmann::json summary = page_.summary();
  EXPECT_EQ(summary["name"], "run");
  EXPECT_EQ(summary["step"], 4);
  EXPECT_EQ(summary["step_ms"]["step"], 100.0);
  EXPECT_EQ(summary["step_ms"]["compute"], 50.0);
  EXPECT_EQ(summary["attempts"].size(), 1U);
  ASSERT_EQ(summary["warnings"].size(), 1U);
  EXPECT_EQ(summary["warnings"][0]["text"], "rekindle: look out");
  EXPECT_THAT(summary["metrics"].dump(), HasSubstr("loss"));
}

TEST_F(RunPageTest, Events_TellOnlyWhatIsNew) {
  status({{"step", 1}});
  step(1, 1.0);
  ASSERT_TRUE(page_.read());
  EXPECT_THAT(page_.take_events(), HasSubstr("event: status"));
  ASSERT_TRUE(page_.read());
  EXPECT_EQ(page_.take_events(), "");
  step(2, 0.5);
  ASSERT_TRUE(page_.read());
  const std::string events = page_.take_events();
  EXPECT_THAT(events, HasSubstr(R"("loss":[[2,0.5]])"));
  EXPECT_THAT(events, Not(HasSubstr("event: changed")));
  event("saved", {{"checkpoint", "step-2"}});
  ASSERT_TRUE(page_.read());
  EXPECT_THAT(page_.take_events(), HasSubstr("event: changed"));
}

// A summary must not take the events away from a page that is open.
TEST_F(RunPageTest, ASummaryTakesNoEvents) {
  step(1, 1.0);
  ASSERT_TRUE(page_.read());
  page_.take_events();
  step(2, 0.5);
  ASSERT_TRUE(page_.read());
  std::ignore = page_.summary();
  ASSERT_TRUE(page_.read());
  EXPECT_THAT(page_.take_events(), HasSubstr(R"("loss":[[2,0.5]])"));
}

TEST_F(RunPageTest, WhatNobodyTakes_DoesNotGrow) {
  ASSERT_TRUE(page_.read());
  std::uint64_t number = 0;
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 500; ++i) step(++number, 1.0);
    ASSERT_TRUE(page_.read());
  }
  const std::string events = page_.take_events();
  EXPECT_LT(events.size(), std::size_t{1} << 19);
  EXPECT_THAT(events, HasSubstr("event: changed"));
  EXPECT_EQ(page_.totals().steps().count(), number);
}

TEST_F(RunPageTest, CountsDoNotFall_WhenTheRunGoesBack) {
  for (std::uint64_t i = 1; i <= 10; ++i) step(i, 1.0);
  ASSERT_TRUE(page_.read());
  EXPECT_EQ(page_.totals().steps().count(), 10U);
  run::MetricsFile(layout_).rewind(4);
  ASSERT_TRUE(page_.read());
  for (std::uint64_t i = 5; i <= 6; ++i) step(i, 1.0);
  ASSERT_TRUE(page_.read());
  EXPECT_EQ(page_.totals().steps().count(), 12U) << "each step that was made, once for each time";
  EXPECT_THAT(page_.take_events(), HasSubstr("event: rewound"));
}

// A scraper comes every quarter of a minute, and a run may make hundreds of steps a second.
TEST_F(RunPageTest, ManyStepsBetweenTwoReadings_AllCount) {
  step(1, 1.0);
  ASSERT_TRUE(page_.read());
  for (std::uint64_t i = 2; i <= 10000; ++i) step(i, 1.0);
  ASSERT_TRUE(page_.read());
  EXPECT_EQ(page_.totals().steps().count(), 10000U);
}

// A person removes a run directory, and begins another run in its place.
TEST_F(RunPageTest, ANewRunInThePath_HasNothingOfTheOldOne) {
  // An attempt in which a trainer is lost; the time is in each line.
  const auto attempt = [&](const std::string& hour, const std::string& trainer, int steps) {
    const auto add = [&](const std::string& kind, nlohmann::json line) {
      line.update({{"event", kind}, {"at", "2026-01-01T" + hour + ":00:00.000Z"}, {"attempt", 1}});
      append(layout_.events(), line);
    };
    add("started", {{"host", "n1"}});
    add("generation", {{"generation", "t1.g1"}, {"members", {{{"trainer", trainer}}}}});
    add("lost", {{"trainer", trainer}, {"why", "killed"}});
    add("recovered", {{"cause", "lost"}, {"seconds", 1.0}});
    for (int i = 1; i <= steps; ++i) step(static_cast<std::uint64_t>(i), 1.0);
    log("2026-01-01 " + hour + ":00:00.000 warning rekindle: of " + trainer);
  };
  attempt("01", "old", 5);
  ASSERT_TRUE(page_.read());
  EXPECT_EQ(page_.counts().attempts, 1U);
  EXPECT_EQ(page_.totals().steps().count(), 5U);
  page_.take_events();
  for (const auto& entry : std::filesystem::directory_iterator(path_))
    std::filesystem::remove_all(entry.path());
  ASSERT_TRUE(page_.read()) << "there is nothing";
  attempt("02", "new", 2);
  ASSERT_TRUE(page_.read());
  EXPECT_EQ(page_.counts().attempts, 1U);
  EXPECT_EQ(page_.counts().recoveries.at("lost"), 1U);
  EXPECT_EQ(page_.totals().steps().count(), 2U);
  const nlohmann::json summary = page_.summary();
  EXPECT_EQ(summary["attempts"].size(), 1U);
  ASSERT_EQ(summary["lanes"].size(), 1U);
  EXPECT_EQ(summary["lanes"][0]["trainer"], "new");
  EXPECT_EQ(summary["recoveries"], 1);
  ASSERT_EQ(summary["warnings"].size(), 1U);
  EXPECT_THAT(summary["warnings"][0]["text"].get<std::string>(), HasSubstr("of new"));
  EXPECT_THAT(page_.take_events(), HasSubstr("event: rewound\ndata: {\"step\":0}"))
      << "an open page drops the old curves";
}

// A scraper sees a counter that falls as a restart, and counts all of it again.
TEST_F(RunPageTest, EventsWrittenAnewOfTheSameRun_AreNotCountedTwice_AndNoCountFalls) {
  event("started", {{"host", "n1"}});
  for (int i = 0; i < 2; ++i) event("recovered", {{"cause", "lost"}, {"seconds", 1.0}});
  ASSERT_TRUE(page_.read());
  const std::string records = [&] {
    std::ifstream in(layout_.events().path());
    return std::string{std::istreambuf_iterator<char>(in), {}};
  }();
  const std::string shorter = records.substr(0, records.find('\n') + 1);
  std::ofstream(layout_.events().path()) << shorter;
  ASSERT_TRUE(page_.read());
  EXPECT_EQ(page_.summary()["recoveries"], 0);
  EXPECT_EQ(page_.counts().recoveries.at("lost"), 2U);
  EXPECT_EQ(page_.counts().recovery_seconds.count(), 2U);
  event("recovered", {{"cause", "lost"}, {"seconds", 1.0}});
  ASSERT_TRUE(page_.read());
  EXPECT_EQ(page_.summary()["recoveries"], 1);
  EXPECT_EQ(page_.counts().recoveries.at("lost"), 2U);
  std::ofstream(layout_.events().path()) << "";
  ASSERT_TRUE(page_.read());
  std::ofstream(layout_.events().path()) << records;
  ASSERT_TRUE(page_.read());
  EXPECT_EQ(page_.summary()["recoveries"], 2);
  EXPECT_EQ(page_.counts().recoveries.at("lost"), 2U);
  EXPECT_EQ(page_.counts().attempts, 1U);
}

TEST_F(RunPageTest, OfASlurmJob_TheSummaryHasTheNewestJobAndItsTimeLimit) {
  event("started", {{"host", "n1"}, {"job", "4711"}, {"time_limit", "2026-01-01T01:00:00Z"}});
  event("started", {{"host", "n2"}, {"job", "4712"}, {"time_limit", "2026-01-01T02:00:00Z"}});
  ASSERT_TRUE(page_.read());
  EXPECT_EQ(page_.summary()["job"], "4712");
  EXPECT_EQ(page_.summary()["time_limit"], "2026-01-01T02:00:00.000Z");
}

// So that a thread that has other work, too, can do it in between.
TEST_F(RunPageTest, ASliceOfALongRun_IsAFewMegabytes) {
  write_long_metrics(layout_);
  int slices = 1;
  while (!page_.read(RunPage::Amount::kSlice)) {
    EXPECT_FALSE(page_.complete());
    ++slices;
  }
  EXPECT_TRUE(page_.complete());
  EXPECT_EQ(slices, 3) << "10 MB in slices of 4 MiB";
  EXPECT_EQ(page_.totals().steps().count(), kLongSteps);
}

// All steps are read anew then, which takes many scrapes. What the run does now has to be true all the time.
TEST_F(RunPageTest, ALongRunThatWentBack_ShowsTheNewStatusAtOnce) {
  write_long_metrics(layout_);
  status({{"step", kLongSteps}});
  while (!page_.read(RunPage::Amount::kSlice)) continue;
  run::MetricsFile(layout_).rewind(kLongSteps - 1);
  status({{"step", kLongSteps - 1}});
  EXPECT_FALSE(page_.read(RunPage::Amount::kSlice));
  EXPECT_TRUE(page_.complete());
  EXPECT_EQ(page_.summary()["step"], kLongSteps - 1);
}

TEST_F(RunPageTest, ALongStory_MakesNoLongSummary) {
  nlohmann::json members = nlohmann::json::array();
  for (int i = 0; i < 500; ++i)
    members.push_back({{"trainer", "t" + std::to_string(i)}, {"host", std::string(5000, 'h')}});
  event("generation", {{"generation", "t1.g1"}, {"members", members}});
  for (int i = 0; i < 1000; ++i) event("recovered", {{"cause", std::string(100, 'c')}, {"seconds", 0.001}});
  ASSERT_TRUE(page_.read());
  EXPECT_LT(page_.summary().dump().size(), std::size_t{3} << 20);
}

TEST_F(RunPageTest, HostileFiles_AreShownAsText) {
  status({{"step", 1},
          {"end", "<script>alert(1)</script>\x1b[31m"},
          {"trainers", {{{"trainer", std::string(5000, 'x')}}, 7}}});
  append(layout_.events(), {{"event", "lost"},
                            {"at", "2026-01-01T00:00:00Z"},
                            {"trainer", "\"><b>"},
                            {"why", "\x01"},
                            {"attempt", 1}});
  log("2026-01-01T00:00:01.000Z warning rekindle: \xff\xfe " + std::string(100000, 'y'));
  ASSERT_TRUE(page_.read());
  const nlohmann::json summary = page_.summary();
  const std::string text = summary.dump();  // throws for bad UTF-8
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_LT(text.size(), 20000U);
}

TEST_F(RunPageTest, NumbersThatAreNotFinite_AreLeftOut) {
  status({{"step", 2}, {"loss", nullptr}});
  records_without_numbers();
  step(2, 0.5);
  ASSERT_TRUE(page_.read());
  const nlohmann::json summary = page_.summary();
  EXPECT_TRUE(summary["loss"].is_null());
  EXPECT_EQ(summary["step_ms"]["step"], 100.0);
  EXPECT_EQ(summary["recoveries"], 1) << "of a time that is not known";
  for (const char* bad : {"NaN", "1e999"}) {
    std::ofstream(layout_.status().path()) << R"({"step":3,"loss":)" << bad << "}";
    ASSERT_TRUE(page_.read());
    EXPECT_EQ(page_.summary()["step"], 2) << "of the last status that could be read";
    EXPECT_THAT(page_.summary()["problem"].get<std::string>(), HasSubstr("status.json"));
  }
}

TEST_F(RunPageTest, WhereNoRunIs_SaysSo) {
  RunPage page(layout_.root().path() / "none", "none");
  ASSERT_TRUE(page.read());
  EXPECT_EQ(page.summary()["state"], "new");
}

}  // namespace
}  // namespace rekindle::board
