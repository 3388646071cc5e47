// A Slurm of its own for each test: real daemons on this machine (tools/slurm-cluster).
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness.hpp"
#include "slurm/commands.hpp"

namespace rekindle::process_test {

// Empty where a cluster can be started; else why not.
std::string why_no_cluster();

// A job keeps its programs and LibTorch (460 MB) in the run directory; the rest is for checkpoints.
inline constexpr int kRoomForTheProgramsMib = 800;

class Cluster {
 public:
  // `conf`: more lines of slurm.conf.
  explicit Cluster(const std::string& conf = "");
  ~Cluster();
  Cluster(const Cluster&) = delete;

  // Empty: it is up.
  const std::string& why_not() const { return why_not_; }

  // sbatch with these options; the job's id.
  std::string submit(const Arguments& options, const fs::path& script, const Arguments& arguments = {}) const;
  // A job of the highest partition that wants these nodes, for three seconds.
  void take(const std::string& nodes) const;
  // "" where Slurm does not know it any more.
  std::string state(const std::string& job) const;
  std::uint64_t restarts(const std::string& job) const;
  // Runs scontrol, scancel, ...: what it printed.
  std::string command(const Arguments& argv) const;
  std::string log() const;  // the controller's
  // What jobs run on a node; its slurmd and the slurmstepd of those.
  std::vector<pid_t> tasks_on(const std::string& node) const;
  std::vector<pid_t> daemons_on(const std::string& node) const;
  std::vector<pid_t> slurmd_on(const std::string& node) const;
  void start_slurmd(const std::string& node) const;
  // The nodes that the job still has, one a line.
  std::string nodes_of(const std::string& job) const;

 private:
  Scratch scratch_;
  std::string why_not_;
};

// One run of a job that goes on until it is asked to stop, and is then finished here and compared with a
// quiet one.
class SlurmRun : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  virtual std::string conf() const { return ""; }

  fs::path dir() const { return run_dir_; }
  std::string output() const;  // of the job
  bool printed(const std::string& words) const { return output().find(words) != std::string::npos; }

  // A batch script that execs `rekindle slurm` with `more`; `before` is what it does first.
  fs::path script(const Arguments& more = {}, const std::string& before = "",
                  const std::string& signal = "--signal=B:USR1@30") const;
  fs::path sleeper() const;  // a job that does nothing for long
  // Submits it and waits for its fifth step.
  void begin(const Arguments& sbatch_options, const Arguments& more = {}, const std::string& before = "");
  void wait_for_step(std::uint64_t step);
  void wait_for_steps(std::uint64_t more) { wait_for_step(reached_step(dir()) + more); }
  void wait_until_printed(const std::string& words);
  void wait_for_restart(std::uint64_t restarts);  // and for a step after it
  void wait_until_over();
  // Waits until the job is in this state, with this exit code.
  void expect_over(const std::string& job, const std::string& state, int exit_code) const;
  // Lines of attempts.jsonl with this event.
  std::vector<nlohmann::json> attempts(const std::string& event) const { return attempts(event, dir()); }
  static std::vector<nlohmann::json> attempts(const std::string& event, const fs::path& run_dir);
  // Asks the run to stop, finishes it at a step that it has not reached, and compares.
  void stop_and_compare();
  void finish_and_compare();

  Scratch scratch_;
  fs::path run_dir_ = scratch_ / "run";
  std::optional<Cluster> cluster_;
  std::string job_;
};

}  // namespace rekindle::process_test
