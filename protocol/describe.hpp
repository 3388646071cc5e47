// Events and messages as text, one line each, for the transcripts in docs/protocol.md and of the simulator;
// and metrics for people.
#pragma once

#include <string>

#include "protocol/coordinator.hpp"
#include "protocol/messages.hpp"

namespace rekindle::protocol {

std::string describe(const ToTrainer& message);
std::string describe(const FromTrainer& message);
std::string describe(const Registration& registration);
std::string describe(const Event& event);  // empty for ticks and heartbeats

// "accuracy 91.25 %", "top5 99 %", "perplexity 7.413".
std::string metric_text(const std::string& name, double value);

}  // namespace rekindle::protocol
