// Fingerprints: JSON objects with everything that determines the bits of a trainer. Two trainers with equal
// fingerprints may train together. The name of the GPU may differ: two names may compute the same bits, which
// the numeric handshake shows, as it does for CPUs.
#pragma once

#include <string>

namespace rekindle::protocol {

// The keys of the results of the numeric handshake: the hash of gradient and loss of micro-batch 0 of step 0,
// and that of the initial parameters and buffers. The other keys name known causes of different bits; these
// are computed from the bits. Fingerprints of earlier builds lack the second one.
inline constexpr const char* kFirstGradient = "first_gradient";
inline constexpr const char* kInitialValues = "initial_values";

// The key of the name of the GPU.
inline constexpr const char* kGpu = "gpu";

// The fingerprint without the name of the GPU: equal for trainers that may train together.
std::string bits_of(const std::string& fingerprint);

// The fingerprint without the hash of the initial values: nothing depends on them any more where a run goes
// on from a checkpoint.
std::string without_initial_values(const std::string& fingerprint);

// Whether two fingerprints are equal except for these results and the name of the GPU.
bool same_but_first_gradient(const std::string& a, const std::string& b);

// Whether both have a result of the handshake that is not the same in both.
bool other_first_gradient(const std::string& a, const std::string& b);

// The differences, for messages: "build 2 (not 1), threads 8 (not 4)".
std::string differences(const std::string& one, const std::string& other);

// What wrote a checkpoint with another fingerprint, for messages. The data of a script have no hash, so they
// may be others if the first micro-batch has another result.
std::string writer_of(bool of_script, const std::string& then, const std::string& now);

}  // namespace rekindle::protocol
