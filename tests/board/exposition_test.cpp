#include "board/exposition.hpp"

#include <gmock/gmock.h>

#include "fixture.hpp"

namespace rekindle::board {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class Exposition : public BoardTest {};

TEST_F(Exposition, OfARun_HasItsNumbers) {
  status({{"step", 4}, {"loss", 0.25}, {"trainers", {{{"rank", 0}}, {{"rank", 1}}, {{"rank", -1}}}}});
  event("started", {{"time_limit", "2026-01-01T01:00:00Z"}});
  event("recovered", {{"cause", "lost"}, {"seconds", 0.5}});
  event("saved", {{"checkpoint", "step-4"}, {"bytes", 100}});
  for (std::uint64_t i = 1; i <= 4; ++i) step(i, 1.0, 300);
  RunPage page(layout_.root().path(), "run");
  ASSERT_TRUE(page.read());
  const std::string text = exposition({{"", &page}});
  for (const char* line :
       {"rekindle_step 4\n", "rekindle_steps_goal 100\n", "rekindle_steps_total 4\n",
        "rekindle_step_duration_seconds_count 4\n", "rekindle_step_duration_seconds_bucket{le=\"0.512\"} 4\n",
        "rekindle_step_duration_seconds_bucket{le=\"0.256\"} 0\n",
        "rekindle_step_duration_seconds_bucket{le=\"+Inf\"} 4\n", "rekindle_trainers{state=\"training\"} 2\n",
        "rekindle_trainers{state=\"spare\"} 1\n", "rekindle_recoveries_total{cause=\"lost\"} 1\n",
        "rekindle_recoveries_total{cause=\"joined\"} 0\n", "rekindle_checkpoint_write_bytes_total 100\n",
        "rekindle_job_end_timestamp_seconds 1767229200\n",
        "rekindle_run_info{name=\"run\",state=\"running\"} 1\n", "# TYPE rekindle_steps_total counter\n"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(text, Not(HasSubstr("run=\"")));
}

TEST_F(Exposition, OfHostileNames_StaysReadable) {
  status({{"step", 4}, {"state", "running"}});
  RunPage page(layout_.root().path(), "a\"b\\c\nd");
  ASSERT_TRUE(page.read());
  const std::string text = exposition({{"x\"} 1\nevil 2\n", &page}});
  EXPECT_THAT(text, Not(HasSubstr("\nevil 2\n")));
  EXPECT_THAT(text, HasSubstr(R"(rekindle_step{run="x\"} 1\nevil 2\n"} 4)"));
}

TEST_F(Exposition, OfRecordsWithNumbersThatAreNotFinite_HasOnlyFiniteOnes) {
  status({{"step", 2}, {"loss", nullptr}});
  records_without_numbers();
  step(2, 1.0, 500);
  RunPage page(layout_.root().path(), "run");
  ASSERT_TRUE(page.read());
  const auto expect_finite = [&] {
    const std::string text = exposition({{"", &page}});
    EXPECT_THAT(text, AllOf(HasSubstr("rekindle_step 2\n"), Not(HasSubstr("rekindle_loss")),
                            HasSubstr("rekindle_step_duration_seconds_bucket{le=\"0.512\"} 2\n"),
                            HasSubstr("rekindle_recoveries_total{cause=\"lost\"} 1\n"),
                            HasSubstr("rekindle_recovery_duration_seconds_count 0\n")));
    EXPECT_THAT(text, Not(ContainsRegex(" [-+]?[INin][A-Za-z]*\n"))) << "a value";
  };
  expect_finite();
  for (const char* bad : {"NaN", "1e999"}) {
    std::ofstream(layout_.status().path()) << R"({"step":3,"loss":)" << bad << "}";
    ASSERT_TRUE(page.read());
    expect_finite();  // of the last status that could be read
  }
}

}  // namespace
}  // namespace rekindle::board
