// The Slurm job whose batch script is this process, and its contribution to a run's options.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "app/options.hpp"
#include "app/report.hpp"
#include "base/text.hpp"
#include "slurm/attempt_end.hpp"
#include "slurm/environment.hpp"

namespace CLI {
class App;
}

namespace rekindle::app {

// Asks repeatedly, because a restart of the controller must not end a run of weeks.
template <class Ask>
auto patiently(std::chrono::milliseconds patience, const Ask& ask) -> decltype(ask()) {
  const auto until = std::chrono::steady_clock::now() + patience;
  constexpr std::chrono::seconds kPause{2};
  for (bool announced = false;; announced = true) {
    auto answer = ask();
    if (answer || std::chrono::steady_clock::now() + kPause >= until) return answer;
    if (!announced) say(str("waiting for Slurm: ", answer.error().line()));
    std::this_thread::sleep_for(kPause);
  }
}

using slurm::OnLimit;

struct SlurmOptions {
  std::string on_limit = "requeue";  // or "resubmit", or "exit": saved, and the user submits the job again
  std::string requeue_within = "1h";
  bool from_scratch = false;  // begin at step 0 if the run directory of a requeued job is gone
};

// --on-limit and --requeue-within, of rekindle slurm and of rekindle submit.
void add_slurm_options(CLI::App& command, SlurmOptions& options);

// A value of a job's --config file, with %A, %a and %j replaced. A hook is a shell's, and may call date +%A.
inline constexpr const char* kHook = "on-event";
std::string expand_in_job(const std::string& name, const std::string& value);

// Enough to record the end of an attempt whose options are not known.
LocalOptions unresolved_options(const std::filesystem::path& run_dir);

// Facts about the job and its nodes.
struct SlurmJob {
  slurm::Environment environment;
  std::string batch_host;  // set only in a process on another node; empty: environment.node
  std::vector<std::string> nodes;
  std::vector<std::string> addresses;  // by node; empty: --interface was given, or there is one node
  std::chrono::seconds kill_wait{30};
  OnLimit on_limit = OnLimit::kRequeue;
  std::chrono::milliseconds requeue_within{0};
  bool from_scratch = false;  // --from-scratch

  // How long an attempt waits for Slurm's answers and for its storage before it begins.
  std::chrono::milliseconds answer_within() const {
    constexpr std::chrono::minutes kLongest{5};
    return std::min<std::chrono::milliseconds>(kLongest, requeue_within);
  }
};
// An error of the command line, reported before a job exists.
Result<OnLimit> check_slurm_options(const SlurmOptions& how);

// The job from the environment and the command line; the user must correct an error.
Result<SlurmJob> this_job(const SlurmOptions& how);
// Adds Slurm's facts about the job, and completes the options.
Status complete_job(SlurmJob& job, LocalOptions& options);

// A job that has run before has a non-empty run directory. If the directory is missing or empty, the storage
// is not mounted here, or the run was removed: an error (ExitCode::kConfig), not a run that begins at step 0,
// unless --from-scratch is given.
Status check_run_is_there(const SlurmJob& job, const std::filesystem::path& run_dir);
// The same for a job that complete_job() has not seen: Slurm's facts correct what it inherited.
Status correct_and_check(SlurmJob& job, const std::filesystem::path& run_dir);

// How long before a time limit the run needs the signal: the state's size divided by the measured write speed
// of the run directory's storage.
// `looks_only`: a usual speed counts, and nothing is written.
std::uint64_t signal_lead_of(const LocalOptions& options, bool looks_only = false);

// Asks Slurm for its configuration, and warns of settings that would make a requeue fail.
void look_around(SlurmJob& job, LocalOptions& options);

}  // namespace rekindle::app
