// The start of a tcp generation: connects every pair of ranks with one authenticated connection. Rank r dials
// the ranks below it and accepts connections from the ranks above.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/refused_peers.hpp"
#include "exchange/connection.hpp"
#include "exchange/exchange.hpp"
#include "exchange/socket.hpp"
#include "exchange/waiting.hpp"

namespace rekindle::exchange {

// A connection whose hello names a newer generation than ours, kept until this trainer gets that plan. (Most
// such connections wait in the listener's queue; these arrived while an older generation was connecting.)
struct HeldHello {
  Fd fd;
  std::string hello;
};

struct Acceptor {
  Listener listener;
  std::vector<HeldHello> held;
  RefusedPeerLog unauthenticated;
};

// Connections by rank (empty for this rank). If an authenticated member has another Plan::integrity, that is
// an error. Unauthenticated peers (garbage, wrong secret, half-open connections) are dropped and do not delay
// the members. `wake` becomes readable when `aborted` becomes true. `waiting` reports the lowest missing
// rank.
Result<std::vector<Connection>> meet_members(const Plan& plan, Acceptor& acceptor, int wake,
                                             const std::function<bool()>& aborted, WaitingFor& waiting);

}  // namespace rekindle::exchange
