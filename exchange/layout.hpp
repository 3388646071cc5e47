// Who contributes which partial sum, in the tree's order; the same on every rank.
#pragma once

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

// XXH3 of the sizes: finds ranks that disagree about what an all_gather carries.
std::uint64_t sizes_hash(std::span<const std::vector<std::span<std::byte>>> pieces);

}  // namespace rekindle::exchange
