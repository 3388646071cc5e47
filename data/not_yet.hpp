// Waits for samples that end before the samples are there.
#pragma once

#include <chrono>
#include <string>

#include "base/result.hpp"
#include "base/text.hpp"

namespace rekindle::data {

inline constexpr std::chrono::hours kNoLimit{24 * 365};  // of such a wait

// `samples`: the name of the samples in a message.
inline tl::unexpected<Error> not_read_yet(const std::string& samples) {
  return forward_error({ExitCode::kConfig, str(samples, " are not read yet"),
                        "does the storage of --data answer?", ErrorKind::kNotYet});
}

}  // namespace rekindle::data
