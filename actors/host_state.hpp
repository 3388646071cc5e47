// What the coordinator's actor remembers between messages, besides the state machine.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/process.hpp"
#include "protocol/events.hpp"

namespace rekindle::actors {

using protocol::GenerationId;

// One secret for each generation, which only its members receive.
struct Secret {
  GenerationId of;
  std::string text;

  const std::string& for_generation(const GenerationId& generation) {
    if (of != generation) {
      of = generation;
      text = random_hex(32);
    }
    return text;
  }
};

// Events that wait until the newest term was read.
struct HeldEvents {
  std::chrono::milliseconds last_event = boot_time();
  std::vector<protocol::Event> events;
};

// `rekindle stop`, as a file in the run directory, and the end of the run.
struct StopState {
  bool seen = false;
  bool being_read = false;
  bool ending_sent = false;  // the supervisor knows how the run ends
};

}  // namespace rekindle::actors
