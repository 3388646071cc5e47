// A thread of the worker process that looks for coordinators and connects to them. Both may block for a long
// time, on storage and on the network.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "actors/interfaces.hpp"
#include "actors/system.hpp"
#include "run/layout.hpp"
#include "run/place.hpp"

namespace rekindle::actors {

class CoordinatorFinder {
 public:
  struct Listener {
    std::function<void(std::uint64_t term)> seen;
    std::function<void(std::uint64_t term, CoordinatorActor coordinator)> connected;
    std::function<void(std::uint64_t term)> failed;
  };
  CoordinatorFinder(caf::actor_system& system, run::Layout layout, Listener listener);
  void start();

  // From any thread: connects to the coordinator of that term as soon as its address is in coordinator.json.
  void connect(std::uint64_t term) { wanted_ = term; }
  void set_connected(bool connected) { connected_ = connected; }

 private:
  // An address that does not accept connections.
  struct Unanswered {
    std::uint64_t term = 0;
    std::chrono::milliseconds since{0};  // boot_time()
    bool warned = false;
  };
  void look();
  void try_connect(const run::CoordinatorPlace& place);
  void note_silence(const run::CoordinatorPlace& place);

  caf::actor_system& system_;
  const run::Layout layout_;
  const Listener listener_;
  std::atomic<std::uint64_t> wanted_ = 0;  // 0: none
  std::atomic<bool> connected_ = false;
  // The rest is used by the finder's thread only.
  Unanswered unanswered_;
  bool keys_warned_ = false;
};

}  // namespace rekindle::actors
