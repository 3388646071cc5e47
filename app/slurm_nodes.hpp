// The nodes of a Slurm job, with one worker on each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "app/slurm_job.hpp"
#include "app/workers.hpp"
#include "slurm/job_watch.hpp"

namespace rekindle::app {

// Starts each worker as a Slurm step of its own on the node, with one srun, whose exit code is the worker's.
class SlurmNodes : public Machines {
 public:
  SlurmNodes(const SlurmJob& job, const slurm::JobWatch& watch, const LocalOptions& options)
      : job_(job), watch_(watch), options_(options) {}

  std::size_t count() const override { return job_.nodes.size(); }
  std::string name(std::size_t machine) const override { return job_.nodes[machine]; }
  bool gone(std::size_t machine) const override;
  Result<Process> start(std::size_t machine, const std::vector<std::string>& arguments) override;
  // Called when the worker's step runs: its srun's shepherd process is killed, and this object takes over the
  // shepherd's work.
  bool take_line(std::size_t machine, const Process& srun, const std::string& line) override;
  Clock::duration on_end(std::size_t machine, const ExitStatus& srun) override;

 private:
  const SlurmJob& job_;
  const slurm::JobWatch& watch_;
  const LocalOptions& options_;
  std::map<std::size_t, std::string> steps_;  // by machine: steps that may run without a shepherd
};

// Whether srun prints this line for every deliberate end.
bool is_srun_noise(const std::string& line);

}  // namespace rekindle::app
