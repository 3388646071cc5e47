// The supervisor: owns signals, starts coordinator and workers, tells the person. No CAF, no torch.
#pragma once

#include "app/initial_state.hpp"
#include "app/options.hpp"
#include "app/site.hpp"

namespace rekindle::app {

// Runs a job on this machine until it ends; the exit code. `options` has been prepared.
int run_local(const LocalOptions& options, InitialState initial);
// The same at another site.
int run_at(Site& site, const LocalOptions& options, InitialState initial);

}  // namespace rekindle::app
