// Queries of `rekindle join`: to the run directory, and to Slurm about its own job.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "protocol/job.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

// The interface on which this machine's trainers listen: the run's interface, if this machine has an
// interface of that name, else the interface on the route to the run's coordinator.
std::string interface_for(const run::Layout& layout, const protocol::Job& job);

// An error if the run listens on the loopback address of another machine or container: this one's own address
// would be dialled, in vain.
Status check_reachable(const run::Layout& layout);

// The error if the run goes on, but no worker of this machine could connect to its coordinator.
Error unreachable(const run::Layout& layout);

// If this process's Slurm job is at its time limit or is preempted (SIGUSR1), the job is requeued, so that it
// helps again later. Outside of a job, does nothing.
void come_back(int signal);

// The newest term, if that term has ended in an orderly way; else 0.
std::uint64_t newest_ended(const run::Layout& layout);

// Whether another attempt will follow the attempt of these workers, which has ended: the run is a Slurm job
// that was not stopped by `rekindle stop`. `ended`: the newest term that had ended before.
bool will_be_back(const run::Layout& layout, std::uint64_t ended);

}  // namespace rekindle::app
