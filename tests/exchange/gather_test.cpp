#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.hpp"
#include "base/text.hpp"
#include "cluster.hpp"
#include "gradients.hpp"

namespace rekindle::exchange::testing {
namespace {

class Gather : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Exchange, Gather, kEach, backend_name);

TEST_P(Gather, HeadersReachEverybodyBetweenAndAfterSteps) {
  Cluster cluster(3, 100, [&](Member& me) {
    const auto [plan, exchange] = me.join(1, {0, 1, 2}, 4, GetParam());
    for (int round = 0; round < 50; ++round) {
      StepHeader mine;
      mine.flags = 1U << me.id;
      mine.sums[7].count = static_cast<std::uint64_t>(round);
      mine.state_hash = {static_cast<std::uint64_t>(me.id), 5};
      const auto all = exchange->gather(mine);
      std::string text = me.outcome(all);
      if (all)
        for (const StepHeader& h : *all)
          text += str(' ', h.flags, '/', h.sums[7].count, '/', h.state_hash.high);
      if (text != str("ok 1/", round, "/0 2/", round, "/1 4/", round, "/2")) me.say(text);
      if (round % 10 == 0) me.say(me.outcome(run_step(me.hub, *exchange, plan, round)));
    }
  });
  for (const auto& lines : cluster.finish()) EXPECT_EQ(lines, Lines(6, "ok"));
}

std::vector<std::byte> content(int rank, std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  Rng rng(static_cast<std::uint64_t>(rank) + 1);
  for (std::byte& b : out) b = static_cast<std::byte>(rng.next());
  return out;
}

// Splits memory into pieces of odd sizes, including empty pieces.
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
  // Far more bytes than the staging memory, few, and none. Each twice, so that the second call finds the
  // leftovers of the first call.
  const std::vector<std::vector<std::size_t>> calls{
      {13'000'001, 5, 0, 4'194'304}, {0, 0, 0, 0}, {0, 9'000'000, 1, 4'194'305}, {7, 7, 7, 7}};
  Cluster cluster(4, 100, [&](Member& me) {
    const auto [plan, exchange] = me.join(1, {0, 1, 2, 3}, 4, GetParam());
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
  Lines expected{"ok"};
  for (std::size_t i = 0; i < calls.size(); ++i) expected.insert(expected.end(), {"ok", "step ok"});
  for (const auto& lines : cluster.finish()) EXPECT_EQ(lines, expected);
}

// Rank r sends sizes[r] bytes of a state. Every rank has memory for the complete state.
struct Copy {
  std::vector<std::size_t> sizes;
  std::vector<bool> receives;
};
constexpr std::size_t kLargestCopy = 5'000'003;  // bytes: more than staging memory holds

// Every choice of receivers. The state is split among the sources, or every rank sends a part.
std::vector<Copy> copies_among(int ranks) {
  std::vector<Copy> copies;
  for (unsigned receivers = 0; receivers < 1U << ranks; ++receivers) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{3}, std::size_t{70'001}, kLargestCopy}) {
      for (const bool all_give : {false, true}) {
        Copy copy;
        std::size_t left = bytes;
        for (int rank = 0; rank < ranks; ++rank) {
          copy.receives.push_back((receivers >> rank & 1U) != 0);
          const std::size_t share = copy.receives.back() && !all_give ? 0 : (left + 1) / 2;
          copy.sizes.push_back(share);
          left -= share;
        }
        copies.push_back(copy);
      }
    }
  }
  return copies;
}

// The state has different bytes on every rank, unlike real sources, so that every write is visible.
// contents[r]: the bytes in rank r's memory before the copy.
std::string copy_outcome(Exchange& exchange, int me, const Copy& copy,
                         const std::vector<std::vector<std::byte>>& contents) {
  const auto bytes = std::accumulate(copy.sizes.begin(), copy.sizes.end(), std::size_t{0});
  std::vector<std::byte> memory(contents[me].begin(),
                                contents[me].begin() + static_cast<std::ptrdiff_t>(bytes));
  std::vector<std::byte> expected = memory;
  std::vector<std::vector<std::span<std::byte>>> pieces;
  std::size_t first = 0;
  for (std::size_t rank = 0; rank < copy.sizes.size(); ++rank) {
    pieces.push_back(cut(std::span(memory).subspan(first, copy.sizes[rank]), rank * 100 + 3));
    if (copy.receives[me])
      std::copy_n(contents[rank].data() + first, copy.sizes[rank], expected.data() + first);
    first += copy.sizes[rank];
  }
  const std::string outcome = Member::outcome(exchange.all_gather(pieces, copy.receives));
  return memory == expected ? outcome : outcome + ", wrong bytes";
}

TEST_P(Gather, ReceiversGetTheWholeStateAndNobodyElsesMemoryIsWritten) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const std::vector<Copy> copies = copies_among(ranks);
    Cluster cluster(ranks, 100, [&](Member& me) {
      const auto [plan, exchange] = me.join(1, first_members(ranks), 4, GetParam());
      std::vector<std::vector<std::byte>> contents;
      contents.reserve(static_cast<std::size_t>(ranks));
      for (int rank = 0; rank < ranks; ++rank) contents.push_back(content(rank, kLargestCopy));
      for (std::size_t i = 0; i < copies.size(); ++i) {
        const std::string outcome = copy_outcome(*exchange, me.id, copies[i], contents);
        if (outcome != "ok") me.say(str("copy ", i, ": ", outcome));
      }
      me.say(me.outcome(run_step(me.hub, *exchange, plan, 0)));
    });
    for (const Lines& lines : cluster.finish()) EXPECT_EQ(lines, (Lines{"ok", "ok"}));
  }
}

TEST_P(Gather, RanksThatDisagreeAboutWhoReceives_EachGetsAnError) {
  Cluster cluster(2, 100, [&](Member& me) {
    const auto exchange = me.join(1, {0, 1}, 2, GetParam()).exchange;
    std::vector<std::byte> memory(100);
    const std::vector<std::vector<std::span<std::byte>>> pieces{{std::span(memory)}, {}};
    me.say(me.outcome(exchange->all_gather(pieces, {me.id == 0, true})));
  });
  const auto lines = cluster.finish();
  EXPECT_EQ(lines[0], (Lines{"ok", "rank 1"}));
  EXPECT_EQ(lines[1], (Lines{"ok", "rank 0"}));
}

TEST_P(Gather, CopyThatDoesNotNameEveryRankIsRefused) {
  Cluster cluster(2, 100, [&](Member& me) {
    const auto exchange = me.join(1, {0, 1}, 2, GetParam()).exchange;
    const std::vector<std::vector<std::span<std::byte>>> pieces(2);
    me.say(me.outcome(exchange->all_gather(pieces, {true})));
    me.meet_at(0, 2);
  });
  for (const Lines& lines : cluster.finish())
    EXPECT_EQ(lines, (Lines{"ok", "all_gather of 2 ranks' pieces to 1 ranks among 2"}));
}

TEST_P(Gather, RanksThatDisagreeAboutSizes_EachGetsAnError) {
  Cluster cluster(2, 100, [&](Member& me) {
    const auto exchange = me.join(1, {0, 1}, 2, GetParam()).exchange;
    std::vector<std::byte> a(100), b(static_cast<std::size_t>(100 + me.id));
    const std::vector<std::vector<std::span<std::byte>>> pieces{{std::span(a)}, {std::span(b)}};
    me.say(me.outcome(exchange->all_gather(pieces)));
  });
  const auto lines = cluster.finish();
  EXPECT_EQ(lines[0], (Lines{"ok", "rank 1"}));
  EXPECT_EQ(lines[1], (Lines{"ok", "rank 0"}));
}

}  // namespace
}  // namespace rekindle::exchange::testing
