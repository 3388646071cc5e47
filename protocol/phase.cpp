#include "protocol/phase.hpp"

#include "base/invariant.hpp"

namespace rekindle::protocol {

const char* to_text(Phase phase) {
  switch (phase) {
    case Phase::kGathering:
      return "gathering";
    case Phase::kAdopting:
      return "adopting";
    case Phase::kRunning:
      return "running";
    case Phase::kPausing:
      return "pausing";
    case Phase::kQuitting:
      return "quitting";
    case Phase::kEnded:
      return "ended";
  }
  return "";
}

void RunPhase::check() const {
  invariant(now() != Phase::kGathering || !adopting(), "a generation waits to be adopted");
  invariant(now() != Phase::kRunning || running(), "a broken generation goes on");
}

}  // namespace rekindle::protocol
