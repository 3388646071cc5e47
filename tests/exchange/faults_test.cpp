#include <gtest/gtest.h>

#include <cstdlib>
#include <future>
#include <thread>

#include "base/text.hpp"
#include "cluster.hpp"
#include "gradients.hpp"

namespace rekindle::exchange::testing {
namespace {

class Faults : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Exchange, Faults, kEach, backend_name);

// Runs `call` and aborts it from another thread once it has begun.
template <class Call>
std::string aborted_call(Exchange& exchange, Call call) {
  std::promise<void> begun;
  std::thread aborter([&] {
    begun.get_future().wait();
    exchange.abort();
  });
  begun.set_value();
  std::string outcome = Member::outcome(call());
  aborter.join();
  return outcome;
}

TEST_P(Faults, AbortEndsConnectWhenAMemberNeverComes) {
  Cluster cluster(2, 100, [&](Member& me) {
    const Plan plan = me.plan(1, {0, 1}, 2, GetParam());
    const auto exchange = me.hub.make(plan);
    me.say(aborted_call(*exchange, [&] { return exchange->connect(); }));
    me.say(me.outcome(exchange->connect()));
    me.meet_at(0, 2);
  });
  // Both ranks come, but one of them may be aborted first. In each case, both calls end with the reason.
  for (const Lines& lines : cluster.finish()) {
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[1], "aborted");
  }
}

TEST_P(Faults, AbortEndsConnectToAMemberWhoDoesNotHaveThePlan) {
  Cluster cluster(2, 100, [&](Member& me) {
    const Plan plan = me.plan(1, {0, 1}, 2, GetParam());
    if (me.id == 0) {
      const auto exchange = me.hub.make(plan);
      me.say(aborted_call(*exchange, [&] { return exchange->connect(); }));
    }
    me.meet_at(0, 2);
  });
  EXPECT_EQ(cluster.finish()[0], Lines{"aborted"});
}

TEST_P(Faults, AbortEndsReduceAndEveryLaterCall) {
  Cluster cluster(2, 100'000, [&](Member& me) {
    const Plan plan = me.plan(1, {0, 1}, 2, GetParam());
    const auto exchange = me.hub.make(plan);
    me.say(me.outcome(exchange->connect()));
    if (me.id == 0) {
      (void)compute_partials(me.hub, plan, 0);
      me.say(aborted_call(*exchange, [&] { return exchange->reduce({}); }));
      me.say(me.outcome(exchange->reduce({})));
      me.say(me.outcome(exchange->release()));
      me.say(me.outcome(exchange->gather({})));
      me.say(me.outcome(exchange->all_gather({})));
      exchange->abort();
    }
    me.meet_at(0, 2);
  });
  EXPECT_EQ(cluster.finish()[0], (Lines{"ok", "aborted", "aborted", "aborted", "aborted", "aborted"}));
}

// A rank that waits in vain keeps its partial sums for the next generation, unless sums have begun to arrive.
TEST_P(Faults, PartialSumsStayUntilSumsTakeTheirPlace) {
  constexpr int kLost = 2;
  Cluster cluster(3, 100'000, [&](Member& me) {
    const Joined first = me.join(1, {0, 1, kLost}, 4, GetParam());
    const Plan& plan = first.plan;
    const auto slot_is_partial = [&](std::uint64_t step) {
      const auto tree = subtrees_of(leaves_of(plan.leaves, 3, plan.rank)).front();
      const auto slot = me.hub.slot(0);
      return slot && hash_floats(*slot) == hash_floats(reference_sum(step, tree, me.hub.floats()));
    };
    const auto slot_0 = [&] { return first.exchange->slot_0_overwritten() ? "overwritten" : "kept"; };
    me.say(me.outcome(run_step(me.hub, *first.exchange, plan, 0)));
    me.say(slot_0());
    if (me.id == kLost) return;  // leaves before its next contribution
    (void)compute_partials(me.hub, plan, 1);
    me.say(me.outcome(first.exchange->reduce({})));
    me.say(slot_0());
    me.say(slot_is_partial(1) ? "as it was" : "changed");
    me.meet_at(0, 2);
  });
  const char* const after_sums =
      GetParam() == Backend::kNccl || GetParam() == kStaged ? "kept" : "overwritten";
  const auto lines = cluster.finish();
  for (int id : {0, 1}) EXPECT_EQ(lines[id], (Lines{"ok", "ok", after_sums, "rank 2", "kept", "as it was"}));
}

TEST(SharedMemoryFaults, AbortEndsReleaseWhileAPeerIsStillReading) {
  Cluster cluster(2, 100, [&](Member& me) {
    const Plan plan = me.plan(1, {0, 1}, 2, Backend::kSharedMemory);
    const auto exchange = me.hub.make(plan);
    me.say(me.outcome(exchange->connect()));
    (void)compute_partials(me.hub, plan, 0);
    me.say(me.outcome(exchange->reduce({})));
    if (me.id == 0) me.say(aborted_call(*exchange, [&] { return exchange->release(); }));
    me.meet_at(0, 2);
  });
  EXPECT_EQ(cluster.finish()[0], (Lines{"ok", "ok", "aborted"}));
}

TEST_P(Faults, AbortFromManyThreadsAtAnyTimeIsHarmless) {
  Cluster cluster(2, 1000, [&](Member& me) {
    const Plan plan = me.plan(1, {0, 1}, 2, GetParam());
    const auto exchange = me.hub.make(plan);
    constexpr int kThreads = 4;
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    std::atomic<int> steps{0};
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] {
        while (steps.load() < i + 1) std::this_thread::yield();
        if (i == 3) exchange->abort();
        exchange->abort();
      });
    steps = 1;
    Result<Hash128> last = Hash128{};
    if (exchange->connect())
      for (int step = 0; last && step < 100'000; ++step, ++steps)
        last = run_step(me.hub, *exchange, plan, step);
    steps = 4;
    for (std::thread& thread : threads) thread.join();
    me.say(me.outcome(exchange->gather({})));
    me.meet_at(0, 2);
  });
  for (const Lines& lines : cluster.finish()) EXPECT_EQ(lines, Lines{"aborted"});
}

TEST_P(Faults, KilledRankIsNamedToTheSurvivorsInReduce) {
  Cluster cluster(3, 100'000, [&](Member& me) {
    const auto [plan, exchange] = me.join(1, {0, 1, 2}, 4, GetParam());
    me.say(me.outcome(run_step(me.hub, *exchange, plan, 0)));
    me.mark(0);
    if (me.id == 2) me.wait_for(9, 1);  // never comes: killed here
    (void)compute_partials(me.hub, plan, 1);
    me.say(me.outcome(exchange->reduce({})));
    me.say(me.outcome(exchange->reduce({})));
    me.meet_at(1, 2);
  });
  cluster.wait_for(0, 3);
  cluster.kill(2);
  const auto lines = cluster.finish();
  EXPECT_EQ(lines[0], (Lines{"ok", "ok", "rank 2", "rank 2"}));
  EXPECT_EQ(lines[1], (Lines{"ok", "ok", "rank 2", "rank 2"}));
  EXPECT_EQ(lines[2], (Lines{"ok", "ok", "killed"}));
}

TEST_P(Faults, RankKilledAtAnyMomentLeavesNobodyHanging) {
  Cluster cluster(3, 50'000, [&](Member& me) {
    const Plan plan = me.plan(1, {0, 1, 2}, 4, GetParam());
    const auto exchange = me.hub.make(plan);
    if (auto met = exchange->connect(); !met) {
      me.say(me.outcome(met));
      return;
    }
    // NCCL does not tell who died: the coordinator does, by an abort.
    std::thread coordinator([&] {
      if (GetParam() != Backend::kNccl) return;
      me.wait_for(2, 1);
      exchange->abort();
    });
    Result<Hash128> last = Hash128{};
    for (int step = 0; last; ++step) {
      last = run_step(me.hub, *exchange, plan, step);
      if (step == 20) me.mark(0);
      if (last && step < 3 && *last != reference_hash(step, 4, 50'000)) me.say("wrong bits");
    }
    me.say(me.outcome(last));
    coordinator.join();
    me.meet_at(1, 2);
  });
  cluster.wait_for(0, 3);
  cluster.kill(1);
  cluster.mark(2);
  const auto lines = cluster.finish();
  for (const int rank : {0, 2}) {
    if (GetParam() == Backend::kNccl && lines[rank] == Lines{"aborted"}) continue;
    EXPECT_EQ(lines[rank], Lines{"rank 1"});
  }
}

// An aborted rank leaves at any moment, and may tell the others that data are there which are not.
TEST_P(Faults, AnAbortedRankChangesNobodysSums) {
  Cluster cluster(3, 300'000, [&](Member& me) {
    int wrong = 0;
    ::setenv("NCCL_STAND_IN_SLOW_TAKE_MS", "4", 1);  // it may begin to write when the exchange is gone
    for (int generation = 1; generation <= 40; ++generation) {
      const Plan plan = me.plan(static_cast<std::uint64_t>(generation), {0, 1, 2}, 4, GetParam());
      const auto exchange = me.hub.make(plan);
      if (!exchange->connect()) ++wrong;
      std::thread coordinator([&] {
        if (me.id == 0) std::this_thread::sleep_for(std::chrono::microseconds(1300 * generation));
        me.mark(1);
        // The others hear of it late.
        if (me.id != 0) {
          me.wait_for(1, 3 * generation);
          std::this_thread::sleep_for(std::chrono::milliseconds(40));
        }
        exchange->abort();
      });
      Result<Hash128> last = Hash128{};
      for (int step = 0; last; ++step) {
        last = run_step(me.hub, *exchange, plan, step);
        if (last && *last != reference_hash(step, 4, 300'000)) ++wrong;
      }
      coordinator.join();
    }
    me.say(str(wrong, " wrong"));
  });
  for (const Lines& lines : cluster.finish()) EXPECT_EQ(lines, Lines{"0 wrong"});
}

TEST_P(Faults, MemberWhoDiedBeforeConnectIsNamed) {
  Cluster cluster(2, 100, [&](Member& me) {
    const Plan plan = me.plan(1, {0, 1}, 2, GetParam());
    me.mark(0);
    if (me.id == 0) me.wait_for(9, 1);
    me.wait_for(1, 1);
    const auto exchange = me.hub.make(plan);
    me.say(me.outcome(exchange->connect()));
  });
  cluster.wait_for(0, 2);
  cluster.kill(0);
  cluster.mark(1);
  const auto lines = cluster.finish();
  EXPECT_EQ(lines[1], Lines{"rank 0"});
}

// A peer may finish its last step and leave while other ranks still finish theirs.
TEST_P(Faults, RankThatEndsAfterTheLastStepIsNoFailure) {
  const auto expected = reference_hash(9, 4, 200'000).hex();
  for (int repeat = 0; repeat < 5; ++repeat) {
    Cluster cluster(4, 200'000, [&](Member& me) {
      const auto [plan, exchange] = me.join(1, {0, 1, 2, 3}, 4, GetParam());
      const auto hash = run_step(me.hub, *exchange, plan, 9);
      me.say(hash ? hash->hex() : hash.error().line());
    });
    for (const Lines& lines : cluster.finish()) EXPECT_EQ(lines, (Lines{"ok", expected}));
  }
}

TEST(SharedMemoryFaults, ProcessWithAReusedPidIsNotMistakenForThePeer) {
  Cluster cluster(2, 100, [&](Member& me) {
    Plan plan = me.plan(1, {0, 1}, 2, Backend::kSharedMemory);
    plan.members[1 - me.id].nonce.back() ^= 1;
    const auto exchange = me.hub.make(plan);
    me.say(me.outcome(exchange->connect()));
    me.meet_at(0, 2);
  });
  const auto lines = cluster.finish();
  EXPECT_EQ(lines[0], Lines{"rank 1"});
  EXPECT_EQ(lines[1], Lines{"rank 0"});
}

TEST(SharedMemoryFaults, PeerWithAnotherModelIsNamed) {
  Cluster cluster(std::vector<std::size_t>{100, 101}, [&](Member& me) {
    const auto exchange = me.join(1, {0, 1}, 2, Backend::kSharedMemory).exchange;
    me.meet_at(0, 2);
  });
  const auto lines = cluster.finish();
  EXPECT_EQ(lines[0], Lines{"rank 1"});
  EXPECT_EQ(lines[1], Lines{"rank 0"});
}

TEST(TcpFaults, PeerWithAnotherModelIsNamed) {
  Cluster cluster(std::vector<std::size_t>{100, 164}, [&](Member& me) {
    const auto [plan, exchange] = me.join(1, {0, 1}, 2, Backend::kTcp);
    (void)compute_partials(me.hub, plan, 0);
    me.say(me.outcome(exchange->reduce({})));
  });
  const auto lines = cluster.finish();
  EXPECT_EQ(lines[0], (Lines{"ok", "rank 1"}));
  EXPECT_EQ(lines[1], (Lines{"ok", "rank 0"}));
}

}  // namespace
}  // namespace rekindle::exchange::testing
