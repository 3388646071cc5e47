#include <gtest/gtest.h>

#include <cstdlib>

#include <optional>
#include <thread>

#include "base/text.hpp"
#include "cluster.hpp"

namespace rekindle::exchange::testing {
namespace {

class Waiting : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Exchange, Waiting, kEach, backend_name);

void wait_until_named(const Exchange& exchange, int rank) {
  while (exchange.waiting_for() != rank) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Two of three ranks begin the call. The last rank begins when both have reported that they wait for it.
template <class Call>
std::string late_call(Member& me, const Exchange& exchange, int late, int mark, Call call) {
  std::optional<std::thread> witness;
  if (me.id == late) {
    me.wait_for(mark, 2);
  } else {
    witness.emplace([&] {
      wait_until_named(exchange, late);
      me.mark(mark);
    });
  }
  const std::string outcome = Member::outcome(call());
  if (witness) witness->join();
  return str(outcome, ' ', exchange.waiting_for());
}

TEST_P(Waiting, LateRankIsNamedByAllOthersInEveryCall) {
  constexpr std::size_t kFloats = 3'000'000;  // on tcp, ranks are ahead until their windows are full
  for (int late = 0; late < 3; ++late) {
    Cluster cluster(3, kFloats, [&](Member& me) {
      const Plan plan = me.plan(1, {0, 1, 2}, 4, GetParam());
      const auto exchange = me.hub.make(plan);
      std::vector<std::byte> memory(30'000'000);
      const std::vector<std::vector<std::span<std::byte>>> pieces(3, {std::span(memory)});
      me.say(str("idle ", exchange->waiting_for()));
      int mark = 0;
      const auto call = [&](auto body) { me.say(late_call(me, *exchange, late, mark++, body)); };
      call([&] { return exchange->connect(); });
      call([&] { return exchange->gather({}); });
      call([&] { return exchange->reduce({}); });
      if (GetParam() == Backend::kSharedMemory) call([&] { return exchange->release(); });
      call([&] { return exchange->all_gather(pieces, {true, false, true}); });
    });
    Lines expected(GetParam() == Backend::kSharedMemory ? 6 : 5, "ok -1");
    expected[0] = "idle -1";
    for (const Lines& lines : cluster.finish()) EXPECT_EQ(lines, expected);
  }
}

// The bytes inside a call, not the calls, show the difference between a slow network and a dead one.
TEST_P(Waiting, ActivityGrowsInsideOneCall) {
  Cluster cluster(2, 1000, [&](Member& me) {
    const Joined joined = me.join(1, {0, 1}, 2, GetParam());
    std::vector<std::byte> memory(64 << 20);
    const std::vector<std::vector<std::span<std::byte>>> pieces{{std::span(memory)}, {}};
    const std::uint64_t before = joined.exchange->activity();
    me.say(me.outcome(joined.exchange->all_gather(pieces, {false, true})));
    me.say(joined.exchange->activity() - before > 20 ? "grows" : "stands still");
  });
  for (const Lines& lines : cluster.finish()) EXPECT_EQ(lines, (Lines{"ok", "ok", "grows"}));
}

// NCCL says nothing about its progress, so an exchange by NCCL goes in pieces, there and back: each is taken,
// and is over.
TEST(WaitingForNccl, ActivityGrowsInsideOneExchangeOfGradients) {
  use_backend(Backend::kNccl);
  constexpr std::size_t kPieces = 20;
  Cluster cluster(2, kPieces * kPieceOfNccl / sizeof(float), [&](Member& me) {
    const Joined joined = me.join(1, {0, 1}, 2, Backend::kNccl);
    const std::uint64_t before = joined.exchange->activity();
    me.say(me.outcome(joined.exchange->reduce({})));
    me.say(joined.exchange->activity() - before >= 4 * kPieces ? "grows" : "stands still");
  });
  for (const Lines& lines : cluster.finish()) EXPECT_EQ(lines, (Lines{"ok", "ok", "grows"}));
  use_backend(Backend::kAuto);
}

// NCCL has no progress to show while it connects, and no rank is at fault: the coordinator has a limit.
TEST(WaitingForNccl, ConnectingByNccl_NamesNoRank) {
  use_backend(Backend::kNccl);
  ::setenv("NCCL_STAND_IN_STUCK", "init", 1);
  Cluster cluster(2, 1000, [&](Member& me) {
    const auto exchange = me.hub.make(me.plan(1, {0, 1}, 2, Backend::kNccl));
    std::thread witness([&] {
      while (nccl_communicators() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      me.say(str("waits for ", exchange->waiting_for()));
      me.meet_at(0, 2);
      exchange->abort();
    });
    static_cast<void>(exchange->connect());
    witness.join();
  });
  ::unsetenv("NCCL_STAND_IN_STUCK");
  for (const Lines& lines : cluster.finish()) EXPECT_EQ(lines, Lines{"waits for -1"});
  use_backend(Backend::kAuto);
}

}  // namespace
}  // namespace rekindle::exchange::testing
