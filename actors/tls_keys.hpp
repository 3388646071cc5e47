// The run's key pair: who can read it belongs to the run, and nobody else gets past the handshake. Each
// attempt has a new one, so that a key from an earlier attempt, which another user may know, opens nothing.
#pragma once

#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::actors {

// Makes key/ (0700) and in it run.pem (0600): a self-signed certificate that is valid from a day ago (clock
// skew between nodes does no harm), and its P-256 key. What was there is replaced.
Status renew_keys(const run::Layout& layout);

// The same if the pair is missing or damaged. For a coordinator that goes on with an attempt: workers read
// the pair again before each connection.
Status ensure_keys(const run::Layout& layout);

// Reads the pair for all later connections of this process, which need no file then (openssl_calls.cpp).
Status load_keys(const run::Layout& layout);

}  // namespace rekindle::actors
