#include "exchange/tree.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace rekindle::exchange {
namespace {

// The recursion of one aligned subtree; its sum ends in free[depth], temporaries are in free[depth + 1..].
void sum_subtree(LeafRange tree, const std::vector<int>& free, std::size_t depth, std::vector<LeafOp>& ops) {
  if (tree.count == 1) {
    ops.push_back({.kind = LeafOp::Kind::kCompute, .leaf = tree.first, .to = free[depth]});
    return;
  }
  const int half = tree.count / 2;
  sum_subtree({tree.first, half}, free, depth, ops);
  sum_subtree({tree.first + half, half}, free, depth + 1, ops);
  ops.push_back({.kind = LeafOp::Kind::kAdd, .from = free[depth + 1], .to = free[depth]});
}

// Slots that a subtree of `count` leaves takes while it is summed: one, and one more a level.
int levels(int count) { return std::bit_width(static_cast<unsigned>(count)); }

// Largest subtree first: it needs the most temporaries, so it runs while the fewest slots hold finished
// partials.
std::vector<int> summing_order(const std::vector<LeafRange>& trees) {
  std::vector<int> order(trees.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return trees[a].count > trees[b].count; });
  return order;
}

}  // namespace

LeafRange leaves_of(int leaves, int ranks, int rank) {
  const auto border = [&](int r) { return static_cast<int>(std::int64_t{r} * leaves / ranks); };
  return {border(rank), border(rank + 1) - border(rank)};
}

std::vector<LeafRange> subtrees_of(LeafRange range) {
  std::vector<LeafRange> trees;
  const int end = range.first + range.count;
  for (int first = range.first; first < end;) {
    int size = 1;
    while (first % (2 * size) == 0 && first + 2 * size <= end) size *= 2;
    trees.push_back({first, size});
    first += size;
  }
  return trees;
}

std::vector<LeafOp> leaf_ops(LeafRange range) {
  const std::vector<LeafRange> trees = subtrees_of(range);
  const int slots = slots_needed(range);
  std::vector<bool> finished(static_cast<std::size_t>(slots));
  std::vector<LeafOp> ops;
  for (const int i : summing_order(trees)) {
    // Slots of partials that are still to come serve as temporaries.
    std::vector<int> free{i};
    for (int slot = 0; slot < slots; ++slot)
      if (slot != i && !finished[slot]) free.push_back(slot);
    sum_subtree(trees[i], free, 0, ops);
    finished[i] = true;
  }
  return ops;
}

int slots_needed(LeafRange range) {
  const std::vector<LeafRange> trees = subtrees_of(range);
  int slots = 0, finished = 0;
  for (const int i : summing_order(trees)) slots = std::max(slots, finished++ + levels(trees[i].count));
  return slots;
}

Shard shard_of(std::size_t floats, int ranks, int rank) {
  constexpr std::size_t kBlock = 16;  // floats: a cache line, so no two owners write to the same one
  const std::size_t blocks = (floats + kBlock - 1) / kBlock;
  const auto border = [&](std::size_t r) {
    return std::min(floats, blocks * r / static_cast<std::size_t>(ranks) * kBlock);
  };
  const std::size_t first = border(rank);
  return {first, border(rank + 1) - first};
}

}  // namespace rekindle::exchange
