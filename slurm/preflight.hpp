// What would make a requeue fail silently, said before it does. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "slurm/commands.hpp"

namespace rekindle::slurm {

// Options of a batch script that matter here; nullopt: its #SBATCH lines do not say.
struct ScriptOptions {
  std::optional<std::string> signal;     // B:USR1@60
  std::optional<std::string> open_mode;  // append or truncate
  bool no_requeue = false;
};
ScriptOptions parse_script(const std::string& script);

// The seconds before the time limit at which the batch script's SIGUSR1 is due; an error line if that signal
// would not come, or another. Source: sbatch(1), --signal.
struct SignalLead {
  std::uint64_t seconds = 0;
  std::string wrong;
};
SignalLead parse_signal(const std::string& value);

struct Preflight {
  std::map<std::string, std::string> config;  // slurm.conf; empty: not known
  std::optional<JobFacts> job;
  std::optional<std::string> script;
  bool has_time_limit = true;
  std::optional<std::uint64_t> seconds_left;  // of the job's time
  std::uint64_t least_cpus = 0;               // of any node; 0: not known
  std::uint64_t trainers_per_node = 1, threads = 1;
  std::uint64_t lead_seconds = 0;  // that a stop needs
  std::string parent;  // The process that gets the batch script's signals; empty: rekindle itself.
};

// One line for each thing that is not as it should be.
std::vector<std::string> preflight(const Preflight& known);

// Seconds that the state's writing needs at `bytes_per_second`, with a margin; at least 30.
std::uint64_t signal_lead(std::uint64_t state_bytes, double bytes_per_second);

}  // namespace rekindle::slurm
