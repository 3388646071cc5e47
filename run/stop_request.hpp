// The request of `rekindle stop`, which waits in stop.json.
#pragma once

#include <string>

#include "run/layout.hpp"

namespace rekindle::run {

// Removes a request that an attempt must not obey: that with the text `old`, which was made for an older
// attempt, and a file that is no request (too long, or not a regular file), which would stop every attempt. A
// file that cannot be read now, as after EIO, stays: it may be a request for this attempt.
void forget_stop_request(const Layout& layout, const std::string& old);

}  // namespace rekindle::run
