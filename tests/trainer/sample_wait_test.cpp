// Samples that cannot be read for a while: how long a trainer tries again, and what ends that.
#include "trainer/sample_wait.hpp"

#include <gtest/gtest.h>

#include "fake_link.hpp"
#include "protocol/trainer_control.hpp"

namespace rekindle::trainer {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class FakeClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void sleep(milliseconds time) const override { now_ += time; }

 private:
  mutable TimePoint now_;
};

constexpr seconds kLimit{60};

class SampleWaitTest : public testing::Test {
 protected:
  Status fail_once() { return wait_.try_again(missing_, 7, link_, clock_); }
  // The time until the trainer gives up.
  seconds give_up() {
    const auto began = clock_.now();
    while ((last_ = fail_once())) EXPECT_LT(clock_.now() - began, 2 * kLimit);
    return std::chrono::round<seconds>(clock_.now() - began);
  }

  const Error missing_{ExitCode::kConfig, "cannot open /data/1.jpg: No such file or directory", "hint",
                       ErrorKind::kSystem};
  FakeClock clock_;
  FakeLink link_;
  SampleWait wait_{kLimit};
  Status last_;
};

TEST_F(SampleWaitTest, AFileThatStaysAway_IsTriedForTheWholeTime_ThenItsSamplesCannotBeRead) {
  EXPECT_TRUE(fail_once());
  EXPECT_GT(link_.progress_, 0) << "the trainer would be killed because it hangs";
  EXPECT_EQ(give_up(), kLimit);
  EXPECT_EQ(last_.error().kind, ErrorKind::kUnreadable);
  EXPECT_EQ(last_.error().code, ExitCode::kConfig);
  EXPECT_EQ(last_.error().what, "cannot open /data/1.jpg: No such file or directory (tried for 60 s)");
  EXPECT_EQ(give_up(), kLimit / 2) << "in the next generation";
}

TEST_F(SampleWaitTest, AfterASuccess_TheNextFailureHasTheWholeTime) {
  EXPECT_TRUE(fail_once());
  clock_.sleep(kLimit - seconds(1));
  EXPECT_TRUE(wait_.succeeded());
  EXPECT_EQ(give_up(), kLimit);
}

TEST_F(SampleWaitTest, AnAbortOrAStop_EndsTheWaitAtOnce) {
  link_.aborted_ = true;
  auto before = clock_.now();
  EXPECT_EQ(fail_once().error().kind, ErrorKind::kAborted);
  link_.aborted_ = false;
  link_.flags_ = protocol::kStopFlag;
  EXPECT_EQ(fail_once().error().kind, ErrorKind::kUnreadable);
  EXPECT_EQ(clock_.now(), before);
}

// Else each generation would begin to wait anew, or the time between two generations would count.
TEST_F(SampleWaitTest, AnAbort_DoesNotBeginTheTimeAgain_NorDoesTheTimeAfterItCount) {
  const auto began = clock_.now();
  while (clock_.now() - began < kLimit - seconds(40)) EXPECT_TRUE(fail_once());
  link_.aborted_ = true;
  EXPECT_FALSE(fail_once());
  link_.aborted_ = false;
  clock_.sleep(10 * kLimit);
  const seconds rest = give_up();
  EXPECT_GE(rest, seconds(39));
  EXPECT_LE(rest, seconds(41));
}

TEST_F(SampleWaitTest, AProcessThatWasSuspended_HasNotWaitedAllTheTime) {
  SampleWait patient(10 * kLimit);
  EXPECT_TRUE(patient.try_again(missing_, 7, link_, clock_));
  clock_.sleep(milliseconds(std::chrono::hours(3)));
  EXPECT_TRUE(patient.try_again(missing_, 7, link_, clock_));
}

// A read that hangs is waited for in small pieces. An abort ends that, and what is only slow is not told.
TEST_F(SampleWaitTest, AReadThatDoesNotReturn_IsWaitedForAsLong) {
  const Error late{ExitCode::kConfig, "the samples are not read yet", "hint", ErrorKind::kNotYet};
  const auto wait_once = [&] {
    clock_.sleep(kSampleLook);
    return wait_.try_again(late, 7, link_, clock_);
  };
  const auto began = clock_.now();
  EXPECT_TRUE(wait_once());
  EXPECT_EQ(clock_.now() - began, kSampleLook) << "the next call waits itself";
  EXPECT_EQ(link_.phase_, protocol::TrainerPhase::kComputing);
  EXPECT_FALSE(wait_.succeeded());
  const auto again = clock_.now();
  link_.flags_ = protocol::kStopFlag;
  EXPECT_TRUE(wait_once()) << "a stop waits for a batch that is only late";
  link_.flags_ = 0;
  while (wait_once()) ASSERT_LT(clock_.now() - again, 2 * kLimit);
  EXPECT_EQ(clock_.now() - again, kLimit);
  EXPECT_EQ(link_.phase_, protocol::TrainerPhase::kReading);
  link_.phase_ = protocol::TrainerPhase::kComputing;
  link_.aborted_ = true;
  EXPECT_EQ(wait_once().error().kind, ErrorKind::kAborted);
  EXPECT_EQ(link_.phase_, protocol::TrainerPhase::kReading) << "in each generation";
}

}  // namespace
}  // namespace rekindle::trainer
