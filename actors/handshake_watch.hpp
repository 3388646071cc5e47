// Connections that the coordinator has accepted and that have not yet proved by their certificate that they
// belong to the run: how many, for how long, and what is said about those that fail. CAF 0.17 has no limits
// of its own, and a coordinator without file descriptors could neither take workers nor commit checkpoints.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "base/strangers.hpp"

namespace rekindle::actors {

class HandshakeWatch {
 public:
  // A handshake step on an accepted connection.
  void began(const void* connection, int fd);
  // Its failure is logged.
  void failed(const void* connection, const std::string& why);
  // It is over, or the connection is closed.
  void ended(const void* connection);
  // Hangs up on those that take too long; looks once a second at most.
  void sweep();

 private:
  using Time = std::chrono::milliseconds;
  struct Pending {
    int fd = -1;
    Time since{0};
    std::string from;
    bool told = false;  // it is hung up on, and that was logged
  };
  void hang_up(Pending& pending, const std::string& why);
  void turn_away(Pending& pending, const std::string& why);

  std::mutex mutex_;
  std::map<const void*, Pending> pending_;  // guarded by mutex_, as all below
  Time swept_{0};
  StrangerLog strangers_{"the control port"};
};

}  // namespace rekindle::actors
