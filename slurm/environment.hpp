// The environment variables of a batch script. Source: sbatch(1), OUTPUT ENVIRONMENT VARIABLES.
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
  std::string array_job, array_task;  // empty if the job is not a task of a job array
  std::string name;                   // of the job
  std::string submit_directory;       // where the job was submitted
  std::string node;                   // this node's name
  std::string node_list;              // of the job, compressed: n[1-3,7]
  std::uint64_t restarts = 0;         // how often the job was requeued before this attempt
  std::vector<std::uint64_t> cpus;    // the job's CPUs on each of its nodes
  std::uint64_t tasks_per_node = 0;   // as requested; 0: not requested
  std::uint64_t gpus = 0;             // for a step on this node, and on each other one
  std::uint64_t gpus_of_all = 0;      // as requested for all nodes together (--gpus); 0: not requested
  std::uint64_t gpus_per_task = 0;    // as requested; 0: not requested
  std::vector<std::uint64_t> tasks;   // Slurm's tasks on each node
  // The name of the process that Slurm started for the batch script and signals, if it is another process.
  // Empty: this process is the batch script, or has no daemon of Slurm among its ancestors.
  std::string batch_process;
  std::string follows;  // the job that submitted this job as its successor; else empty

  bool is_first_attempt() const { return restarts == 0 && follows.empty(); }
  // The job's id for commands. A task of a job array has an id of its own.
  std::string id() const { return array_task.empty() ? job : array_job + "_" + array_task; }
  // The GPUs that a step with all of the job's resources on a node has to ask for. 0: Slurm gives them to it.
  std::uint64_t gpus_to_ask_for(std::size_t node) const;
};

using Getenv = std::function<std::string(const char*)>;  // "" if the variable is not set

// Whether this process belongs to a Slurm job.
bool in_job(const Getenv& get = environment_variable);
// Errors (ExitCode::kUsage): outside of a job; in an interactive allocation; in a job step, which does not
// get Slurm's signal for the batch script.
Result<Environment> read_environment(const Getenv& get = environment_variable);

// A job inherits the environment of sbatch's caller. So a job that another job submitted has the array task,
// restarts, tasks and --gpus of that job in its environment. The controller's facts correct them.
void correct(Environment& environment, const JobFacts& facts);

// "4(x3),2" is 4, 4, 4, 2. Empty if the text has another form.
std::vector<std::uint64_t> expand_counts(const std::string& text);

// Replaces %A, %a and %j as sbatch does: the array's job id, the task's number, the job id. %3a is the number
// with at least three digits. %% is %.
std::string expand_pattern(const std::string& text, const Environment& environment);
// Whether it gives each task of an array another text.
bool differs_by_task(const std::string& pattern);

}  // namespace rekindle::slurm
