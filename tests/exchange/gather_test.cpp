#include <gtest/gtest.h>

#include "base/random.hpp"
#include "base/text.hpp"
#include "cluster.hpp"
#include "gradients.hpp"

namespace rekindle::exchange::testing {
namespace {

class Gather : public ::testing::TestWithParam<Backend> {};
INSTANTIATE_TEST_SUITE_P(Exchange, Gather, ::testing::Values(Backend::kSharedMemory, Backend::kTcp),
                         [](const auto& info) {
                           return info.param == Backend::kTcp ? "Tcp" : "SharedMemory";
                         });

TEST_P(Gather, HeadersReachEverybodyBetweenAndAfterSteps) {
  Cluster cluster(3, 100, [&](Member& me) {
    const Plan plan = me.plan(1, {0, 1, 2}, 4, GetParam());
    const auto exchange = me.hub.make(plan);
    me.say(me.outcome(exchange->connect()));
    for (int round = 0; round < 50; ++round) {
      StepHeader mine;
      mine.flags = 1U << me.id;
      mine.count = static_cast<std::uint64_t>(round);
      mine.state_hash = {static_cast<std::uint64_t>(me.id), 5};
      const auto all = exchange->gather(mine);
      std::string text = me.outcome(all);
      if (all)
        for (const StepHeader& h : *all) text += str(' ', h.flags, '/', h.count, '/', h.state_hash.high);
      if (text != str("ok 1/", round, "/0 2/", round, "/1 4/", round, "/2")) me.say(text);
      if (round % 10 == 0) me.say(me.outcome(run_step(me.hub, *exchange, plan, round)));
    }
  });
  for (const auto& lines : cluster.finish()) EXPECT_EQ(lines, std::vector<std::string>(6, "ok"));
}

std::vector<std::byte> content(int rank, std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  Rng rng(static_cast<std::uint64_t>(rank) + 1);
  for (std::byte& b : out) b = static_cast<std::byte>(rng.next());
  return out;
}

// Splits memory into pieces of odd sizes, empty ones among them.
std::vector<std::span<std::byte>> cut(std::span<std::byte> whole, std::size_t piece) {
  std::vector<std::span<std::byte>> pieces{whole.first(0)};
  while (!whole.empty()) {
    const std::size_t n = std::min(piece, whole.size());
    pieces.push_back(whole.first(n));
    whole = whole.subspan(n);
    piece = piece * 3 + 1;
  }
  pieces.push_back(whole);
  return pieces;
}

TEST_P(Gather, BytesOfAnySizesAndPiecesReachEverybody) {
  // Far more than staging memory holds, few, none; twice, so that the second call finds the first one's
  // remains.
  const std::vector<std::vector<std::size_t>> calls{
      {13'000'001, 5, 0, 4'194'304}, {0, 0, 0, 0}, {0, 9'000'000, 1, 4'194'305}, {7, 7, 7, 7}};
  Cluster cluster(4, 100, [&](Member& me) {
    const Plan plan = me.plan(1, {0, 1, 2, 3}, 4, GetParam());
    const auto exchange = me.hub.make(plan);
    me.say(me.outcome(exchange->connect()));
    for (const auto& sizes : calls) {
      std::vector<std::vector<std::byte>> memory;
      std::vector<std::vector<std::span<std::byte>>> pieces;
      for (int rank = 0; rank < 4; ++rank) {
        memory.push_back(rank == me.id ? content(rank, sizes[rank]) : std::vector<std::byte>(sizes[rank]));
        pieces.push_back(cut(memory.back(), static_cast<std::size_t>(rank) * 100 + 3));
      }
      me.say(me.outcome(exchange->all_gather(pieces)));
      for (int rank = 0; rank < 4; ++rank)
        if (memory[rank] != content(rank, sizes[rank])) me.say(str("rank ", rank, "'s bytes are wrong"));
      const auto hash = run_step(me.hub, *exchange, plan, 3);
      me.say(hash && *hash == reference_hash(3, 4, 100) ? "step ok" : "step wrong");
    }
  });
  std::vector<std::string> expected{"ok"};
  for (std::size_t i = 0; i < calls.size(); ++i) expected.insert(expected.end(), {"ok", "step ok"});
  for (const auto& lines : cluster.finish()) EXPECT_EQ(lines, expected);
}

TEST_P(Gather, RanksThatDisagreeAboutSizesAreToldSo) {
  Cluster cluster(2, 100, [&](Member& me) {
    const auto exchange = me.hub.make(me.plan(1, {0, 1}, 2, GetParam()));
    me.say(me.outcome(exchange->connect()));
    std::vector<std::byte> a(100), b(static_cast<std::size_t>(100 + me.id));
    const std::vector<std::vector<std::span<std::byte>>> pieces{{std::span(a)}, {std::span(b)}};
    me.say(me.outcome(exchange->all_gather(pieces)));
  });
  const auto lines = cluster.finish();
  EXPECT_EQ(lines[0], (std::vector<std::string>{"ok", "rank 1"}));
  EXPECT_EQ(lines[1], (std::vector<std::string>{"ok", "rank 0"}));
}

}  // namespace
}  // namespace rekindle::exchange::testing
