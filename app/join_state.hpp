// Queries of `rekindle join`: to the run directory, and to Slurm about its own job.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "protocol/job.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

// The interface on which this machine's trainers listen: the run's interface, if this machine has an
// interface of that name, else the address on the route to the run's coordinator. Of a run without an
// interface: empty if its coordinator is on loopback, else that address.
std::string interface_for(const run::Layout& layout, const protocol::Job& job);

// An error if the run listens on the loopback address of another machine or container: this one's own address
// would be dialled, in vain.
Status check_reachable(const run::Layout& layout);

// The error if the run goes on, but no worker of this machine could connect to its coordinator.
tl::unexpected<Error> unreachable(const run::Layout& layout);

// If this process's Slurm job is at its time limit or is preempted (SIGUSR1), the job is requeued, so that it
// helps again later. Outside of a job, does nothing.
void come_back(int signal);

// Waits for the first attempt of a run that has not begun, for at most `patience`, and says so. Returns at
// once if `run_dir` is the directory of a run, or cannot become one: a file, or a folder of runs. Ends this
// process at a signal.
void await_run(const std::filesystem::path& run_dir, std::chrono::milliseconds patience);

// The newest term, if that term has ended in an orderly way; else 0.
std::uint64_t newest_ended(const run::Layout& layout);

// The end of the newest attempt, as a helper sees it that waits for the next one.
struct LastEnd {
  std::string config;      // which run.toml is there: each attempt writes it anew
  std::uint64_t term = 0;  // a later one is that of another attempt; 0: there is nothing to wait for
};
LastEnd last_end(const run::Layout& layout);

struct Awaited {
  bool came = false;  // the next attempt has begun, and its run.toml is there
  int signal = 0;     // what ended the wait; 0: none
};
// Waits for the attempt after `last`, for at most `patience`. `signals`: a descriptor of take_signals().
Awaited await_attempt(const run::Layout& layout, const LastEnd& last, std::chrono::milliseconds patience,
                      int signals);

// The trainers of these workers in a status (run::read_status()).
struct InRun {
  bool any = false;
  std::size_t with_rank = 0;  // without spares
};
InRun in_run(const nlohmann::json& status, const std::vector<std::string>& workers);

// Whether another attempt will follow the attempt of these workers, which has ended: the run is a Slurm job
// that was not stopped by `rekindle stop`. `ended`: the newest term that had ended before.
bool will_be_back(const run::Layout& layout, std::uint64_t ended);

}  // namespace rekindle::app
