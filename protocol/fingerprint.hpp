// Fingerprints: JSON objects with everything that determines the bits of a trainer. Two trainers with equal
// fingerprints may train together. The name of the GPU may differ: two names may compute the same bits, which
// the numeric handshake shows, as it does for CPUs.
#pragma once

#include <string>

namespace rekindle::protocol {

// The key of the result of the numeric handshake: the hash of gradient and loss of micro-batch 0 of step 0.
// The other keys name known causes of different bits; this one is computed from the bits.
inline constexpr const char* kFirstGradient = "first_gradient";

// The key of the name of the GPU.
inline constexpr const char* kGpu = "gpu";

// The fingerprint without the name of the GPU: equal for trainers that may train together.
std::string bits_of(const std::string& fingerprint);

// Whether two fingerprints are equal except for that hash and the name of the GPU.
bool same_but_first_gradient(const std::string& a, const std::string& b);

// Whether both have that hash, and the hashes differ.
bool other_first_gradient(const std::string& a, const std::string& b);

// The differences, for messages: "build 2 (not 1), threads 8 (not 4)".
std::string differences(const std::string& one, const std::string& other);

}  // namespace rekindle::protocol
