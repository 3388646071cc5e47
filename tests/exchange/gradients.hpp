// Gradients to add, and what they must add up to: the oracle is a plain recursion over leaf numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "exchange/exchange.hpp"

namespace rekindle::exchange::testing {

// Wild exponents: any other order of additions gives other bits.
void fill_gradient(std::uint64_t step, int leaf, std::span<float> to);

std::vector<float> reference_sum(std::uint64_t step, LeafRange tree, std::size_t floats);
Hash128 hash_floats(std::span<const float> floats);
Hash128 reference_hash(std::uint64_t step, int leaves, std::size_t floats);

// One step of a rank as the step loop does it; the hash of all the sums.
Result<Hash128> run_step(Hub& hub, Exchange& exchange, const Plan& plan, std::uint64_t step);
// Its part before the exchange.
Status compute_partials(Hub& hub, const Plan& plan, std::uint64_t step);

}  // namespace rekindle::exchange::testing
