// The supervisor: handles signals, starts the coordinator and the workers, prints for the user. No CAF, no
// torch.
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

// How this process takes over a run whose supervisor has died.
struct TakeOver {
  std::uint64_t term = 0;                     // of the coordinator that was lost with its supervisor
  std::uint64_t attempt = 1;                  // the attempt that this process continues
  std::chrono::milliseconds patience{30000};  // time limit for a silent coordinator on another host
  std::chrono::milliseconds within{600000};   // time limit for a new coordinator to start
  std::optional<protocol::StopRun> stop;      // a request that is sent to the new coordinator at once
  std::string announcement;                   // printed after the take-over
};
struct TakenOver {
  std::optional<int> exit_code;  // nullopt: another process holds the run, and the workers are unchanged
  int signal = 0;                // the first signal during the take-over; 0: none
};
// Starts a coordinator for the run and supervises the coordinator and `workers` until the run ends.
Result<TakenOver> take_over(Site& site, const LocalOptions& options, Workers& workers, const TakeOver& how);

}  // namespace rekindle::app
