// Finds settings that would make a requeue fail silently, for warnings at the start of the job. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "slurm/commands.hpp"

namespace rekindle::slurm {

// The options of a batch script that affect a requeue. nullopt: not set in the #SBATCH lines.
struct ScriptOptions {
  std::optional<std::string> signal;     // B:USR1@60
  std::optional<std::string> open_mode;  // append or truncate
  bool no_requeue = false;
};
ScriptOptions parse_script(const std::string& script);

// How many seconds before the time limit Slurm sends SIGUSR1 to the batch script. `wrong`: the reason why
// this signal would not arrive; empty if it would. Source: sbatch(1), --signal.
struct SignalLead {
  std::uint64_t seconds = 0;
  std::string wrong;
};
SignalLead parse_signal(const std::string& value);

struct Preflight {
  std::map<std::string, std::string> config;  // slurm.conf; empty: unknown
  std::optional<JobFacts> job;
  std::optional<std::string> script;
  bool has_time_limit = true;
  bool heterogeneous = false;  // the job has several components (sbatch(1), heterogeneous jobs)
  std::optional<std::uint64_t> seconds_left;  // of the job's time
  std::uint64_t least_cpus = 0;               // the minimum over the nodes; 0: unknown
  std::vector<std::uint64_t> tasks;           // of each node, if the job asked for tasks
  std::uint64_t trainers_per_node = 1, threads = 1;
  // How many more trainers could work on CPUs; 0 on GPUs.
  std::uint64_t idle_micro_batches = 0;
  // The GPUs that the batch script has although the job asked for none; 0 if the run trains on CPUs.
  std::uint64_t gpus_not_asked_for = 0;
  std::uint64_t lead_seconds = 0;  // time that a stop needs
  std::string parent;  // name of the process that gets the batch script's signals; empty: rekindle itself
};

// One line for each problem.
std::vector<std::string> preflight(const Preflight& known);

// Seconds to write the state at `bytes_per_second`, with a margin; at least 30.
std::uint64_t signal_lead(std::uint64_t state_bytes, double bytes_per_second);

}  // namespace rekindle::slurm
