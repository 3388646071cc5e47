#include "trainer/partial_sums.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <string>

#include "base/text.hpp"
#include "device/kernels.hpp"
#include "exchange/layout.hpp"
#include "protocol/gpu_lines.hpp"

namespace rekindle::trainer {
namespace {

using exchange::LeafOp;
using exchange::LeafRange;

constexpr int kLeaves = 16;

// What the coordinator says about NCCL's way follows from the exchange's layout.
TEST(PartialSums, TheCoordinatorCountsThemAsTheExchangeDoes) {
  static_assert(protocol::kMostPartialSums == device::kMostOperands);
  for (const int leaves : {1, 16, 256, 1024}) {
    for (int ranks = 1; ranks <= std::min(leaves, 130); ++ranks)
      EXPECT_EQ(static_cast<std::size_t>(protocol::partial_sums(leaves, ranks)),
                exchange::make_layout(leaves, ranks).subtrees.size())
          << ranks << " of " << leaves;
  }
}

// Represents a gradient by the text of its computation, so that another order of additions gives another
// text.
std::string sum_of(LeafRange tree) {
  if (tree.count == 1) return str(tree.first);
  const int half = tree.count / 2;
  return str("(", sum_of({tree.first, half}), "+", sum_of({tree.first + half, half}), ")");
}

// Additions are commutative: the operands may come in either order.
std::string add(const std::string& a, const std::string& b) {
  const auto first_leaf = [](const std::string& sum) {
    return std::stoi(sum.substr(sum.find_first_not_of('(')));
  };
  return first_leaf(a) < first_leaf(b) ? str("(", a, "+", b, ")") : str("(", b, "+", a, ")");
}

exchange::StepSums numbers_of(int leaf, std::uint64_t step) {
  exchange::StepSums numbers;
  if (leaf == 3) numbers.flags = 4;
  if (leaf == 5) numbers.not_finite = 2;
  numbers.sums[0] = {leaf + 1000 * std::int64_t(step), 1};
  numbers.sums[7] = {1, 2};
  return numbers;
}

struct Rank {
  PartialSums sums;
  std::map<int, std::string> slots;
  int computed = 0;

  void run(const LeafOp& op, std::uint64_t step) {
    switch (op.kind) {
      case LeafOp::Kind::kCompute:
        sums.invalidate(op.to);
        slots[op.to] = str(op.leaf);
        sums.computed(op.to, op.leaf, numbers_of(op.leaf, step));
        ++computed;
        break;
      case LeafOp::Kind::kAdd:
        slots[op.to] = add(slots.at(op.to), slots.at(op.from));
        sums.added(op.to, op.from);
        break;
      case LeafOp::Kind::kCopy:
        slots[op.to] = slots.at(op.from);
        sums.copied(op.to, op.from);
        break;
    }
  }

  // False if stopped after `limit` operations.
  bool run(LeafRange range, std::uint64_t step, std::size_t limit) {
    const auto ops = leaf_ops(range, sums.held(step));
    for (const LeafOp& op : ops) {
      if (limit-- == 0) return false;
      run(op, step);
    }
    return true;
  }
};

TEST(PartialSums, AStepThatIsBrokenOffAgainAndAgainEndsWithTheSameSumsAndNumbers) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 2000; ++round) {
    Rank rank;
    const auto step = std::uint64_t{1} + static_cast<std::uint64_t>(below(3));
    LeafRange range;
    do {
      const int ranks = 1 + below(6);
      range = exchange::leaves_of(kLeaves, ranks, below(ranks));
      if (below(8) == 0) rank.sums.invalidate(0);
    } while (!rank.run(range, step, static_cast<std::size_t>(below(40))));
    exchange::StepHeader header;
    const auto trees = exchange::subtrees_of(range);
    for (int i = 0; i < static_cast<int>(trees.size()); ++i) ASSERT_EQ(rank.slots.at(i), sum_of(trees[i]));
    rank.sums.add_to(header, static_cast<int>(trees.size()));
    std::int64_t loss = 0;
    for (int leaf = range.first; leaf < range.first + range.count; ++leaf)
      loss += leaf + 1000 * std::int64_t(step);
    EXPECT_EQ(static_cast<std::int64_t>(header.sums[0].sum), loss);
    EXPECT_EQ(header.sums[0].count, static_cast<std::uint64_t>(range.count));
    EXPECT_EQ(static_cast<std::int64_t>(header.sums[7].sum), range.count);
    EXPECT_EQ(header.sums[7].count, static_cast<std::uint64_t>(2 * range.count));
    const auto has = [range](int leaf) { return range.first <= leaf && leaf < range.first + range.count; };
    EXPECT_EQ(header.flags, has(3) ? 4U : 0U);
    EXPECT_EQ(header.not_finite, has(5) ? 2U : 0U);
  }
}

TEST(PartialSums, AnotherStepOrStateOrAnInvalidSlotKeepsNothing) {
  Rank rank;
  const LeafRange range{0, 4};
  ASSERT_TRUE(rank.run(range, 5, 100));
  EXPECT_EQ(rank.computed, 4);
  ASSERT_TRUE(rank.run(range, 5, 100));
  EXPECT_EQ(rank.computed, 4) << "all sums were present";
  ASSERT_TRUE(rank.run(range, 6, 100));
  EXPECT_EQ(rank.computed, 8) << "another step";
  rank.sums.forget();
  ASSERT_TRUE(rank.run(range, 6, 100));
  EXPECT_EQ(rank.computed, 12) << "another state";
  rank.sums.invalidate(0);
  ASSERT_TRUE(rank.run(range, 6, 100));
  EXPECT_EQ(rank.computed, 14) << "leaves 2 and 3 are still in the second slot";
}

}  // namespace
}  // namespace rekindle::trainer
