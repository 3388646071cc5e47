// Fingerprints: JSON objects with everything that determines the bits of a trainer. Two trainers with equal
// fingerprints may train together.
#pragma once

#include <string>

namespace rekindle::protocol {

// The key of the result of the numeric handshake: the hash of gradient and loss of micro-batch 0 of step 0.
// The other keys name known causes of different bits; this one is computed from the bits.
inline constexpr const char* kFirstGradient = "first_gradient";

// Whether two fingerprints are equal except for that hash.
bool same_but_first_gradient(const std::string& a, const std::string& b);

// Whether both have that hash, and the hashes differ.
bool other_first_gradient(const std::string& a, const std::string& b);

// The differences, for messages: "build 2 (not 1), threads 8 (not 4)".
std::string differences(const std::string& one, const std::string& other);

}  // namespace rekindle::protocol
