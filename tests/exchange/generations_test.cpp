#include <gtest/gtest.h>

#include <thread>

#include "base/text.hpp"
#include "cluster.hpp"
#include "gradients.hpp"

namespace rekindle::exchange::testing {
namespace {

constexpr std::size_t kFloats = 20'011;

class Generations : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Exchange, Generations, kEach, backend_name);

std::string step_outcome(Member& me, Exchange& exchange, const Plan& plan, std::uint64_t step) {
  const auto hash = run_step(me.hub, exchange, plan, step);
  return hash ? hash->hex() : Member::describe(hash.error());
}

TEST_P(Generations, AfterAnAbortFewerRanksOnTheSameHubsHaveTheRightBits) {
  Cluster cluster(4, kFloats, [&](Member& me) {
    {
      const Plan plan = me.plan(1, {0, 1, 2, 3}, 8, GetParam());
      const auto exchange = me.hub.make(plan);
      me.say(me.outcome(exchange->connect()));
      me.say(step_outcome(me, *exchange, plan, 0));
      // Rank 3 is lost in the middle of step 1. The others get an abort while they wait for rank 3.
      if (me.id == 3) return;
      (void)compute_partials(me.hub, plan, 1);
      std::thread coordinator([&] { exchange->abort(); });
      const auto reduced = exchange->reduce({});
      coordinator.join();
      // The reason is the abort or, if the abort came later than a peer's, the peer's end.
      me.say(reduced ? "went on" : "ended");
    }
    const Plan plan = me.plan(2, {2, 0, 1}, 8, GetParam());  // the ranks have changed
    const auto exchange = me.hub.make(plan);
    me.say(me.outcome(exchange->connect()));
    for (std::uint64_t step = 1; step < 4; ++step) me.say(step_outcome(me, *exchange, plan, step));
  });
  const auto lines = cluster.finish();
  const auto hash = [](int step) { return reference_hash(step, 8, kFloats).hex(); };
  for (int id = 0; id < 3; ++id)
    EXPECT_EQ(lines[id], (Lines{"ok", hash(0), "ended", "ok", hash(1), hash(2), hash(3)}));
  EXPECT_EQ(lines[3], (Lines{"ok", hash(0)}));
}

TEST_P(Generations, ManyInARowWithChangingMembersNeverMixUp) {
  constexpr int kGenerations = 40;
  const auto members_of = [](int generation) {
    std::vector<int> members;
    const int count = 1 + generation * 7 % 4;
    members.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) members.push_back((generation + i) % 4);
    return members;
  };
  Cluster cluster(4, 333, [&](Member& me) {
    for (int generation = 1; generation <= kGenerations; ++generation) {
      const Plan plan =
          me.plan(static_cast<std::uint64_t>(generation), members_of(generation), 4, GetParam());
      if (plan.rank == static_cast<int>(plan.members.size())) continue;
      // As the coordinator does: a generation forms when the members of the previous one have paused.
      int paused = 0;
      for (int before = 1; before < generation; ++before)
        paused += static_cast<int>(members_of(before).size());
      me.wait_for(0, paused);
      const auto exchange = me.hub.make(plan);
      const std::string met = me.outcome(exchange->connect());
      std::string text = step_outcome(me, *exchange, plan, static_cast<std::uint64_t>(generation));
      if (text == reference_hash(generation, 4, 333).hex()) text = "right";
      me.say(str(generation, " ", met, " ", text));
      me.mark(0);
    }
  });
  const auto lines = cluster.finish();
  for (int id = 0; id < 4; ++id) {
    Lines expected;
    for (int generation = 1; generation <= kGenerations; ++generation) {
      const auto members = members_of(generation);
      if (std::find(members.begin(), members.end(), id) != members.end())
        expected.push_back(str(generation, " ok right"));
    }
    EXPECT_EQ(lines[id], expected);
  }
}

// 0 and 2 survive and have the state, 1 is killed, 3 and 4 are new. Every member gets another rank.
TEST_P(Generations, SurvivorsOfAKilledRankGiveTheStateToNewcomersAndGoOnWithThem) {
  constexpr std::byte kState{42};
  Cluster cluster(5, kFloats, [&](Member& me) {
    std::vector<std::byte> state(10'000'001);
    if (me.id < 3) {
      const auto [plan, exchange] = me.join(1, {0, 1, 2}, 8, GetParam());
      me.say(step_outcome(me, *exchange, plan, 0));
      me.mark(0);
      if (me.id == 1) me.wait_for(9, 1);  // never comes: killed here
      me.say(step_outcome(me, *exchange, plan, 1));
      me.meet_at(1, 2);
      std::fill(state.begin(), state.end(), kState);
    }
    const auto [plan, exchange] = me.join(2, {3, 2, 4, 0}, 8, GetParam());
    const auto half = state.size() / 2;
    const std::vector<std::vector<std::span<std::byte>>> pieces{
        {}, {std::span(state).first(half)}, {}, {std::span(state).subspan(half)}};
    me.say(me.outcome(exchange->all_gather(pieces, {true, false, true, false})));
    me.say(state == std::vector<std::byte>(state.size(), kState) ? "state" : "wrong state");
    for (std::uint64_t step = 1; step < 4; ++step) me.say(step_outcome(me, *exchange, plan, step));
  });
  cluster.wait_for(0, 3);
  cluster.kill(1);
  const auto lines = cluster.finish();
  const auto hash = [](int step) { return reference_hash(step, 8, kFloats).hex(); };
  const Lines second{"ok", "ok", "state", hash(1), hash(2), hash(3)};
  Lines both{"ok", hash(0), "rank 1"};
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(lines, (std::vector<Lines>{both, {"ok", hash(0), "killed"}, both, second, second}));
}

// 1 does not wait for 0: it goes on alone while 0 still reads the sums of their last common step.
std::vector<Lines> goes_on_while_its_sums_are_read(Backend first, Backend next) {
  const bool shared = first == Backend::kSharedMemory;
  Cluster cluster(2, kFloats, [&](Member& me) {
    const auto [plan, exchange] = me.join(1, {0, 1}, 4, first);
    const auto reduced = exchange->reduce(StepHeader{});
    me.say(reduced && exchange->sums_unchanged() ? "right" : "wrong");
    me.meet_at(0, 2);
    if (me.id == 1) {
      exchange->abort();
      me.mark(1);
      me.wait_for(2, 1);
      const auto [alone_plan, alone] = me.join(2, {1}, 4, next);
      me.mark(3);
      me.wait_for(4, 1);
      return;
    }
    me.wait_for(1, 1);
    me.say(exchange->sums_unchanged() ? "unchanged after the abort" : "changed");
    me.mark(2);
    me.wait_for(3, 1);
    me.say(exchange->sums_unchanged() == shared ? "wrong" : "as it is");
    me.mark(4);
  });
  return cluster.finish();
}
const std::vector<Lines> kNoticed{{"ok", "right", "unchanged after the abort", "as it is"},
                                  {"ok", "right", "ok"}};

TEST_P(Generations, PeerThatGoesOnWhileItsSumsAreRead_IsNoticed) {
  EXPECT_EQ(goes_on_while_its_sums_are_read(GetParam(), GetParam()), kNoticed);
}

TEST(SharedMemoryGenerations, PeerThatGoesOnOverTcpWhileItsSumsAreRead_IsNoticed) {
  EXPECT_EQ(goes_on_while_its_sums_are_read(Backend::kSharedMemory, Backend::kTcp), kNoticed);
}

// A generation over tcp has no page: the next one in shared memory still has one of its own.
TEST(SharedMemoryGenerations, TheOnesBetweenAreOverTcp_TheRightBits) {
  constexpr int kGenerations = 12;
  Cluster cluster(2, kFloats, [&](Member& me) {
    for (int generation = 1; generation <= kGenerations; ++generation) {
      const Backend backend = generation % 3 == 0 ? Backend::kSharedMemory : Backend::kTcp;
      const auto [plan, exchange] = me.join(static_cast<std::uint64_t>(generation), {0, 1}, 4, backend);
      me.say(step_outcome(me, *exchange, plan, static_cast<std::uint64_t>(generation)));
      me.meet_at(generation, 2);
    }
  });
  Lines expected;
  for (int generation = 1; generation <= kGenerations; ++generation) {
    expected.emplace_back("ok");
    expected.push_back(reference_hash(generation, 4, kFloats).hex());
  }
  EXPECT_EQ(cluster.finish(), (std::vector<Lines>{expected, expected}));
}

TEST_P(Generations, OnlySurvivorGoesOnAloneAndThenWithANewcomer) {
  Cluster cluster(4, kFloats, [&](Member& me) {
    if (me.id < 3) {
      const auto [plan, exchange] = me.join(1, {0, 1, 2}, 8, GetParam());
      me.mark(0);
      if (me.id != 0) me.wait_for(9, 1);  // never comes: killed here
      me.wait_for(1, 1);
      const auto hash = run_step(me.hub, *exchange, plan, 0);
      me.say(!hash && hash.error().rank > 0 ? "lost" : "not lost");
      const auto [alone_plan, alone] = me.join(2, {0}, 8, GetParam());
      me.say(step_outcome(me, *alone, alone_plan, 1));
    }
    const auto [plan, exchange] = me.join(3, {3, 0}, 8, GetParam());
    me.say(step_outcome(me, *exchange, plan, 2));
  });
  cluster.wait_for(0, 3);
  cluster.kill(1);
  cluster.kill(2);
  cluster.mark(1);
  const auto lines = cluster.finish();
  const auto hash = [](int step) { return reference_hash(step, 8, kFloats).hex(); };
  EXPECT_EQ(lines[0], (Lines{"ok", "lost", "ok", hash(1), "ok", hash(2)}));
  EXPECT_EQ(lines[3], (Lines{"ok", hash(2)}));
}

// Member 1 is ahead: it has the plan of generation 2 while member 0 still meets for generation 1.
TEST_P(Generations, WhoComesTooEarlyIsHeldUntilTheOtherHasThePlan) {
  Cluster cluster(3, kFloats, [&](Member& me) {
    if (me.id == 0) {
      const auto older = me.hub.make(me.plan(1, {0, 1, 2}, 8, GetParam()));
      std::thread coordinator([&] {
        me.wait_for(0, 1);
        older->abort();
      });
      me.say(me.outcome(older->connect()));
      coordinator.join();
    }
    if (me.id == 2) return;
    const Plan plan = me.plan(2, {0, 1}, 8, GetParam());
    const auto exchange = me.hub.make(plan);
    if (me.id == 1) me.mark(0);
    me.say(me.outcome(exchange->connect()));
    me.say(step_outcome(me, *exchange, plan, 5));
  });
  const auto lines = cluster.finish();
  const std::string hash = reference_hash(5, 8, kFloats).hex();
  EXPECT_EQ(lines[1], (Lines{"ok", hash}));
  ASSERT_EQ(lines[0].size(), 3U);
  EXPECT_NE(lines[0][0], "ok");
  EXPECT_EQ(lines[0][1], "ok");
  EXPECT_EQ(lines[0][2], hash);
}

// The counters of an older generation, even if large, must not satisfy a wait of a newer generation.
TEST(SharedMemoryGenerations, PeerThatIsStillInAnOlderGenerationIsWaitedFor) {
  Cluster cluster(2, 100, [&](Member& me) {
    const Plan old_plan = me.plan(1, {0, 1}, 2, Backend::kSharedMemory);
    const auto old_exchange = me.hub.make(old_plan);
    me.say(me.outcome(old_exchange->connect()));
    for (int step = 0; step < 10; ++step) (void)run_step(me.hub, *old_exchange, old_plan, step);
    me.meet_at(0, 2);
    if (me.id == 0) {
      const auto exchange = me.hub.make(me.plan(2, {0, 1}, 2, Backend::kSharedMemory));
      std::thread coordinator([&] { exchange->abort(); });
      me.say(me.outcome(exchange->connect()));
      coordinator.join();
    }
    me.meet_at(1, 2);
  });
  EXPECT_EQ(cluster.finish()[0], (Lines{"ok", "aborted"}));
}

TEST(SharedMemoryGenerations, MembersWithDifferentPlansOfOneGeneration_GetAnError) {
  Cluster cluster(2, 100, [&](Member& me) {
    const auto exchange = me.join(1, {0, 1}, me.id == 0 ? 2 : 4, Backend::kSharedMemory).exchange;
    me.meet_at(0, 2);
  });
  const auto lines = cluster.finish();
  EXPECT_EQ(lines[0], Lines{"rank 1"});
  EXPECT_EQ(lines[1], Lines{"rank 0"});
}

// A communicator keeps memory of the GPU, also after its generation has ended.
TEST(GenerationsOfNccl, FollowedByOneThroughTheHost_TheCommunicatorIsGivenBack) {
  use_backend(Backend::kNccl);
  Cluster cluster(2, kFloats, [&](Member& me) {
    {
      const Joined by_nccl = me.join(1, {0, 1}, 2, Backend::kNccl);
      me.say(str(nccl_communicators()));
    }
    const Joined staged = me.join(2, {0, 1}, 2, Backend::kSharedMemory);
    me.say(str(nccl_communicators()));
  });
  for (const Lines& lines : cluster.finish()) EXPECT_EQ(lines, (Lines{"ok", "1", "ok", "0"}));
  use_backend(Backend::kAuto);
}

}  // namespace
}  // namespace rekindle::exchange::testing
