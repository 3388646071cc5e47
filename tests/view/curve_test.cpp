#include "view/curve.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>

#include "../run/run_directory_fixture.hpp"

namespace rekindle::view {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Curve : public run::RunDirectory {};

TEST_F(Curve, ValuesAreReadByStep_AndWhatIsNoNumberIsLeftOut) {
  std::ofstream(layout_.metrics().path()) << R"({"step":2,"loss":0.5,"generation":"t1.g1"})"
                                          << "\n"
                                          << R"({"step":1,"loss":1.5,"lr":0.1})"
                                          << "\n"
                                          << R"({"step":3,"loss":null})"
                                          << "\n"
                                          << R"({"step":3,"test_loss":0.75})"
                                          << "\n"
                                          << R"({"step":-1,"loss":9})"
                                          << "\n"
                                          << R"({"step":4,"lo)";
  std::vector<std::string> names;
  EXPECT_EQ(read_curve(layout_, "loss", names).value(), (std::vector<Point>{{1, 1.5}, {2, 0.5}}));
  EXPECT_THAT(names, ElementsAre("loss", "lr", "test_loss"));
  EXPECT_EQ(read_curve(layout_, "test_loss", names).value(), (std::vector<Point>{{3, 0.75}}));
}

// As a file of another user, which root could read.
TEST_F(Curve, OfMetricsThatCannotBeOpened_IsNoEmptyOne) {
  std::vector<std::string> names;
  EXPECT_EQ(read_curve(layout_, "loss", names).value(), std::vector<Point>());
  ASSERT_EQ(::mknod(layout_.metrics().path().c_str(), S_IFSOCK | 0600, 0), 0);
  const auto points = read_curve(layout_, "loss", names);
  ASSERT_FALSE(points);
  EXPECT_THAT(points.error().line(), HasSubstr("cannot open " + layout_.metrics().string()));
}

TEST_F(Curve, IsDrawnWithItsAxes) {
  std::vector<Point> points;
  for (std::uint64_t step = 1; step <= 100; ++step)
    points.push_back({step, 100.0 - static_cast<double>(step)});
  const std::vector<std::string> lines = draw(points, {.columns = 40, .rows = 10, .unicode = false});
  ASSERT_EQ(lines.size(), 10U);
  EXPECT_EQ(lines[0], "         99 |**");
  EXPECT_THAT(lines[7], StartsWith("          0 |"));
  EXPECT_THAT(lines[7], EndsWith("****"));
  EXPECT_EQ(lines[7].size(), 40U);
  EXPECT_EQ(lines[8], "            +" + std::string(27, '-'));
  EXPECT_EQ(lines[9], "             1" + std::string(23, ' ') + "100");
}

TEST_F(Curve, ASpikeOfOneStepAmongManyIsSeen) {
  std::vector<Point> points;
  for (std::uint64_t step = 0; step < 100'000; ++step) points.push_back({step, step == 70'001 ? 50.0 : 1.0});
  const std::vector<std::string> lines = draw(points, {.columns = 60, .rows = 12, .unicode = false});
  for (std::size_t row = 0; row < 10; ++row) EXPECT_THAT(lines[row], HasSubstr("*")) << row;
}

TEST_F(Curve, OneValueAndEqualValues_AreDrawn) {
  EXPECT_THAT(draw({{7, 2.5}}, {.unicode = false})[9], HasSubstr("*"));
  EXPECT_THAT(draw({{7, 2.5}, {8, 2.5}}, {.unicode = true})[9], HasSubstr("\u2809"));
  EXPECT_TRUE(draw({}, {}).empty());
}

TEST_F(Curve, NumbersOfTheAxis_AreWhole) {
  const CurveStyle style{.columns = 40, .rows = 8, .unicode = false};
  const std::vector<std::string> lines = draw({{1, -1.234e-05}, {2, 1.234e+06}}, style);
  EXPECT_THAT(lines[0], StartsWith("  1.234e+06 |"));
  EXPECT_THAT(lines[5], StartsWith(" -1.234e-05 |"));
}

TEST_F(Curve, ExtremeValues_AreDrawn) {
  const CurveStyle style{.columns = 30, .rows = 8, .unicode = false};
  EXPECT_THAT(draw({{1, 1.7e308}, {2, -1.7e308}}, style)[0], HasSubstr("*"));
  EXPECT_THAT(draw({{1, 1e17}, {9, 1e17}}, style)[3], HasSubstr("*"));
  EXPECT_THAT(draw({{0, 1e-320}, {UINT64_MAX, 2e-320}}, style)[5], HasSubstr("*"));
}

TEST_F(Curve, LogarithmicAxis_HasOnlyPositiveValues) {
  const std::vector<std::string> lines =
      draw({{1, 100}, {2, 1}, {3, 0.01}, {4, -1}}, {.rows = 9, .logarithmic = true, .unicode = false});
  EXPECT_THAT(lines[0], StartsWith("        100 |*"));
  EXPECT_THAT(lines[3], StartsWith("          1 |"));
  EXPECT_THAT(lines[6], StartsWith("       0.01 |"));
  EXPECT_THAT(lines[8], EndsWith(" 3")) << "the last step that is shown";
  EXPECT_TRUE(draw({{1, -1}}, {.logarithmic = true}).empty());
}

}  // namespace
}  // namespace rekindle::view
