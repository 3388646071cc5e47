// An attacker on the network between two ranks: forwards all bytes, and changes one frame.
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
  kRepeat,  // sends the frame twice
  kDrop,
  kSwap,  // exchanges the frame with the next frame
};

struct Tamper {
  Tampering what = Tampering::kNone;
  bool of_the_dialer = true;  // tampers with the dialer's frames, or with the frames to the dialer
  int frame = 0;              // number of the frame in that direction, from 0
};

// Accepts one connection, connects to `target`, and returns when both connections have ended. `integrity`:
// whether frames have tags.
void relay(const Listener& listener, const Endpoint& target, bool integrity, const Tamper& tamper);

}  // namespace rekindle::exchange::testing
