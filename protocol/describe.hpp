// Events and messages as text, one line each, for the transcripts in docs/protocol.md and of the simulator.
#pragma once

#include <string>

#include "protocol/coordinator.hpp"
#include "protocol/messages.hpp"

namespace rekindle::protocol {

std::string describe(const ToTrainer& message);
std::string describe(const FromTrainer& message);
std::string describe(const Registration& registration);
std::string describe(const Event& event);  // empty for ticks and heartbeats

}  // namespace rekindle::protocol
