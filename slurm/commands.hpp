// What Slurm's commands say, and what they are asked. Each call starts a program, which asks the controller
// and may take long: not for a thread that others wait for.
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

// The environment variable that names, in a job that another one submitted as its successor, that other job.
inline constexpr const char* kFollows = "REKINDLE_FOLLOWS";

// What the controller knows of a job. Source: scontrol(1), show job.
struct JobFacts {
  std::string array_job, array_task;            // of a task of an array; else empty
  std::uint64_t tasks = 0, tasks_per_node = 0;  // per node: 0: not asked for
  std::string state, reason;                    // RUNNING, COMPLETING, ...; None, TimeLimit, ...
  std::uint64_t restarts = 0;                   // counts a requeue from the moment that it is accepted
  bool may_requeue = true;                      // not --no-requeue, and the site allows it
  bool preempting = false;  // its nodes are wanted; it has its partition's GraceTime to leave
  std::optional<SystemTime> end;
  std::string node_list;   // compressed
  std::string batch_host;  // the node of the batch script, also when the job has lost it
  std::string partition;   // or several, separated by commas, before the job has started
  std::string output;      // StdOut, in which Slurm fills in some of the patterns
  int batch_signal = 0;    // The signal that ended the batch script's process; 0: none, or it still runs.
};

// The answer of `scontrol show job`; an error for anything else.
Result<JobFacts> parse_job(const std::string& text);
Result<JobFacts> show_job(const std::string& id);

// slurm.conf as the controller has it, by key. Source: scontrol(1), show config.
std::map<std::string, std::string> parse_config(const std::string& text);
Result<std::map<std::string, std::string>> show_config();
// The number that a value begins with ("30 sec").
std::optional<std::uint64_t> leading_number(const std::string& value);

// n[1-3] is n1, n2, n3.
Result<std::vector<std::string>> expand_nodes(const std::string& node_list);

// The names or addresses under which Slurm reaches nodes, by node. Source: slurm.conf(5), NodeAddr.
std::map<std::string, std::string> parse_addresses(const std::string& text);
Result<std::map<std::string, std::string>> node_addresses(const std::string& node_list);

// Whether Slurm has taken a node out of use: its State has DOWN in it. Source: scontrol(1), show node.
bool parse_down(const std::string& text);
Result<bool> is_down(const std::string& node);

// The text of the job's batch script.
Result<std::string> batch_script(const std::string& id);

// `incomplete`: nothing happens to a job that is over, and that is no error.
Status requeue(const std::string& id, bool incomplete);

// scancel: ends the job, whatever of it still runs.
Status cancel(const std::string& id);

// Ends the step "JOB.STEP" with SIGKILL.
Status kill_step(const std::string& id);

// Whether a node has a daemon of the job's batch step, as the node's slurmd answers to a step there. Slurm
// learns of the batch script's end from that daemon alone. An error: the node gave no answer.
Result<bool> batch_step_runs(const std::string& id, const std::string& node);
// The answer of `scontrol listpids JOB`. Its own step is in it.
Result<bool> parse_batch_step(const std::string& pids);

// sbatch with these arguments; the new job's id.
Result<std::string> submit(const std::vector<std::string>& arguments);

// A job of this user with that name that waits for job `id` to end; "" if there is none.
std::string parse_successor(const std::string& text, const std::string& id, const std::string& name);
Result<std::string> successor_of(const std::string& id, const std::string& name);

// Jobs of this user that wait, run or end.
struct QueuedJob {
  std::string id, state, script;
};
std::vector<QueuedJob> parse_queue(const std::string& text);
Result<std::vector<QueuedJob>> own_jobs();

// What a partition allows: MaxTime, MaxNodes, TotalNodes. Source: scontrol(1), show partition.
Result<std::string> limits_of_partition(const std::string& name);

// Why the job will never start as it is: Slurm's reason; "" if it may start. Source: squeue(1), JOB REASON
// CODES.
std::string never_starts(const JobFacts& facts);

// A job's script, submitted once more for the time after it. Nothing of its environment is handed on.
// Its environment names the job that it follows (kFollows).
struct Successor {
  std::string after;  // the job's id
  std::string name;   // of both
  std::string task;   // of an array, only this one; else empty
  std::filesystem::path script;
  std::filesystem::path directory;  // where the job was submitted
};
Result<std::string> submit_successor(const Successor& successor);  // the new job's id

}  // namespace rekindle::slurm
