#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "app/progress.hpp"

namespace rekindle::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

protocol::Progress progress() {
  protocol::Progress p;
  p.step = 120;
  p.steps = 4000;
  p.epoch = 2;  // the third epoch
  p.loss = 1.23456;
  p.images_per_second = 812.34;
  p.seconds_left = 3725;
  p.trainers = 4;
  return p;
}

TEST(ProgressLine, ShowsAllWhereThereIsRoom) {
  EXPECT_EQ(describe(progress(), 200),
            "step 120/4000  epoch 3  loss 1.2346  812.3 images/s  4 trainers  1h 2min left");
}

TEST(ProgressLine, FitsAnyWidthAndKeepsTheStepLongest) {
  for (std::size_t width = 0; width < 90; ++width) {
    const std::string line = describe(progress(), width);
    EXPECT_LE(line.size(), width);
    EXPECT_THAT(line, StartsWith(std::string("step 120/4000").substr(0, width)));
  }
  EXPECT_EQ(describe(progress(), 70), "step 120/4000  epoch 3  loss 1.2346  812.3 images/s  1h 2min left");
}

TEST(ProgressLine, ASlowStep_HasASpeedOtherThanZero) {
  protocol::Progress slow = progress();
  slow.images_per_second = 0.01234;
  EXPECT_THAT(describe(slow, 200), HasSubstr("  0.012 images/s  "));
  slow.images_per_second = 1.26;
  EXPECT_THAT(describe(slow, 200), HasSubstr("  1.3 images/s  "));
}

TEST(SteadySpeed, OneSlowStepHardlyMovesTheTimeLeft) {
  SteadySpeed speed;
  SteadySpeed::Time now{};
  EXPECT_EQ(speed.of(progress(), now).seconds_left, 3725);
  protocol::Progress slow = progress();
  slow.images_per_second /= 10;
  slow.seconds_left *= 10;
  const double after = speed.of(slow, now += std::chrono::seconds(1)).seconds_left;
  EXPECT_GT(after, 3725);
  EXPECT_LT(after, 3725 * 1.5);
  double later = 0;
  for (int i = 0; i < 120; ++i) later = speed.of(progress(), now += std::chrono::seconds(1)).seconds_left;
  EXPECT_NEAR(later, 3725, 100);
  protocol::Progress fewer = slow;
  fewer.trainers = 3;
  EXPECT_EQ(speed.of(fewer, now).seconds_left, slow.seconds_left) << "the speed of other trainers";
}

// A terminal of 40 columns.
class Terminal : public ::testing::Test {
 protected:
  void SetUp() override {
    winsize size{};
    size.ws_row = 10;
    size.ws_col = 40;
    int slave = -1;
    ASSERT_EQ(::openpty(&master_, &slave, nullptr, nullptr, &size), 0);
    out_.reset(::fdopen(slave, "w"));
  }
  void TearDown() override {
    out_.reset();
    ::close(master_);
  }
  // The kernel may pass on each write by itself: reads until there are at least so many bytes.
  std::string shown(std::size_t at_least = 1) {
    std::fflush(out_.get());
    std::string text;
    while (text.size() < at_least) {
      std::array<char, 4096> bytes{};
      const ssize_t n = ::read(master_, bytes.data(), bytes.size());
      if (n <= 0) break;
      text.append(bytes.data(), static_cast<std::size_t>(n));
    }
    return text;
  }
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  int master_ = -1;
  std::unique_ptr<std::FILE, Close> out_;
};

TEST_F(Terminal, TheLineIsNarrowerThanTheTerminal) {
  ProgressView view(out_.get());
  view.show(progress());
  EXPECT_EQ(shown(), "step 120/4000  loss 1.2346");
}

TEST_F(Terminal, ALineForEachSoManySteps) {
  ProgressView view(out_.get(), 40);
  protocol::Progress p = progress();
  view.show(p);
  const std::string both =
      "step 120/4000  epoch 3  loss 1.2346  812.3 images/s  4 trainers  1h 2min left\r\n"
      "step 120/4000  loss 1.2346";
  EXPECT_EQ(shown(both.size()), both);
  p.step = 121;
  view.show(p);
  EXPECT_EQ(shown(), "\r\033[Kstep 121/4000  loss 1.2346");
}

TEST_F(Terminal, AnEvaluationHasItsCountAndTimeLeft) {
  ProgressView view(out_.get());
  view.show(EvaluationProgress{.done = 500, .of = 10000});
  EXPECT_EQ(shown(), "evaluated 500/10000");
  view.show(EvaluationProgress{.done = 2500, .of = 10000, .left = std::chrono::seconds(60)});
  EXPECT_EQ(shown(), "\r\033[Kevaluated 2500/10000  1min left");
  view.clear();
  EXPECT_EQ(shown(), "\r\033[K");
}

TEST_F(Terminal, FirstStepIsUnderWayUntilThereIsOne) {
  using enum protocol::Activity;
  ProgressView view(out_.get());
  view.on_activity(kForming);
  EXPECT_EQ(shown(), "the trainers start");
  view.on_activity(kTraining);
  EXPECT_EQ(shown(), "\r\033[Kfirst step under way");
  view.show(progress());
  EXPECT_THAT(shown(), StartsWith("\r\033[Kstep 120"));
  view.on_activity(kForming);  // a later generation
  view.on_activity(kTraining);
  view.say("a line");
  EXPECT_THAT(shown(), Not(HasSubstr("under way")));
  view.on_activity(kEvaluating);
  EXPECT_EQ(shown(), "evaluating");
}

}  // namespace
}  // namespace rekindle::app
