// Slurm's commands and the parsers of their output. Each call starts a program that asks the controller and
// may take long, so do not call from a thread that other threads wait for.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rekindle::slurm {

using SystemTime = std::chrono::system_clock::time_point;

// The environment variable of a successor job that contains the id of the job that submitted it.
inline constexpr const char* kFollows = "REKINDLE_FOLLOWS";

// The controller's facts about a job. Source: scontrol(1), show job.
struct JobFacts {
  std::string array_job, array_task;            // empty if the job is not a task of a job array
  std::uint64_t tasks = 0, tasks_per_node = 0;  // tasks_per_node 0: not requested
  std::string state, reason;                    // RUNNING, COMPLETING, ...; None, TimeLimit, ...
  std::uint64_t gpus = 0, gpus_per_node = 0;    // asked for: for all nodes together (--gpus), for each node
  bool asks_for_gpus = false;                   // in any way
  std::uint64_t restarts = 0;                   // counts a requeue as soon as Slurm has accepted it
  bool may_requeue = true;                      // false: --no-requeue, or forbidden by the site
  // When Slurm preempted the job, which may then run for its partition's GraceTime; nullopt: it did not.
  std::optional<SystemTime> preempted;
  std::optional<SystemTime> end;
  std::string node_list;   // compressed
  std::string batch_host;  // the node of the batch script, even if the job has lost it
  std::string partition;   // before the job starts, possibly several, separated by commas
  std::string output;      // StdOut, in which Slurm has replaced some of the patterns
  int batch_signal = 0;    // the signal that ended the batch script; 0: none, or the script still runs
};

// The GPUs in a list of resources: "cpu=2,gres/gpu:a100=1", "gres/gpu:1", or Slurm 22.05's "gres:gpu:a100:1".
std::uint64_t gpus_in(const std::string& resources);
// The fewest GPUs that the job has on one of its nodes. Source: scontrol(1), show job --details.
std::uint64_t parse_fewest_gpus(const std::string& text);
Result<std::uint64_t> fewest_gpus(const std::string& id);

// Parses the output of `scontrol show job`. Any other text is an error.
Result<JobFacts> parse_job(const std::string& text);
Result<JobFacts> show_job(const std::string& id);

// The controller's configuration (slurm.conf), by key. Source: scontrol(1), show config.
std::map<std::string, std::string> parse_config(const std::string& text);
Result<std::map<std::string, std::string>> show_config();
// The number at the start of a value ("30 sec").
std::optional<std::uint64_t> leading_number(const std::string& value);

// n[1-3] is n1, n2, n3.
Result<std::vector<std::string>> expand_nodes(const std::string& node_list);

// The names or addresses that Slurm uses for the nodes, by node. Source: slurm.conf(5), NodeAddr.
std::map<std::string, std::string> parse_addresses(const std::string& text);
Result<std::map<std::string, std::string>> node_addresses(const std::string& node_list);

// Whether a node is down: its State begins with DOWN. Source: scontrol(1), show node.
bool parse_down(const std::string& text);
Result<bool> is_down(const std::string& node);

// The text of the job's batch script.
Result<std::string> batch_script(const std::string& id);

// `incomplete`: a job that is over is not requeued, and this is not an error.
Status requeue(const std::string& id, bool incomplete);

// Sets the earliest start of a pending job. Source: scontrol(1), StartTime.
Status start_later(const std::string& id, std::chrono::minutes pause);
// scancel: ends the job with all its processes.
Status cancel(const std::string& id);

// Ends the step "JOB.STEP" with SIGKILL.
Status kill_step(const std::string& id);

// Whether the daemon of the job's batch step runs on a node. A step on that node asks its slurmd. Only this
// daemon reports the end of the batch script to Slurm. `id`: of a task of an array, the number that it has of
// its own. An error: the node gave no answer.
Result<bool> batch_step_runs(const std::string& id, const std::string& node);
// Parses the output of `scontrol listpids JOB`, which includes the asking step itself.
Result<bool> parse_batch_step(const std::string& pids);

// The hint of an error after which the job may be there all the same.
inline constexpr const char* kMayBeQueued =
    "it may be in the queue all the same: look with squeue --me before you submit it again";
// Runs sbatch with these arguments; returns the new job's id.
Result<std::string> submit(const std::vector<std::string>& arguments);
// The same with the text of a script, which sbatch reads from stdin.
Result<std::string> submit_text(const std::string& script);
// What sbatch says of this script, without submitting it: when and where it would start. An error: why sbatch
// would refuse it.
Result<std::string> test_text(const std::string& script);

// This user's job with this name that waits for the end of job `id`; "" if there is none.
std::string parse_successor(const std::string& text, const std::string& id, const std::string& name);
Result<std::string> successor_of(const std::string& id, const std::string& name);

// This user's jobs that are pending, running or ending.
struct QueuedJob {
  std::string id, state, script;
};
std::vector<QueuedJob> parse_queue(const std::string& text);
Result<std::vector<QueuedJob>> own_jobs();

// The limits of a partition: MaxTime, MaxNodes, TotalNodes. Source: scontrol(1), show partition.
Result<std::string> limits_of_partition(const std::string& name);

// Slurm's reason why the job will never start unless its options change; "" if the job may start. Source:
// squeue(1), JOB REASON CODES.
std::string never_starts(const JobFacts& facts);

// A second job with a job's script, which starts when that job has ended. The second job inherits none
// of the first job's SLURM_ variables except SLURM_CONF. Its variable kFollows contains the first job's id.
struct Successor {
  std::string after;  // the job's id
  std::string name;   // of both jobs
  std::string task;   // of a job array: the only task to submit; else empty
  std::filesystem::path script;
  std::filesystem::path directory;  // where the job was submitted; if it is not here, the current one
  std::chrono::minutes pause{0};    // before the earliest start
};
Result<std::string> submit_successor(const Successor& successor);  // the new job's id

}  // namespace rekindle::slurm
