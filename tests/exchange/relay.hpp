// Somebody on the network between two ranks: passes everything on, and changes one frame.
#pragma once

#include <string>

#include "cluster.hpp"
#include "exchange/socket.hpp"

namespace rekindle::exchange::testing {

enum class Tampering {
  kNone,
  kFlipHead,  // one bit
  kFlipHeadTag,
  kFlipPayload,
  kFlipPayloadTag,
  kRepeat,  // the frame comes twice
  kDrop,
  kSwap,  // with the one that follows
};

struct Tamper {
  Tampering what = Tampering::kNone;
  bool of_the_dialer = true;  // in what it sends, or in what it is sent
  int frame = 0;              // which of that direction, from 0
};

// Takes one connection, makes one to `target`, and returns when both have ended. `integrity`: whether frames
// have tags.
void relay(const Listener& listener, const Endpoint& target, bool integrity, const Tamper& tamper);

}  // namespace rekindle::exchange::testing
