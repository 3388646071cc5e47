// The run's key pair: whoever can read it belongs to the run, nobody else gets past the handshake.
#pragma once

#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::actors {

// Makes key/ (0700) with a P-256 key (0600) and a self-signed certificate that is valid from a day ago (clock
// skew between nodes does no harm), unless they are there. Losing a race against another creator is fine.
// A file that is empty or damaged is made again from the others; where that cannot be, ExitCode::kConfig.
Status ensure_keys(const run::Layout& layout);

// Reads the pair, so that no later connection of this process needs the files (openssl_calls.cpp).
Status remember_keys(const run::Layout& layout);

}  // namespace rekindle::actors
