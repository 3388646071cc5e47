// Fingerprints: JSON objects that say what makes a trainer's bits. Two trainers of equal fingerprints may
// train together.
#pragma once

#include <string>

namespace rekindle::protocol {

// The key of the numeric handshake's result: the hash of the gradient and loss of micro-batch 0 of step 0.
// The other keys name reasons for other bits; this one is the bits.
inline constexpr const char* kFirstGradient = "first_gradient";

// Whether two fingerprints differ in nothing but that hash.
bool same_but_first_gradient(const std::string& a, const std::string& b);

// Whether both have that hash, and it differs.
bool other_first_gradient(const std::string& a, const std::string& b);

// What of `one` differs from `other`, in words: "build 2 (not 1), threads 8 (not 4)".
std::string differences(const std::string& one, const std::string& other);

}  // namespace rekindle::protocol
