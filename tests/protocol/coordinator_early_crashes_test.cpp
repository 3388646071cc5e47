// Trainers that cannot start, before the first generation: the fault of one host, or of all.
#include <csignal>

#include "coordinator_fixture.hpp"

namespace rekindle::protocol {
namespace {

class EarlyCrashes : public CoordinatorTest {
 protected:
  // Each host has a worker of one slot.
  EarlyCrashes() { expect_hosts(3); }
  void expect_hosts(int count) { config_.expected_trainers = count; }
  void register_host(const std::string& host) {
    workers_.insert("w-" + host);
    feed(WorkerRegistered{{"w-" + host, host, "build", 1, {}}});
  }
  void register_hosts() {
    for (const char* host : {"h1", "h2", "h3"}) register_host(host);
  }
  std::vector<Effect> crash(const std::string& host) {
    return say(TrainerExited{str("t-", host), true, SIGILL}, "w-" + host);
  }
  // The trainer reports the error and exits with `code`.
  std::vector<Effect> fail(const std::string& host, int code) {
    auto effects =
        say(TrainerFailed{str("t-", host), code, str("no data on ", host), "mount it"}, "w-" + host);
    const auto more = say(TrainerExited{str("t-", host), false, code}, "w-" + host);
    effects.insert(effects.end(), more.begin(), more.end());
    return effects;
  }
  std::vector<Effect> comes_up(const std::string& host) { return ready("t-" + host, "{}", host); }
  std::vector<std::string> dismissed() const {
    std::vector<std::string> workers;
    for (const Dismiss& each : of<Dismiss>(all_)) workers.push_back(each.worker);
    return workers;
  }
};
using Names = std::vector<std::string>;

TEST_F(EarlyCrashes, OneBadHostOfThree_IsLeftOutAndTheOthersBeginAtOnce) {
  begin();
  register_hosts();
  comes_up("h1");
  comes_up("h2");
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(of<Dismiss>(crash("h3")).empty());
  const auto effects = crash("h3");
  EXPECT_EQ(dismissed(), Names{"w-h3"});
  EXPECT_EQ(sent<Start>(effects).size(), 2U) << "no other trainer is waited for";
  ASSERT_FALSE(of<Warn>(effects).empty());
  EXPECT_NE(of<Warn>(effects).front().line.find("host h3 is excluded"), std::string::npos);
}

TEST_F(EarlyCrashes, BadHostThatCrashesBeforeTheOthersAreReady_IsLeftOutWhenOneIs) {
  begin();
  register_hosts();
  for (int i = 0; i < 20; ++i) crash("h3");
  EXPECT_FALSE(finish()) << "the other hosts have not tried yet";
  EXPECT_TRUE(dismissed().empty());
  comes_up("h1");
  EXPECT_EQ(dismissed(), Names{"w-h3"});
  EXPECT_EQ(sent<Start>(comes_up("h2")).size(), 2U);
}

TEST_F(EarlyCrashes, TwoBadHostsOfThree_BothAreLeftOut) {
  begin();
  register_hosts();
  for (int i = 0; i < 3; ++i) crash("h2");
  for (int i = 0; i < 3; ++i) crash("h3");
  const auto effects = comes_up("h1");
  EXPECT_EQ(dismissed(), (Names{"w-h2", "w-h3"}));
  EXPECT_EQ(sent<Start>(effects).size(), 1U);
  EXPECT_FALSE(finish());
}

TEST_F(EarlyCrashes, HostWithoutTheData_IsLeftOutThoughItWasTheFirstToSpeak) {
  begin();
  register_hosts();
  fail("h3", 78);
  EXPECT_FALSE(finish()) << "the other hosts may have the data";
  comes_up("h1");
  EXPECT_EQ(dismissed(), Names{"w-h3"});
  EXPECT_EQ(sent<Start>(comes_up("h2")).size(), 2U);
  const auto warnings = of<Warn>(all_);
  EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(), [](const Warn& warning) {
    return warning.line.find("h3 is excluded") != std::string::npos &&
           warning.line.find("no data on h3") != std::string::npos;
  }));
}

TEST_F(EarlyCrashes, AllHostsAreBad_TheRunEndsWhenEachHasHadItsTries) {
  begin();
  register_hosts();
  for (int round = 0; round < 3; ++round) {
    EXPECT_FALSE(finish());
    for (const char* host : {"h1", "h2", "h3"}) crash(host);
  }
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
  EXPECT_NE(finish()->line.find("trainers end before training begins"), std::string::npos);
}

TEST_F(EarlyCrashes, NoHostHasTheData_TheRunEndsAtOnceAndReportsIt) {
  begin();
  register_hosts();
  for (const char* host : {"h1", "h2", "h3"}) fail(host, 78);
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 78);
  EXPECT_NE(finish()->line.find("no data on h"), std::string::npos);
  EXPECT_EQ(finish()->hint, "mount it");
}

TEST_F(EarlyCrashes, BadHostsAndOneThatNeverComes_TheRunEndsWithTheGatherTimeAndReportsWhy) {
  begin();
  register_host("h1");
  register_host("h2");
  fail("h1", 78);
  for (int i = 0; i < 50; ++i) crash("h2");
  EXPECT_FALSE(finish());
  pass(config_.gather_time);
  ASSERT_TRUE(finish());
  EXPECT_NE(finish()->exit_code, 0);
  EXPECT_NE(finish()->line.find("gather time (--gather-time): no data on h1"), std::string::npos)
      << finish()->line;
}

TEST_F(EarlyCrashes, HostThatFailsAfterTheOthersWereLeftOut_HasNoMoreTriesThanItsOwn) {
  begin();
  register_hosts();
  for (const char* host : {"h2", "h3"}) fail(host, 78);
  comes_up("h1");  // a generation of one trainer
  ASSERT_EQ(dismissed().size(), 2U);
  for (int i = 0; i < 3 && !finish(); ++i) {
    crash("h1");
    if (!finish()) comes_up("h1");
  }
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
}

TEST_F(EarlyCrashes, SingleHost_AFailureEndsTheRunAtOnceAndCrashesAfterThreeTriesOfEach) {
  expect_hosts(2);
  begin();
  for (const char* worker : {"w-1", "w-2"}) feed(WorkerRegistered{{worker, "h", "build", 1, {}}});
  say(TrainerFailed{"t", 78, "no data", "mount it"}, "w-1");
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 78);

  begin();
  for (const char* worker : {"w-1", "w-2"}) feed(WorkerRegistered{{worker, "h", "build", 1, {}}});
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(finish());
    say(TrainerExited{"t", true, SIGILL}, i % 2 == 0 ? "w-1" : "w-2");
  }
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
}

TEST_F(EarlyCrashes, OneBadSlotOnAHostWhoseOthersAreReady_TheHostStays) {
  expect_hosts(4);
  begin();
  for (const char* host : {"h1", "h2"}) {
    workers_.insert(str("w-", host));
    feed(WorkerRegistered{{str("w-", host), host, "build", 2, {}}});
  }
  comes_up("h1");
  comes_up("h2");
  for (int i = 0; i < 20; ++i) say(TrainerExited{"bad", true, SIGILL}, "w-h2");
  EXPECT_TRUE(dismissed().empty());
  EXPECT_FALSE(finish());
  EXPECT_EQ(sent<Start>(pass(config_.gather_time)).size(), 2U);
}

TEST_F(CoordinatorTest, TrainerThatSaidWhyItEnds_TheReasonIsToldWithItsLoss) {
  run_two();
  say(TrainerFailed{"b", 78, "a.jpg is not an image", ""});
  bool told = false;
  for (const Warn& warning : of<Warn>(say(TrainerExited{"b", false, 78})))
    told =
        told || warning.line.find("it ended with exit code 78: a.jpg is not an image") != std::string::npos;
  EXPECT_TRUE(told);
}

// One of a machine's GPUs cannot be used. Its slot tries again and again, and says it once.
TEST_F(EarlyCrashes, TrainerWithoutAUsableGpu_TheOthersBeginAtOnce) {
  config_.expected_trainers = 2;
  begin();
  workers_.insert("w-h1");
  feed(WorkerRegistered{{"w-h1", "h1", "build", 2, {}}});
  for (int i = 1; i <= 20; ++i) {
    say(TrainerFailed{str("w-h1.1-", i), 70, "GPU 1 is broken", "", true}, "w-h1");
    say(TrainerExited{str("w-h1.1-", i), false, 70}, "w-h1");
    EXPECT_FALSE(finish());
  }
  EXPECT_EQ(sent<Start>(comes_up("h1")).size(), 1U);
  const auto told = [this] {
    return std::ranges::count_if(
        of<Warn>(all_), [](const Warn& warn) { return warn.line.find("GPU 1 is broken") != warn.line.npos; });
  };
  EXPECT_EQ(told(), 1);
  for (int i = 21; i <= 23; ++i) {
    say(TrainerFailed{str("w-h1.1-", i), 70, "GPU 1 is broken", "", true}, "w-h1");
    say(TrainerExited{str("w-h1.1-", i), false, 70}, "w-h1");
  }
  EXPECT_EQ(told(), 2) << "once more, because a trainer of the worker was ready in between";
}

}  // namespace
}  // namespace rekindle::protocol
