// Which rank contributes which partial sum, in the tree's order. The layout is the same on every rank.
#pragma once

#include <string_view>
#include <vector>

#include "exchange/exchange.hpp"

namespace rekindle::exchange {

struct Contribution {
  int rank = 0, slot = 0;
};

struct Layout {
  std::vector<LeafRange> subtrees;          // of all ranks, in leaf order
  std::vector<Contribution> contributions;  // where the partial sum of subtrees[i] is
  std::vector<int> partials;                // by rank: number of partial sums that the rank contributes
};

Layout make_layout(int leaves, int ranks);

// Fails if an exchange cannot carry out this plan.
Status check_plan(const Plan& plan);
// Uses only parts of the plan that are equal on every rank, so all ranks choose the same backend.
Backend choose_backend(const Plan& plan);
// XXH3 of the parts of a plan that must agree (not the secret, not the rank).
std::uint64_t plan_hash(const Plan& plan);

// Fails if `pieces` and `receives` do not have one element for each of `ranks` ranks.
Status check_copy(RankPieces pieces, const std::vector<bool>& receives, int ranks);
// XXH3 of the sizes and the receivers. Detects ranks that disagree about an all_gather.
std::uint64_t copy_hash(RankPieces pieces, const std::vector<bool>& receives);
inline constexpr std::string_view kOtherCopy =
    "the sizes or the receiving ranks of its copy differ from this rank's";

}  // namespace rekindle::exchange
