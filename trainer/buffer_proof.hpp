// How micro-batches show that they agree about a buffer that has no mean (a count of integers, say): each
// writes a proof of the value, a few small whole numbers, in place of a gradient. The sum of the proofs shows
// whether all of them were equal.
//
// A proof is the hash of the value in 8 parts of 6 bits, and the squares of the parts. The sum of n equal
// numbers x satisfies n * sum(x * x) = sum(x)^2, and no other n numbers do (Cauchy and Schwarz). All numbers
// are exact in a float up to 4096 micro-batches: 64 * 64 * 4096 = 2^24.
#pragma once

#include <cstddef>
#include <span>

namespace rekindle::trainer {

inline constexpr std::size_t kProofFloats = 16;

void write_proof(std::span<const std::byte> value, std::span<float, kProofFloats> to);

// `sum`: of the proofs of `count` micro-batches.
bool all_agree(std::span<const float, kProofFloats> sum, std::size_t count);

}  // namespace rekindle::trainer
