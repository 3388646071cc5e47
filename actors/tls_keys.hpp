// The run's key pair. A process that can read the pair belongs to the run; the handshake rejects all others.
// Each attempt makes a new pair, so that a key of an earlier attempt, which may have leaked, is useless.
#pragma once

#include "actors/key_pair.hpp"
#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::actors {

// Makes key/ (0700) and in it run.pem (0600): a self-signed certificate that is valid from a day ago (to
// tolerate clock skew between nodes), and its P-256 key. An existing pair is replaced.
Status renew_keys(const run::Layout& layout);

// The same if the pair is missing or damaged, for a coordinator that continues an attempt. Workers read the
// pair again before each connection.
Status ensure_keys(const run::Layout& layout);

// Reads the pair; by default for all later connections of this process, which then need no file
// (openssl_calls.cpp).
Status load_keys(const run::Layout& layout, KeyPair& into = KeyPair::current());

}  // namespace rekindle::actors
