// Asks who listens at a coordinator's address. Another run, or any other program, may have the address and
// the port after the coordinator has died.
#pragma once

#include <chrono>

#include "run/layout.hpp"
#include "run/place.hpp"

namespace rekindle::actors {

// Whether the coordinator of `place` may be alive. Connects, which takes at most 2 s, and makes a TLS
// handshake.
//
// False if no process listens there, or if the listener closes the connection, does not speak TLS, or shows
// another certificate than that of `place`. True if the listener says nothing within `answer`: for a
// suspended coordinator the kernel accepts the connection. If the certificate of `place` is unknown, every
// listener counts.
//
// The handshake uses the key pair of `layout`, if it can be read: then the coordinator logs no unknown peer.
bool may_be_coordinator(const run::CoordinatorPlace& place, const run::Layout& layout,
                        std::chrono::milliseconds answer = std::chrono::seconds(1));

}  // namespace rekindle::actors
