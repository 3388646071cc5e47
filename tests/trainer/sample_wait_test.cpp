// Samples that cannot be read for a while: how long a trainer tries again, and what ends that.
#include "trainer/sample_wait.hpp"

#include <gtest/gtest.h>

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

class FakeLink final : public Link {
 public:
  const std::string& trainer() const override { return name_; }
  void send(const protocol::FromTrainer&) override {}
  std::optional<protocol::Start> wait() override { return std::nullopt; }
  void enter(const protocol::GenerationId&, exchange::Exchange&) override {}
  void leave() override {}
  const std::atomic<bool>& aborted() const override { return aborted_; }
  std::uint32_t flags() override { return flags_; }
  void checkpoint_postponed() override {}
  void checkpoint_begins() override {}
  void set_phase(protocol::TrainerPhase, std::uint64_t) override {}
  void progress() override { ++progress_; }

  std::string name_ = "a";
  std::atomic<bool> aborted_ = false;
  std::uint32_t flags_ = 0;
  int progress_ = 0;
};

class SampleWaitTest : public testing::Test {
 protected:
  Status fail_once() { return wait_.try_again(missing_, link_, clock_); }
  // The time until the trainer gives up.
  seconds give_up() {
    const auto began = clock_.now();
    while (fail_once()) EXPECT_LT(clock_.now() - began, seconds(100));
    return std::chrono::round<seconds>(clock_.now() - began);
  }

  const Error missing_{ExitCode::kConfig, "cannot open /data/1.jpg: No such file or directory", "hint",
                       ErrorKind::kSystem};
  FakeClock clock_;
  FakeLink link_;
  SampleWait wait_;
};

TEST_F(SampleWaitTest, AFileThatStaysAway_IsTriedForHalfAMinute_ThenItsSamplesCannotBeUsed) {
  EXPECT_TRUE(fail_once());
  EXPECT_GT(link_.progress_, 0) << "the trainer would be killed because it hangs";
  EXPECT_EQ(give_up(), kSamplesPatience);
  const Status failed = fail_once();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::kChangedData);
  EXPECT_EQ(failed.error().code, ExitCode::kConfig);
  EXPECT_NE(failed.error().what.find("/data/1.jpg"), std::string::npos) << failed.error().line();
}

TEST_F(SampleWaitTest, AfterASuccess_TheNextFailureHasTheWholeTime) {
  EXPECT_TRUE(fail_once());
  clock_.sleep(seconds(29));
  wait_.succeeded();
  EXPECT_EQ(give_up(), kSamplesPatience);
}

TEST_F(SampleWaitTest, AnAbortOrAStop_EndsTheWaitAtOnce) {
  link_.aborted_ = true;
  auto before = clock_.now();
  EXPECT_EQ(fail_once().error().kind, ErrorKind::kAborted);
  link_.aborted_ = false;
  link_.flags_ = protocol::kStopFlag;
  EXPECT_EQ(fail_once().error().kind, ErrorKind::kChangedData);
  EXPECT_EQ(clock_.now(), before);
}

// Else each generation would begin to wait anew.
TEST_F(SampleWaitTest, AnAbort_DoesNotBeginTheTimeAgain) {
  EXPECT_TRUE(fail_once());
  clock_.sleep(seconds(20));
  link_.aborted_ = true;
  EXPECT_FALSE(fail_once());
  link_.aborted_ = false;
  EXPECT_LE(give_up(), seconds(10));
}

}  // namespace
}  // namespace rekindle::trainer
