// The nodes of a Slurm job, and the worker on each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "app/slurm_job.hpp"
#include "app/workers.hpp"
#include "slurm/job_watch.hpp"

namespace rekindle::app {

// Starts a worker by a step of its own on the node: one srun each, whose exit code is the worker's.
class SlurmNodes : public Machines {
 public:
  SlurmNodes(const SlurmJob& job, const slurm::JobWatch& watch) : job_(job), watch_(watch) {}

  std::size_t count() const override { return job_.nodes.size(); }
  std::string name(std::size_t machine) const override { return job_.nodes[machine]; }
  bool gone(std::size_t machine) const override;
  Result<Process> start(std::size_t machine, const std::vector<std::string>& arguments) override;
  // The worker's step runs: its srun loses its shepherd, and this object does the shepherd's work.
  bool take_line(std::size_t machine, const Process& srun, const std::string& line) override;
  Clock::duration on_end(std::size_t machine, const ExitStatus& srun) override;

 private:
  const SlurmJob& job_;
  const slurm::JobWatch& watch_;
  std::map<std::size_t, std::string> steps_;  // by machine: those that may run without a shepherd
};

// What srun says of every end that was meant.
bool is_srun_noise(const std::string& line);

}  // namespace rekindle::app
