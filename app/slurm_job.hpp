// The Slurm job that this process is the batch script of: what it adds to a run's options.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "app/options.hpp"
#include "app/report.hpp"
#include "base/text.hpp"
#include "slurm/environment.hpp"

namespace CLI {
class App;
}

namespace rekindle::app {

// A controller that is just being started again must not cost a run of weeks.
template <class Ask>
auto patiently(std::chrono::milliseconds patience, const Ask& ask) -> decltype(ask()) {
  const auto until = std::chrono::steady_clock::now() + patience;
  constexpr std::chrono::seconds kPause{2};
  for (bool told = false;; told = true) {
    auto answer = ask();
    if (answer || std::chrono::steady_clock::now() + kPause >= until) return answer;
    if (!told) say(str("waiting for Slurm: ", answer.error().line()));
    std::this_thread::sleep_for(kPause);
  }
}

enum class OnLimit { kRequeue, kResubmit, kExit };

struct SlurmOptions {
  std::string on_limit = "requeue";  // or "resubmit", or "exit": saved, and somebody submits it again
  std::string requeue_within = "5min";
  bool from_scratch = false;  // where the run directory of a job that has run before is gone
};

// --on-limit and --requeue-within, of rekindle slurm and of rekindle submit.
void add_slurm_options(CLI::App& command, SlurmOptions& options);

// What the job's nodes add to `options`: trainers a worker, gather time, where to listen.
struct SlurmJob {
  slurm::Environment environment;
  std::string batch_host;  // of a process on another node; else empty: it is environment.node
  std::vector<std::string> nodes;
  std::vector<std::string> addresses;  // by node; empty: --interface was given, or there is one node
  std::chrono::seconds kill_wait{30};
  OnLimit on_limit = OnLimit::kRequeue;
  std::chrono::milliseconds requeue_within{0};
};
// An error of the command line, said before there is a job.
Result<OnLimit> check_slurm_options(const SlurmOptions& how);

// As the environment and the command line have it; an error is the user's to mend.
Result<SlurmJob> this_job(const SlurmOptions& how);
// As Slurm has it; with that, the options are complete.
Status complete_job(SlurmJob& job, LocalOptions& options);

// A job that has run before has a run directory with something in it. If there is none, the storage is not
// mounted here, or somebody removed the run: an error (ExitCode::kConfig), not a run that begins at step 0.
Status check_run_is_there(const SlurmJob& job, const std::filesystem::path& run_dir);

// How long before a time limit the run must know of it: its state's bytes at the speed of its directory's
// storage, which is measured.
std::uint64_t signal_lead_of(const LocalOptions& options);

// Asks Slurm how it is set up, and warns of what would make a requeue fail.
void look_around(SlurmJob& job, LocalOptions& options);

}  // namespace rekindle::app
