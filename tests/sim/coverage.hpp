// Which pairs of (state, event) were reached.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/coordinator.hpp"
#include "protocol/worker.hpp"

namespace rekindle::sim {

class Coverage {
 public:
  static constexpr std::size_t kPhases = 6, kEvents = 18, kWorkerStates = 4, kWorkerEvents = 11;

  void coordinator(protocol::Phase phase, const protocol::Event& event);
  void worker(int state, std::size_t event) { ++worker_[static_cast<std::size_t>(state)][event]; }

  struct Summary {
    std::size_t possible = 0, reached = 0;
    std::string table, missing;
  };
  Summary coordinator_summary() const;
  Summary worker_summary() const;

 private:
  std::array<std::array<std::uint64_t, kEvents>, kPhases> coordinator_{};
  std::array<std::array<std::uint64_t, kWorkerEvents>, kWorkerStates> worker_{};
};

}  // namespace rekindle::sim
