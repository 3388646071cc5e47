// The Slurm job that this process is the batch script of: what it adds to a run's options.
#pragma once

#include <chrono>
#include <string>

#include "app/options.hpp"
#include "slurm/environment.hpp"

namespace rekindle::app {

enum class OnLimit { kRequeue, kExit };

struct SlurmOptions {
  std::string on_limit = "requeue";  // or "exit": saved, and somebody submits it again
  std::string requeue_within = "5min";
};

// What the job's nodes add to `options`: trainers a worker, gather time, where to listen.
struct SlurmJob {
  slurm::Environment environment;
  std::vector<std::string> nodes;
  std::vector<std::string> addresses;  // by node; empty: --interface was given, or there is one node
  std::chrono::seconds kill_wait{30};
  OnLimit on_limit = OnLimit::kRequeue;
  std::chrono::milliseconds requeue_within{0};
};
Result<SlurmJob> prepare_slurm(LocalOptions& options, const SlurmOptions& how);

// How long before a time limit the run must know of it: its state's bytes at the speed of its directory's
// storage, which is measured.
std::uint64_t signal_lead_of(const LocalOptions& options);

// Asks Slurm how it is set up, and warns of what would make a requeue fail.
void look_around(SlurmJob& job, LocalOptions& options);

}  // namespace rekindle::app
