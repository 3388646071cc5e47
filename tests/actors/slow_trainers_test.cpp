#include "actors/slow_trainers.hpp"

#include <gtest/gtest.h>

namespace rekindle::actors {
namespace {

class Slow : public testing::Test {
 protected:
  Slow() {
    for (const auto& [name, rank] :
         {std::pair("a", 0), std::pair("b", 1), std::pair("c", 2), std::pair("spare", -1)})
      trainers_[name].rank = rank;
  }
  // `waits`: whom a, b and c wait for.
  std::vector<SlowTrainers::Change> look(int times, const std::vector<int>& waits) {
    std::vector<SlowTrainers::Change> all;
    for (int i = 0; i < times; ++i) {
      trainers_["a"].beat.waiting_for = waits[0];
      trainers_["b"].beat.waiting_for = waits[1];
      trainers_["c"].beat.waiting_for = waits[2];
      for (auto& change : slow_.look(trainers_)) all.push_back(std::move(change));
    }
    return all;
  }

  std::map<std::string, protocol::KnownTrainer> trainers_;
  SlowTrainers slow_;
};

TEST_F(Slow, WhoTheOthersWaitFor_IsSlowUntilTheyDoNot) {
  EXPECT_TRUE(look(20, {2, 2, -1}).empty());  // too soon
  const auto changes = look(20, {2, 2, -1});
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].trainer, "c");
  EXPECT_TRUE(changes[0].slow);
  EXPECT_TRUE(slow_.is_slow("c"));
  const auto back = look(300, {-1, -1, -1});
  ASSERT_EQ(back.size(), 1U);
  EXPECT_FALSE(back[0].slow);
}

TEST_F(Slow, WhoWaitForEachOther_AreNotSlow) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(look(1, {1, -1, -1}).empty());
    EXPECT_TRUE(look(1, {-1, 2, -1}).empty());
    EXPECT_TRUE(look(1, {-1, -1, 0}).empty());
  }
}

TEST_F(Slow, AShareOfTheTimeThatIsUsual_IsNotSlow) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(look(1, {2, 2, -1}).empty());
    EXPECT_TRUE(look(5, {-1, -1, -1}).empty());
  }
}

TEST_F(Slow, WhoIsGone_IsNotSlow) {
  look(40, {2, 2, -1});
  ASSERT_TRUE(slow_.is_slow("c"));
  trainers_.erase("c");
  std::ignore = slow_.look(trainers_);
  EXPECT_FALSE(slow_.is_slow("c"));
}

TEST_F(Slow, ASingleTrainer_IsNeverSlow) {
  std::map<std::string, protocol::KnownTrainer> one;
  one["a"].rank = 0;
  one["a"].beat.waiting_for = 0;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(slow_.look(one).empty());
}

}  // namespace
}  // namespace rekindle::actors
