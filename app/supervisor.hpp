// The supervisor: owns signals, starts coordinator and workers, tells the person. No CAF, no torch.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "app/initial_state.hpp"
#include "app/options.hpp"
#include "app/site.hpp"
#include "app/workers.hpp"
#include "base/result.hpp"
#include "protocol/messages.hpp"

namespace rekindle::app {

// Runs a job on this machine until it ends; the exit code. `options` has been prepared.
int run_local(const LocalOptions& options, InitialState initial);
// The same at another site.
int run_at(Site& site, const LocalOptions& options, InitialState initial);

// How a run whose supervisor has died goes on under this process.
struct TakeOver {
  std::uint64_t term = 0;                     // of the coordinator that was lost with its supervisor
  std::uint64_t attempt = 1;                  // of the run, that goes on
  std::chrono::milliseconds patience{30000};  // with a silent coordinator on another host
  std::chrono::milliseconds within{600000};   // for a coordinator to come up
  std::optional<protocol::StopRun> stop;      // to be asked of the run at once
  std::string announcement;                   // to be said when the run has been taken over
};
struct TakenOver {
  std::optional<int> exit_code;  // nullopt: another process holds the run, and the workers are as they were
  int signal = 0;                // the first that came meanwhile; 0: none
};
// Starts a coordinator for the run and supervises it, and `workers`, until the run ends.
Result<TakenOver> take_over(Site& site, const LocalOptions& options, Workers& workers, const TakeOver& how);

}  // namespace rekindle::app
