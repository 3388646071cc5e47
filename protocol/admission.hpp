// Which workers may take part in a run.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/messages.hpp"

namespace rekindle::protocol {

// Why the coordinator refuses a worker; empty: the worker may take part. `build` and `directory_inode` (0:
// unknown) are the coordinator's.
std::string refusal_of(const Registration& worker, const std::string& build, std::uint64_t directory_inode);

}  // namespace rekindle::protocol
