#include "exchange/tree.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace rekindle::exchange {
namespace {

// Slots needed to sum a subtree of `count` leaves: one, and one more for each level.
int levels(int count) { return std::bit_width(static_cast<unsigned>(count)); }

// Largest subtree first: it needs the most temporaries, so it runs while the fewest slots hold finished
// partials.
std::vector<int> summing_order(const std::vector<LeafRange>& trees) {
  std::vector<int> order(trees.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return trees[a].count > trees[b].count; });
  return order;
}

bool is_inside(const LeafRange& inner, const LeafRange& outer) {
  return inner.count > 0 && inner.first >= outer.first &&
         inner.first + inner.count <= outer.first + outer.count;
}

// Lists the operations, and tracks what each slot would hold after each of them.
class Summing {
 public:
  Summing(LeafRange range, const std::vector<LeafRange>& held) : trees_(subtrees_of(range)) {
    slots_.resize(std::max(held.size(), static_cast<std::size_t>(slots_needed(range))));
    for (std::size_t slot = 0; slot < held.size(); ++slot) slots_[slot].holds = held[slot];
    for (const LeafRange& tree : trees_) want(tree);
  }

  std::vector<LeafOp> run() {
    for (const int i : summing_order(trees_)) {
      sum_into(trees_[i], i);
      slots_[i].busy = true;
    }
    return std::move(ops_);
  }

 private:
  struct Slot {
    LeafRange holds;      // count 0: nothing
    bool wanted = false;  // held at the start, and still needed
    bool busy = false;    // holds a finished partial sum, or an unfinished one
  };

  // Marks the largest subtrees of `tree` that slots hold.
  void want(LeafRange tree) {
    if (const int slot = find(tree); slot >= 0) {
      slots_[slot].wanted = true;
    } else if (tree.count > 1) {
      want(left_of(tree));
      want(right_of(tree));
    }
  }

  void sum_into(LeafRange tree, int to) {
    const int found = find(tree);
    if (found >= 0) {
      slots_[found].wanted = false;
      if (found == to) return;
      clear(to, found);
      ops_.push_back({.kind = LeafOp::Kind::kCopy, .from = found, .to = to});
    } else if (tree.count == 1) {
      clear(to);
      ops_.push_back({.kind = LeafOp::Kind::kCompute, .leaf = tree.first, .to = to});
    } else {
      // Either operand may be the destination: a + b has the same bits as b + a.
      LeafRange here = left_of(tree), other = right_of(tree);
      if (slots_[to].wanted && is_inside(slots_[to].holds, other)) std::swap(here, other);
      sum_into(here, to);
      slots_[to].busy = true;
      const int from = sum_somewhere(other);
      slots_[from].busy = false;
      ops_.push_back({.kind = LeafOp::Kind::kAdd, .from = from, .to = to});
    }
    slots_[to].holds = tree;
  }

  int sum_somewhere(LeafRange tree) {
    int slot = find(tree);
    if (slot < 0) slot = best_slot(tree);
    sum_into(tree, slot);
    return slot;
  }

  // Prefers a slot that holds a part of `tree`, then a slot without wanted contents, then the smallest loss.
  int best_slot(LeafRange tree) const {
    int best = -1, best_cost = 0;
    for (int slot = 0; slot < static_cast<int>(slots_.size()); ++slot) {
      const Slot& s = slots_[slot];
      if (s.busy) continue;
      const int cost = !s.wanted ? 0 : is_inside(s.holds, tree) ? -1 : s.holds.count;
      if (best < 0 || cost < best_cost) {
        best = slot;
        best_cost = cost;
      }
    }
    return best;
  }

  // Called before `slot` is overwritten. Moves its wanted contents to a free slot (not `source`, whose
  // contents are copied next). If there is no free slot, the contents are lost.
  void clear(int slot, int source = -1) {
    if (!std::exchange(slots_[slot].wanted, false)) return;
    for (int to = static_cast<int>(slots_.size()) - 1; to >= 0; --to) {
      if (to == slot || to == source || slots_[to].busy || slots_[to].wanted) continue;
      ops_.push_back({.kind = LeafOp::Kind::kCopy, .from = slot, .to = to});
      slots_[to].holds = slots_[slot].holds;
      slots_[to].wanted = true;
      return;
    }
  }

  int find(LeafRange tree) const {
    const auto at = std::ranges::find(slots_, tree, &Slot::holds);
    return at == slots_.end() ? -1 : static_cast<int>(at - slots_.begin());
  }

  static LeafRange left_of(LeafRange tree) { return {tree.first, tree.count / 2}; }
  static LeafRange right_of(LeafRange tree) { return {tree.first + tree.count / 2, tree.count / 2}; }

  const std::vector<LeafRange> trees_;
  std::vector<Slot> slots_;
  std::vector<LeafOp> ops_;
};

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

std::vector<LeafOp> leaf_ops(LeafRange range, const std::vector<LeafRange>& held) {
  return Summing(range, held).run();
}

int slots_needed(LeafRange range) {
  const std::vector<LeafRange> trees = subtrees_of(range);
  int slots = 0, finished = 0;
  for (const int i : summing_order(trees)) slots = std::max(slots, finished++ + levels(trees[i].count));
  return slots;
}

Shard shard_of(std::size_t floats, int ranks, int rank) {
  constexpr std::size_t kBlock = 16;  // floats: a cache line, so two owners never write to the same line
  const std::size_t blocks = (floats + kBlock - 1) / kBlock;
  const auto border = [&](std::size_t r) {
    return std::min(floats, blocks * r / static_cast<std::size_t>(ranks) * kBlock);
  };
  const std::size_t first = border(rank);
  return {first, border(rank + 1) - first};
}

}  // namespace rekindle::exchange
