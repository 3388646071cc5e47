// Gradients and their expected sums: the oracle is a plain recursion over micro-batch numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "exchange/exchange.hpp"

namespace rekindle::exchange::testing {

// Very different exponents, so that any other order of additions gives other bits.
void fill_gradient(std::uint64_t step, int leaf, std::span<float> to);

std::vector<float> reference_sum(std::uint64_t step, LeafRange tree, std::size_t floats);
Hash128 hash_floats(std::span<const float> floats);
Hash128 reference_hash(std::uint64_t step, int leaves, std::size_t floats);

// A step of a rank as in the step loop. Returns the hash of all sums.
Result<Hash128> run_step(Hub& hub, Exchange& exchange, const Plan& plan, std::uint64_t step);
// The part of run_step() before the exchange.
Status compute_partials(Hub& hub, const Plan& plan, std::uint64_t step);

}  // namespace rekindle::exchange::testing
