// Who contributes which partial sum, in the tree's order; the same on every rank.
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
  std::vector<int> partials;                // by rank: how many it contributes
};

Layout make_layout(int leaves, int ranks);

// Is this a plan that can be carried out by an exchange at all?
Status check_plan(const Plan& plan);
// Decided from what every rank has alike, so all decide the same.
Backend choose_backend(const Plan& plan);
// XXH3 of the parts of a plan that must agree (not the secret, not the rank).
std::uint64_t plan_hash(const Plan& plan);

// Is this an all_gather among so many ranks?
Status check_copy(RankPieces pieces, const std::vector<bool>& receives, int ranks);
// XXH3 of the sizes and the receivers: finds ranks that disagree about what an all_gather carries to whom.
std::uint64_t copy_hash(RankPieces pieces, const std::vector<bool>& receives);
inline constexpr std::string_view kOtherCopy = "it copies other sizes, or to other ranks, than this rank";

}  // namespace rekindle::exchange
