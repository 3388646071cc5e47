#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/text.hpp"
#include "cluster.hpp"

namespace rekindle::exchange::testing {
namespace {

class CopyFaults : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Exchange, CopyFaults, kEach, backend_name);

enum Mark { kBegun, kStop, kOver };
constexpr std::size_t kBytes = std::size_t{16} << 20;

// A copy that does not end during the test: the same memory again and again.
std::string copy_endlessly(Exchange& exchange, int me, const std::vector<bool>& receives) {
  const auto mine = static_cast<std::byte>(me + 1);
  std::vector<std::byte> memory(kBytes, mine);
  std::vector<std::vector<std::span<std::byte>>> pieces(receives.size());
  for (std::size_t rank = 0; rank < receives.size(); ++rank)
    if (!receives[rank]) pieces[rank].assign(20'000, std::span(memory));  // 320 GB
  const std::string outcome = Member::outcome(exchange.all_gather(pieces, receives));
  const bool intact = std::all_of(memory.begin(), memory.end(), [&](std::byte b) { return b == mine; });
  return receives[me] || intact ? outcome : outcome + ", its memory was written";
}

void wait_until_in_mid_copy(Cluster& cluster, int members) {
  cluster.wait_for(kBegun, members);
  for (int id = 0; id < members; ++id) cluster.wait_until_busy(id);
}

const std::vector<bool> kReceives{false, true, false, true};

TEST_P(CopyFaults, RankKilledInMidCopyIsNamedToAllOthers) {
  for (const int victim : {0, 3}) {  // a source, a receiver
    Cluster cluster(4, 100, [&](Member& me) {
      const auto exchange = me.join(1, {0, 1, 2, 3}, 4, GetParam()).exchange;
      me.mark(kBegun);
      me.say(copy_endlessly(*exchange, me.id, kReceives));
      me.meet_at(kOver, 3);
    });
    wait_until_in_mid_copy(cluster, 4);
    cluster.kill(victim);
    const auto lines = cluster.finish();
    for (int id = 0; id < 4; ++id)
      EXPECT_EQ(lines[id], (Lines{"ok", id == victim ? "killed" : str("rank ", victim)}));
  }
}

TEST_P(CopyFaults, AbortInMidCopyEndsItEverywhere) {
  for (const int aborted : {0, 3}) {
    Cluster cluster(4, 100, [&](Member& me) {
      const Joined joined = me.join(1, {0, 1, 2, 3}, 4, GetParam());
      me.mark(kBegun);
      std::thread coordinator([&] {
        me.wait_for(kStop, 1);
        if (me.id == aborted) joined.exchange->abort();
      });
      me.say(copy_endlessly(*joined.exchange, me.id, kReceives));
      coordinator.join();
      me.meet_at(kOver, 4);
    });
    wait_until_in_mid_copy(cluster, 4);
    cluster.mark(kStop);
    const auto lines = cluster.finish();
    for (int id = 0; id < 4; ++id)
      EXPECT_EQ(lines[id], (Lines{"ok", id == aborted ? "aborted" : str("rank ", aborted)}));
  }
}

// Waits until the exchange has named the rank without interruption for a while.
void wait_until_stuck_on(const Exchange& exchange, int rank) {
  for (int in_a_row = 0; in_a_row < 100;) {
    in_a_row = exchange.waiting_for() == rank ? in_a_row + 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_P(CopyFaults, RankThatHangsInMidCopyIsNamedAndAnAbortEndsTheWaitForIt) {
  for (const int hanging : {0, 1}) {  // the source, the receiver
    Cluster cluster(2, 100, [&](Member& me) {
      const Joined joined = me.join(1, {0, 1}, 2, GetParam());
      me.mark(kBegun);
      std::thread coordinator([&] {
        if (me.id == hanging) return;
        me.wait_for(kStop, 1);
        wait_until_stuck_on(*joined.exchange, hanging);
        joined.exchange->abort();
      });
      me.say(copy_endlessly(*joined.exchange, me.id, {false, true}));
      coordinator.join();
      me.mark(kOver);
      me.wait_for(kOver, 2);
    });
    wait_until_in_mid_copy(cluster, 2);
    cluster.stop(hanging);
    cluster.mark(kStop);
    cluster.wait_for(kOver, 1);
    cluster.go_on(hanging);
    const auto lines = cluster.finish();
    EXPECT_EQ(lines[1 - hanging], (Lines{"ok", "aborted"}));
    EXPECT_EQ(lines[hanging], (Lines{"ok", str("rank ", 1 - hanging)}));
  }
}

}  // namespace
}  // namespace rekindle::exchange::testing
