// A separate Slurm for each test: real daemons on this machine (tools/slurm-cluster).
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness.hpp"
#include "slurm/commands.hpp"

namespace rekindle::process_test {

// Empty if a cluster can be started; else the reason why not.
std::string why_no_cluster();

// A job keeps its programs and LibTorch (460 MB) in the run directory; the rest is for checkpoints.
inline constexpr int kRoomForTheProgramsMib = 800;

class Cluster {
 public:
  // `conf`: more lines of slurm.conf.
  explicit Cluster(const std::string& conf = "");
  ~Cluster();
  Cluster(const Cluster&) = delete;

  // Why the cluster is not up; empty if it is up.
  const std::string& why_not() const { return why_not_; }

  // Runs sbatch with these options; returns the job's id.
  std::string submit(const Arguments& options, const fs::path& script, const Arguments& arguments = {}) const;
  // Submits a job of the highest partition that takes these nodes for three seconds.
  void take(const std::string& nodes) const;
  // The job's state; "" if Slurm has forgotten the job.
  std::string state(const std::string& job) const;
  std::uint64_t restarts(const std::string& job) const;
  // Runs scontrol, scancel, ...; returns the output.
  std::string command(const Arguments& argv) const;
  std::string log() const;  // the controller's
  // tasks_on: the processes of jobs on a node. daemons_on: the node's slurmd and slurmstepds.
  std::vector<pid_t> tasks_on(const std::string& node) const;
  std::vector<pid_t> daemons_on(const std::string& node) const;
  std::vector<pid_t> slurmd_on(const std::string& node) const;
  // `prefix`: a program that execs its last arguments.
  void start_slurmd(const std::string& node, const Arguments& prefix = {}) const;
  // The nodes that the job still has, one per line.
  std::string nodes_of(const std::string& job) const;

 private:
  Scratch scratch_;
  std::string why_not_;
};

// A job's run, which goes on until the test stops it. The test then finishes the run here and compares it
// with an undisturbed run.
class SlurmRun : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  virtual std::string conf() const { return ""; }

  fs::path dir() const { return run_dir_; }
  std::string output() const;  // of the job
  bool printed(const std::string& words) const { return output().find(words) != std::string::npos; }

  // A batch script that runs the commands `before`, then execs `rekindle slurm` with `more`.
  fs::path script(const Arguments& more = {}, const std::string& before = "",
                  const std::string& signal = "--signal=B:USR1@30") const;
  fs::path sleeper() const;  // the script of a job that only sleeps
  // Submits the job and waits for its fifth step.
  void begin(const Arguments& sbatch_options, const Arguments& more = {}, const std::string& before = "");
  void wait_for_step(std::uint64_t step);
  void wait_for_steps(std::uint64_t more) { wait_for_step(reached_step(dir()) + more); }
  void wait_until_printed(const std::string& words);
  void wait_for_restart(std::uint64_t restarts);  // also waits for a step after the restart
  void wait_until_over();
  // Waits until Slurm holds the job back because of its start time, starts it soon, and returns how many
  // seconds it would have waited.
  long start_now() const;
  // Waits until the job is in this state, with this exit code.
  void expect_over(const std::string& job, const std::string& state, int exit_code) const;
  // Lines of attempts.jsonl with this event.
  std::vector<nlohmann::json> attempts(const std::string& event) const { return attempts(event, dir()); }
  static std::vector<nlohmann::json> attempts(const std::string& event, const fs::path& run_dir);
  // Stops the run, finishes it at a step that it has not reached, and compares.
  void stop_and_compare();
  void finish_and_compare();
  // A run of the same kind here, without Slurm, up to `steps`.
  virtual Outcome train(const fs::path& where, int steps) const;
  // Of such a run that nothing disturbs.
  virtual std::string expected_digest(int steps) const;

  Scratch scratch_;
  fs::path run_dir_ = scratch_ / "run";
  fs::path output_ = scratch_ / "out";  // of the job
  std::optional<Cluster> cluster_;
  std::string job_;
};

}  // namespace rekindle::process_test
