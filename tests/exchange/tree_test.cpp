#include "exchange/tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <span>

#include "gradients.hpp"

namespace rekindle::exchange {
namespace {

using testing::fill_gradient;
using testing::reference_sum;

constexpr std::size_t kFloats = 3001;  // several chunks of the generic sum, and a remainder

std::vector<float> leaf_gradient(int leaf, std::size_t floats = kFloats) {
  std::vector<float> g(floats);
  fill_gradient(1, leaf, g);
  return g;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

using Slots = std::map<int, std::vector<float>>;

void run_op(const LeafOp& op, Slots& slots, std::size_t floats) {
  switch (op.kind) {
    case LeafOp::Kind::kCompute:
      slots[op.to] = leaf_gradient(op.leaf, floats);
      break;
    case LeafOp::Kind::kAdd:
      add_into(slots.at(op.to).data(), slots.at(op.from).data(), floats);
      break;
    case LeafOp::Kind::kCopy:
      slots[op.to] = slots.at(op.from);
      break;
  }
}

// The contents of a rank's slots after its leaf_ops, and the number of slots that it touched.
Slots run_ops(LeafRange range, std::size_t floats = kFloats) {
  Slots slots;
  for (const LeafOp& op : leaf_ops(range)) run_op(op, slots, floats);
  return slots;
}

int computed(const std::vector<LeafOp>& ops) {
  return static_cast<int>(
      std::ranges::count_if(ops, [](const LeafOp& op) { return op.kind == LeafOp::Kind::kCompute; }));
}

template <class Check>
void for_every_share(Check check) {
  for (int leaves = 1; leaves <= 32; leaves *= 2)
    for (int ranks = 1; ranks <= leaves; ++ranks) check(leaves, ranks);
}

TEST(Tree, LeavesOfAllRanksTileTheBatchAndNobodyIsIdle) {
  for_every_share([](int leaves, int ranks) {
    int next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const LeafRange range = leaves_of(leaves, ranks, rank);
      EXPECT_EQ(range.first, next);
      EXPECT_GE(range.count, 1);
      EXPECT_LE(range.count, (leaves + ranks - 1) / ranks);
      next += range.count;
    }
    EXPECT_EQ(next, leaves);
  });
}

TEST(Tree, SubtreesAreMaximalAlignedAndTileTheRange) {
  for_every_share([](int leaves, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      const LeafRange range = leaves_of(leaves, ranks, rank);
      int next = range.first;
      for (const LeafRange tree : subtrees_of(range)) {
        EXPECT_EQ(tree.first, next);
        EXPECT_EQ(tree.count & (tree.count - 1), 0);
        EXPECT_EQ(tree.first % tree.count, 0);
        const int parent = tree.first / (2 * tree.count) * 2 * tree.count;
        EXPECT_TRUE(parent < range.first || parent + 2 * tree.count > range.first + range.count)
            << "not maximal";
        next += tree.count;
      }
      EXPECT_EQ(next, range.first + range.count);
    }
  });
}

TEST(Tree, PartialSumIEndsInSlotIAndSlotsNeededIsWhatTheOpsUse) {
  for_every_share([](int leaves, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      const LeafRange range = leaves_of(leaves, ranks, rank);
      const auto slots = run_ops(range, 67);
      EXPECT_EQ(static_cast<int>(slots.size()), slots_needed(range));
      EXPECT_EQ(slots.rbegin()->first + 1, slots_needed(range));
      const auto trees = subtrees_of(range);
      for (int i = 0; i < static_cast<int>(trees.size()); ++i)
        EXPECT_TRUE(same_bits(slots.at(i), reference_sum(1, trees[i], 67)));
    }
  });
}

TEST(Tree, SlotsAreAsFewAsALevelEach) {
  EXPECT_EQ(slots_needed({5, 1}), 1);
  EXPECT_EQ(slots_needed({2, 2}), 2);
  EXPECT_EQ(slots_needed({4, 4}), 3);
  EXPECT_EQ(slots_needed({0, 8}), 4);
  EXPECT_EQ(slots_needed({2, 3}), 2);  // 2 + 1
  EXPECT_EQ(slots_needed({3, 7}), 3);  // 1 + 4 + 2: first the four (3 slots), then 1 + 2, then 2 + 1
  EXPECT_EQ(slots_needed({7, 5}), 3);  // 1 + 4
}

// A rank stops after any of its operations and goes on with another range.
TEST(Tree, WhatASlotHoldsAlreadyIsUsedAndTheBitsAreTheSame) {
  constexpr std::size_t kFew = 3;
  constexpr int kLeaves = 16;
  for (int first_rank = 0; first_rank < 5; ++first_rank) {
    const LeafRange before = leaves_of(kLeaves, 5, first_rank);
    const std::vector<LeafOp> first_ops = leaf_ops(before);
    for (std::size_t done = 0; done <= first_ops.size(); ++done) {
      for (int ranks = 1; ranks <= 5; ++ranks) {
        for (int rank = 0; rank < ranks; ++rank) {
          const LeafRange after = leaves_of(kLeaves, ranks, rank);
          Slots slots;
          std::vector<LeafRange> held(static_cast<std::size_t>(slots_needed(before)));
          for (const LeafOp& op : std::span(first_ops).first(done)) {
            run_op(op, slots, kFew);
            LeafRange& to = held[op.to];
            if (op.kind == LeafOp::Kind::kCompute) to = {op.leaf, 1};
            if (op.kind == LeafOp::Kind::kAdd) to.count *= 2;
          }
          const std::vector<LeafOp> ops = leaf_ops(after, held);
          for (const LeafOp& op : ops) {
            run_op(op, slots, kFew);
            ASSERT_LT(op.to, std::max(slots_needed(after), slots_needed(before)));
          }
          const auto trees = subtrees_of(after);
          for (int i = 0; i < static_cast<int>(trees.size()); ++i)
            ASSERT_TRUE(same_bits(slots.at(i), reference_sum(1, trees[i], kFew)));
          if (after == before) {
            ASSERT_EQ(computed(ops), before.count - computed({first_ops.begin(), first_ops.begin() + done}));
          }
        }
      }
    }
  }
}

// The slots may contain sums of any ranges.
TEST(Tree, AnythingHeldAnywhereGivesTheSameBits) {
  constexpr std::size_t kFew = 2;
  std::mt19937 random(11);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 30'000; ++round) {
    const int leaves = 1 << below(6), ranks = 1 + below(leaves);
    const LeafRange range = leaves_of(leaves, ranks, below(ranks));
    std::vector<LeafRange> held(static_cast<std::size_t>(below(8)));
    Slots slots;
    for (std::size_t slot = 0; slot < held.size(); ++slot) {
      if (below(5) == 0) continue;
      int count = 1;
      while (count < leaves && below(2) == 0) count *= 2;
      // Most of these ranges are useful.
      const int near = below(4) == 0 ? below(leaves) : range.first + below(range.count);
      held[slot] = {near / count * count, count};
      slots[static_cast<int>(slot)] = reference_sum(1, held[slot], kFew);
    }
    const std::vector<LeafOp> ops = leaf_ops(range, held);
    for (const LeafOp& op : ops) run_op(op, slots, kFew);
    ASSERT_LE(computed(ops), range.count);
    const auto trees = subtrees_of(range);
    for (int i = 0; i < static_cast<int>(trees.size()); ++i)
      ASSERT_TRUE(same_bits(slots.at(i), reference_sum(1, trees[i], kFew))) << "round " << round;
  }
}

// A sum that must move to another slot must not overwrite the sum that moves into its slot.
TEST(Tree, ASumMovedOutOfTheWaySparesTheOneThatIsMovedIn) {
  Slots slots;
  const std::vector<LeafRange> held{{7, 1}, {6, 2}, {8, 1}};
  for (int slot = 0; slot < 3; ++slot)
    slots[slot] = reference_sum(1, held[static_cast<std::size_t>(slot)], 3);
  for (const LeafOp& op : leaf_ops({6, 6}, held)) run_op(op, slots, 3);
  EXPECT_TRUE(same_bits(slots.at(0), reference_sum(1, {6, 2}, 3)));
  EXPECT_TRUE(same_bits(slots.at(1), reference_sum(1, {8, 4}, 3)));
}

TEST(Tree, OnlyWhatIsMissingIsComputed) {
  EXPECT_EQ(computed(leaf_ops({0, 4}, {{0, 2}, {1, 1}})), 2);
  EXPECT_EQ(computed(leaf_ops({4, 4}, {{5, 1}, {6, 2}})), 1);  // the slot of its final partial sum contains 5
  EXPECT_EQ(computed(leaf_ops({0, 4}, {{2, 2}, {4, 1}})),
            2);  // the right half is in the slot of the final sum
  EXPECT_EQ(computed(leaf_ops({2, 2}, {{0, 2}, {2, 1}})), 1);
  EXPECT_EQ(leaf_ops({2, 2}, {{2, 2}}).size(), 0U);
  EXPECT_EQ(computed(leaf_ops({0, 2}, {{2, 2}, {4, 1}})), 2);  // nothing useful
}

TEST(Tree, RootHasTheSameBitsForEveryNumberOfRanks) {
  for_every_share([](int leaves, int ranks) {
    std::vector<LeafRange> trees;
    std::vector<std::vector<float>> sums;
    for (int rank = 0; rank < ranks; ++rank) {
      const LeafRange range = leaves_of(leaves, ranks, rank);
      const auto slots = run_ops(range);
      const auto mine = subtrees_of(range);
      for (int i = 0; i < static_cast<int>(mine.size()); ++i) {
        trees.push_back(mine[i]);
        sums.push_back(slots.at(i));
      }
    }
    const auto expected = reference_sum(1, {0, leaves}, kFloats);
    std::vector<const float*> partials;
    for (const auto& sum : sums) partials.push_back(sum.data());
    std::vector<float> out(kFloats);
    finish_tree(leaves, trees, partials, out.data(), kFloats);
    EXPECT_TRUE(same_bits(out, expected)) << leaves << " leaves, " << ranks << " ranks";
    // In place, over each of the partials in turn; and only an odd part of the arena.
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const std::vector<float> kept = sums[i];
      finish_tree(leaves, trees, partials, sums[i].data(), kFloats);
      EXPECT_TRUE(same_bits(sums[i], expected)) << "in place over partial " << i;
      sums[i] = kept;
      partials[i] = sums[i].data();
    }
    for (const float*& partial : partials) partial += 1021;
    finish_tree(leaves, trees, partials, out.data(), 7);
    EXPECT_EQ(std::memcmp(out.data(), expected.data() + 1021, 7 * sizeof(float)), 0);
  });
}

// The comparison above must be able to fail.
TEST(Tree, AnotherOrderOfAdditionsHasOtherBits) {
  std::vector<float> in_a_row = leaf_gradient(0);
  for (int leaf = 1; leaf < 8; ++leaf) add_into(in_a_row.data(), leaf_gradient(leaf).data(), kFloats);
  EXPECT_FALSE(same_bits(in_a_row, reference_sum(1, {0, 8}, kFloats)));
}

TEST(Tree, ShardsTileTheArenaAtCacheLines) {
  for (const std::size_t floats : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{16},
                                   std::size_t{37}, std::size_t{1000}, std::size_t{132'863'336}}) {
    for (int ranks = 1; ranks <= 32; ++ranks) {
      std::size_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Shard shard = shard_of(floats, ranks, rank);
        EXPECT_EQ(shard.first, next);
        EXPECT_TRUE(shard.first % 16 == 0 || shard.count == 0);
        EXPECT_LE(shard.count, floats / ranks + 16);
        next += shard.count;
      }
      EXPECT_EQ(next, floats);
    }
  }
}

}  // namespace
}  // namespace rekindle::exchange
