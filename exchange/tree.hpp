// The fixed balanced binary tree over leaf numbers: which rank computes which leaves, the order in which
// gradients are added, and which rank owns which shard. All functions are pure functions of (V leaves, W
// ranks), and the value at the root does not depend on W.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rekindle::exchange {

struct LeafRange {
  int first = 0, count = 0;  // leaves [first, first + count)
  friend bool operator==(const LeafRange&, const LeafRange&) = default;
};

// Rank r of W computes leaves [floor(r*V/W), floor((r+1)*V/W)). Needs 1 <= W <= V, V a power of two.
LeafRange leaves_of(int leaves, int ranks, int rank);

// The maximal aligned subtrees inside a range, in leaf order: the partial sums that a rank contributes.
std::vector<LeafRange> subtrees_of(LeafRange range);

// A rank's own part of a step: computes leaves and adds partial sums, with as few gradient slots as possible.
// Partial sum i of subtrees_of() ends in slot i.
struct LeafOp {
  enum class Kind { kCompute, kAdd, kCopy } kind;
  int leaf = 0;          // kCompute: the leaf whose gradient goes to slot `to`
  int from = 0, to = 0;  // kAdd: slot `to` = slot `to` + slot `from`; kCopy: slot `to` = slot `from`
};
// `held`: by slot, the subtree whose sum the slot already holds (count 0: none). Usable sums are not computed
// again. Works in slots [0, max(slots_needed(range), held.size())).
std::vector<LeafOp> leaf_ops(LeafRange range, const std::vector<LeafRange>& held = {});
int slots_needed(LeafRange range);

// Shard `rank` of an arena of `floats`, borders at multiples of 16 floats.
struct Shard {
  std::size_t first = 0, count = 0;
};
Shard shard_of(std::size_t floats, int ranks, int rank);

// Finishes the tree for `count` elements. partials[i] points to the elements of the i-th subtree. The
// subtrees of all ranks, in leaf order, must cover [0, leaves) exactly. `out` may be one of the partials.
// Uses plain float additions, (lower leaves) + (higher leaves), never contracted.
void finish_tree(int leaves, const std::vector<LeafRange>& subtrees,
                 const std::vector<const float*>& partials, float* out, std::size_t count);

void add_into(float* to, const float* from, std::size_t count);  // to[i] = to[i] + from[i]

}  // namespace rekindle::exchange
