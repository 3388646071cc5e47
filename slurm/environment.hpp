// What Slurm tells a batch script in its environment. Source: sbatch(1), OUTPUT ENVIRONMENT VARIABLES.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "base/result.hpp"
#include "slurm/commands.hpp"

namespace rekindle::slurm {

struct Environment {
  std::string job;                    // SLURM_JOB_ID
  std::string array_job, array_task;  // of one task of a job array; else empty
  std::string name;                   // of the job
  std::string submit_directory;       // where it was submitted
  std::string node;                   // this node's name
  std::string node_list;              // of the job, compressed: n[1-3,7]
  std::uint64_t restarts = 0;         // how often the job was requeued before this attempt
  std::vector<std::uint64_t> cpus;    // the job's CPUs on each of its nodes
  std::uint64_t tasks_per_node = 0;   // as asked for; 0: not asked for
  std::uint64_t gpus = 0;             // the job's GPUs on this node
  std::uint64_t gpus_per_task = 0;    // as asked for; 0: not asked for
  std::vector<std::uint64_t> tasks;   // Slurm's tasks on each node
  // The name of the process that Slurm started for the batch script, if that is not this process: its signals
  // do not come here. Empty: this process is the one, or no daemon of Slurm can be seen above it.
  std::string batch_process;
  std::string follows;  // the job that submitted this one as its successor; else empty

  // How commands name this job: one task of an array is not its array.
  std::string id() const { return array_task.empty() ? job : array_job + "_" + array_task; }
};

using Getenv = std::function<std::string(const char*)>;  // "" for what is not set

// Whether this process belongs to a Slurm job at all.
bool in_job(const Getenv& get = environment_variable);
// Errors (ExitCode::kUsage): outside of a job; inside of a step, where Slurm's signal for the batch script
// does not come.
Result<Environment> read_environment(const Getenv& get = environment_variable);

// sbatch hands its caller's environment on: a job that another job submitted finds the array task, the
// restarts and the tasks of that one. What the controller says of this job corrects them.
void correct(Environment& environment, const JobFacts& facts);

// "4(x3),2" is 4, 4, 4, 2; nothing if it is not of that form.
std::vector<std::uint64_t> expand_counts(const std::string& text);

// %A, %a and %j as in sbatch's file names: the array's job id, the task's number, the job id. %% is %.
std::string expand_pattern(const std::string& text, const Environment& environment);

}  // namespace rekindle::slurm
