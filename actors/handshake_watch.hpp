// Limits the accepted connections of the coordinator that are not authenticated yet: their number, their age,
// and the log lines about failures. CAF 0.17 has no such limits, and a coordinator without free file
// descriptors could neither accept workers nor commit checkpoints.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "base/refused_peers.hpp"

namespace rekindle::actors {

class HandshakeWatch {
 public:
  // A handshake step on an accepted connection.
  void began(const void* connection, int fd);
  // The handshake failed: log the reason.
  void failed(const void* connection, const std::string& why);
  // The handshake succeeded, or the connection is closed.
  void ended(const void* connection);
  // Disconnects peers whose handshake takes too long; checks once a second at most.
  void sweep();

 private:
  using Time = std::chrono::milliseconds;
  struct Pending {
    int fd = -1;
    Time since{0};
    std::string from;
    bool logged = false;  // the rejection of this peer was logged
  };
  void disconnect(Pending& pending, const std::string& why);
  void reject(Pending& pending, const std::string& why);

  std::mutex mutex_;
  std::map<const void*, Pending> pending_;  // guarded by mutex_, like all fields below
  Time swept_{0};
  RefusedPeerLog unauthenticated_{"the control port"};
};

}  // namespace rekindle::actors
