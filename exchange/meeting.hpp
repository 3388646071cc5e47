// The beginning of a tcp generation: every rank ends up with one authenticated connection to every other
// rank. Rank r dials the ranks below it and accepts those above.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/strangers.hpp"
#include "exchange/connection.hpp"
#include "exchange/exchange.hpp"
#include "exchange/socket.hpp"
#include "exchange/waiting.hpp"

namespace rekindle::exchange {

// A connection whose hello names a newer generation than ours; it waits for our own plan. (Most wait in the
// listener's queue: this holds those that arrive while an older generation is still meeting.)
struct HeldHello {
  Fd fd;
  std::string hello;
};

struct Door {
  Listener listener;
  std::vector<HeldHello> held;
  StrangerLog strangers;
};

// Connections by rank (empty for one's own). A peer that is a member and differs in Plan::integrity is an
// error. Strangers, wrong secrets and half-open connections are dropped and
// do not delay the others. `wake` becomes readable when `aborted` has become true. `waiting` tells the lowest
// rank that is missing.
Result<std::vector<Connection>> meet_members(const Plan& plan, Door& door, int wake,
                                             const std::function<bool()>& aborted, WaitingFor& waiting);

}  // namespace rekindle::exchange
