#include <gtest/gtest.h>

#include "base/text.hpp"
#include "cluster.hpp"
#include "gradients.hpp"

namespace rekindle::exchange::testing {
namespace {

struct Case {
  Backend backend;
  int ranks;
  std::size_t floats;
  int leaves;
  int steps;
};

std::string name(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return str(name_of(c.backend), "_", c.ranks, "Ranks_", c.leaves, "Leaves_", c.floats, "Floats");
}

class Bits : public ::testing::TestWithParam<Case> {
 protected:
  void TearDown() override { use_backend(Backend::kAuto); }
};

TEST_P(Bits, EveryRankReadsTheTreeSumOfEveryStep) {
  const Case c = GetParam();
  use_backend(c.backend);
  Cluster cluster(c.ranks, c.floats, [&](Member& me) {
    const auto [plan, exchange] = me.join(1, first_members(c.ranks), c.leaves, c.backend);
    for (int step = 0; step < c.steps; ++step) {
      const auto hash = run_step(me.hub, *exchange, plan, step);
      me.say(hash ? hash->hex() : me.describe(hash.error()));
    }
  });
  Lines expected{"ok"};
  for (int step = 0; step < c.steps; ++step)
    expected.push_back(reference_hash(step, c.leaves, c.floats).hex());
  for (const auto& lines : cluster.finish()) EXPECT_EQ(lines, expected);
}

// The same on every architecture.
TEST(FixedBits, OfTheTreeSum) {
  EXPECT_EQ(reference_hash(3, 8, 10'007).hex(), "b07e2fe929fbd3e6aa0dede8c1579b07");
  EXPECT_EQ(reference_hash(3, 32, 1'003).hex(), "56bf00963b69ad4c34c2cfa4e1ee113b");
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Backend backend : {Backend::kSharedMemory, Backend::kTcp, Backend::kNccl, kStaged}) {
    for (const int ranks : {1, 2, 3, 4, 8}) all.push_back({backend, ranks, 10'007, 8, 5});
    all.push_back({backend, 8, 37, 8, 3});  // ranks without a shard
    all.push_back({backend, 3, 1, 4, 3});
    all.push_back({backend, 5, 1'003, 32, 3});     // several partial sums per rank
    all.push_back({backend, 3, 1'500'001, 8, 2});  // more chunks per shard than a tcp window holds
    all.push_back({backend, 4, 999, 4, 300});      // many steps in a row
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Exchange, Bits, ::testing::ValuesIn(cases()), name);

TEST(Backends, AutoIsSharedMemoryOnOneHostAndTcpBetweenHosts) {
  auto hub = Hub::open(16, "127.0.0.1");
  ASSERT_TRUE(hub) << hub.error().line();
  Plan plan;
  plan.leaves = 2;
  plan.members = {(*hub)->endpoint(), (*hub)->endpoint()};
  EXPECT_EQ((*hub)->make(plan)->backend(), Backend::kSharedMemory);
  plan.members[1].host = "elsewhere";
  EXPECT_EQ((*hub)->make(plan)->backend(), Backend::kTcp);
}

TEST(Backends, PlanWithMoreMembersThanLeavesIsRefused) {
  auto hub = Hub::open(16, "127.0.0.1");
  ASSERT_TRUE(hub);
  for (const Backend backend : {Backend::kSharedMemory, Backend::kTcp}) {
    Plan plan;
    plan.leaves = 2;
    plan.backend = backend;
    plan.members.assign(3, (*hub)->endpoint());
    EXPECT_FALSE((*hub)->make(plan)->connect());
    plan.leaves = 6;
    EXPECT_FALSE((*hub)->make(plan)->connect());
  }
}

TEST(Slots, AreAlignedZeroAndStay) {
  auto hub = Hub::open(1000, "127.0.0.1");
  ASSERT_TRUE(hub);
  for (int i = 0; i < 3; ++i) {
    auto slot = (*hub)->slot(i);
    ASSERT_TRUE(slot);
    EXPECT_EQ(slot->size(), 1000U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slot->data()) % 64, 0U);
    for (const float x : *slot) ASSERT_EQ(x, 0.0F);
    (*slot)[7] = static_cast<float>(i);
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ((*(*hub)->slot(i))[7], static_cast<float>(i));
  EXPECT_FALSE((*hub)->slot(1000));
}

}  // namespace
}  // namespace rekindle::exchange::testing
