// The comparisons of an audit: checkpoints, identities, circumstances.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.hpp"
#include "checkpoint/checkpoint.hpp"
#include "protocol/job.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

// The manifest of the checkpoint at `step`, after every byte was verified: an audit of a damaged checkpoint
// would prove nothing.
Result<checkpoint::Manifest> verified_manifest(const run::Layout& run, std::uint64_t step);

Result<nlohmann::json> identity_of(const checkpoint::Manifest& manifest);

// `here`: the source of the other identity, for the message.
Status check_identity(const protocol::Job& job, const nlohmann::json& identity, const char* here);
// An error also if the learning rate was changed between the two checkpoints.
Status check_same_run(const checkpoint::Manifest& from, const checkpoint::Manifest& to);

// The first difference: "rows 0 to 9 of classifier.0.weight".
std::string first_difference(const checkpoint::Contents& a, const checkpoint::Contents& b);

// A mismatch of the circumstances that may change the bits: another processor, another build. "": none.
std::string other_circumstances(const checkpoint::Manifest& then, const checkpoint::Manifest& now);

}  // namespace rekindle::app
