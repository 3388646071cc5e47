// Events and messages in words, one line each: for the transcripts of docs/protocol.md and of the simulator.
#pragma once

#include <string>

#include "protocol/coordinator.hpp"
#include "protocol/messages.hpp"

namespace rekindle::protocol {

std::string describe(const ToTrainer& message);
std::string describe(const FromTrainer& message);
std::string describe(const Registration& registration);
std::string describe(const Event& event);  // empty: a tick, or beats

}  // namespace rekindle::protocol
