#include "app/slurm_site.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/places.hpp"
#include "app/report.hpp"
#include "app/signals.hpp"
#include "app/slurm_early.hpp"
#include "app/slurm_log.hpp"
#include "app/slurm_next.hpp"
#include "app/slurm_nodes.hpp"
#include "app/slurm_stop.hpp"
#include "app/supervisor.hpp"
#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"
#include "run/terms.hpp"
#include "slurm/attempt_end.hpp"
#include "slurm/cause.hpp"
#include "slurm/deadline.hpp"
#include "slurm/job_watch.hpp"
#include "slurm/requeue.hpp"

namespace rekindle::app {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr milliseconds kGivenUp{2000};       // for a silent coordinator on a node that Slurm has given up
constexpr std::chrono::minutes kComesUp{2};  // for a new coordinator to start
constexpr seconds kTearDown{30};             // until Slurm ends a job that it has requeued

class SlurmSite : public Site {
 public:
  SlurmSite(const SlurmJob& job, const LocalOptions& options)
      : job_(job),
        options_(options),
        layout_(options.layout()),
        watch_(job.environment),
        nodes_(job, watch_, options),
        log_(layout_, job.environment),
        stop_(watch_, job.kill_wait, milliseconds(options.job.stop_within_ms)),
        step_at_start_(saved_step(layout_)) {}

  // An error before the run begins. In the first attempt the user must correct it. In a later attempt the
  // same options worked before, so this node is the cause, unless another run holds the directory.
  int failed_early(const Error& error) {
    const int code = report(error);
    if (!log_.is_later_attempt() && path_exists(layout_.attempts()))  // or the run would be shown as pending
      log_.end(slurm::Cause::kGaveUp, step_at_start_, {});
    if (!log_.is_later_attempt() || log_.held_by_another()) return code;
    const int done = ended({code});
    left();
    return done;
  }

  // There is nothing to save, but a next attempt may have to be requested.
  int signalled_early(int signal) {
    on_signal(signal, false);
    const int done = ended({usual_exit_code(signal)});
    left();
    return done;
  }

  // This process replaces a dead batch script. `answer`: Slurm's current answer.
  slurm::Cause succeed(const slurm::BatchHostAnswer& answer) {
    succeeds_ = answer.lost ? slurm::Cause::kBatchHostLost : slurm::Cause::kScriptKilled;
    const std::uint64_t committed = std::exchange(step_at_start_, log_.step_at_begin(step_at_start_));
    futile_at_start_ = log_.futile_attempts(step_at_start_);
    on_signal(SIGUSR1, false);
    if (!slurm::is_over(answer.facts)) return *succeeds_;
    // Slurm kills the remaining processes after KillWait, so the requeue comes before the save. But if one
    // more futile attempt would exceed the limit, the requeue waits for the result of the save.
    stop_.on_terminated();
    if (job_.on_limit != OnLimit::kRequeue) return *succeeds_;
    const bool futile = slurm::is_futile(*succeeds_, committed != step_at_start_);
    if (futile && log_.futile_attempts(committed) + 1 >= slurm::most_futile_attempts(*succeeds_))
      return *succeeds_;
    log_.note_request(*succeeds_, committed);
    constexpr seconds kPatience{10};
    const slurm::Requeued done = slurm::requeue_once(slurm::queue_of(job_.environment),
                                                     job_.environment.restarts, kPatience, answer.facts);
    if (!done.accepted) log_warning(str("not requeued yet: ", done.detail));
    return *succeeds_;
  }

  // Whether `rekindle stop` was called during this job's previous attempt, and Slurm ended that attempt
  // before it could act. (A request that was acted on, or for another job, does not count.)
  bool must_not_begin() {
    if (!log_.stop_was_missed(options_.old_stop)) return false;
    say("rekindle stop was called during the previous attempt: submit this job again to go on");
    log_.end(slurm::Cause::kStopped, step_at_start_, nlohmann::json::object());
    return true;
  }

  Machines& machines() override { return nodes_; }
  std::uint64_t trainers() const override { return job_.nodes.size() * options_.job.trainers_per_worker; }
  std::vector<std::string> worker_arguments() const override { return worker_of(options_.layout()); }
  int fd() const override { return watch_.fd(); }
  void on_readable() override {
    watch_.on_read();
    stop_.on_answer();
  }
  void lost_worker() override { watch_.look(); }
  void trains() override { so_far_.trained = true; }
  bool is_noise(const std::string& line) const override { return is_srun_noise(line); }
  void begun(std::uint64_t number) override {
    log_.set_attempt(number);
    succeeds_ ? log_.begin_as_successor() : log_.begin(job_.nodes.size(), step_at_start_);
  }

  void on_signal(int signal, bool to_worker) override { stop_.on_signal(signal, to_worker); }
  std::optional<Clock::time_point> limit() override { return stop_.limit(); }

  void await_save() override {
    slurm::Seen seen = seen_now(static_cast<int>(ExitCode::kSaved));
    if (seen.signal == 0 && !so_far_.trained) return;
    stop_.complete(seen, nodes_left());
    const slurm::Cause cause = seen.signal == 0 ? slurm::Cause::kTimeLimit : slurm::judge(seen);
    const bool asks = job_.on_limit != OnLimit::kExit && slurm::wants_requeue(cause, seen.signal);
    const bool last = futile_at_start_ + 1 >= slurm::most_futile_attempts(cause);
    early_.set(job_, log_, layout_, asks ? stop_.end_of_time() : std::nullopt,
               {cause, step_at_start_, futile_at_start_, last, seen.signal != 0});
  }

  int ended(const RunResult& result) override {
    const int exit_code = result.exit_code;
    if (succeeds_ && log_.held_by_another_node()) {  // that process handles the job
      early_.cancel();
      return exit_code;
    }
    const slurm::Seen seen = seen_by(result);
    const std::uint64_t step = saved_step(layout_);
    const auto early = early_.settle();  // after the reads of files, which may hang
    const slurm::Cause cause = early && exit_code != 0 ? *early : slurm::judge(seen);
    const slurm::EndDecision decision = slurm::decide({.cause = cause,
                                                       .signal = stop_.signal(),
                                                       .step = step,
                                                       .step_at_start = step_at_start_,
                                                       .is_successor = succeeds_.has_value(),
                                                       .on_limit = job_.on_limit,
                                                       .job = job_.environment.id()});
    nlohmann::json more = nlohmann::json::object();
    std::optional<std::uint64_t> futile = 0;
    if (decision.futile) futile = early_.counted() ? futile_at_start_ + 1 : once_more(cause, step);
    if (!futile) {
      more["requeued"] = false;
      log_.end(cause, step, more);
      return static_cast<int>(ExitCode::kGaveUp);
    }
    for (const std::string& line : decision.lines) say(line);
    so_far_.requeued = cause == slurm::Cause::kRequeued || (early && job_.on_limit == OnLimit::kRequeue);
    bool goes_on = so_far_.requeued;
    if (cause == slurm::Cause::kStopped && put_back()) more["requeued"] = true;  // by Slurm
    if (decision.asks_slurm) {
      const NextJob next = ask_for_next(job_, layout_, log_, {cause, step, *futile}, [this] {
        return early_.started() ? std::nullopt : stop_.fresh_answer();
      });
      goes_on = next.accepted;
      so_far_.requeued = next.accepted && next.job.empty();
      more["requeued"] = goes_on;
    }
    log_.end(cause, step, more);
    if (succeeds_ && !so_far_.requeued) cancel_without_script(job_, *succeeds_);
    return goes_on && exit_code != 0 ? static_cast<int>(ExitCode::kSaved) : exit_code;
  }

  // If this process ended while Slurm tears the job down, Slurm would treat the exit as the job's own end.
  void left() override {
    if (!so_far_.requeued || stop_.is_terminated()) return;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    const timespec most{kTearDown.count(), 0};
    ::sigtimedwait(&set, nullptr, &most);
  }

 private:
  // Whether Slurm or a user has requeued this job.
  bool put_back() const {
    const auto facts = stop_.answer();
    return facts && facts->restarts > job_.environment.restarts;
  }

  std::size_t nodes_left() const {
    std::size_t left = 0;
    for (std::size_t machine = 0; machine < job_.nodes.size(); ++machine)
      left += nodes_.gone(machine) ? 0 : 1;
    return left;
  }

  // Without reading a file of the run.
  slurm::Seen seen_now(int exit_code) const {
    slurm::Seen seen;
    seen.exit_code = exit_code;
    seen.signal = stop_.signal();
    seen.restarts = job_.environment.restarts;
    seen.never_trained = !so_far_.trained && step_at_start_ > 0;
    seen.batch_host_lost = succeeds_ == slurm::Cause::kBatchHostLost;
    seen.script_killed = succeeds_ == slurm::Cause::kScriptKilled;
    return seen;
  }

  slurm::Seen seen_by(const RunResult& result) {
    const auto& [exit_code, may_pass] = result;
    // If a later attempt cannot begin, command line and configuration are not the cause: they did not change.
    const bool refused =
        exit_code == static_cast<int>(ExitCode::kConfig) || exit_code == static_cast<int>(ExitCode::kUsage);
    const bool another_may =
        refused && !so_far_.trained && log_.is_later_attempt() && !log_.held_by_another();
    slurm::Seen seen = seen_now(another_may ? static_cast<int>(ExitCode::kGaveUp) : exit_code);
    // Without a step of this or an earlier attempt, it is more probably a fault of the job itself.
    seen.may_pass = may_pass && (so_far_.trained || step_at_start_ > 0);
    const std::string stop = read_text(layout_.stop_request(), run::kMostOfANote).value_or("");
    // The first coordinator of an attempt removes requests for older attempts.
    seen.stop_asked = !stop.empty() && (succeeds_ || stop != options_.old_stop);
    if (seen.stop_asked) early_.cancel();
    if (seen.signal == 0 || exit_code == 0) return seen;
    stop_.await_answer(job_.answer_within());
    stop_.complete(seen, nodes_left());  // the answer may say that a node is gone
    // An operator has set the node DOWN, and Slurm has not killed this process yet.
    if (const auto look = watch_.latest())
      seen.batch_host_lost =
          seen.batch_host_lost || (!succeeds_ && slurm::has_lost_batch_host(look->facts, look->nodes));
    return seen;
  }

  // Counts a futile attempt. Returns how many there were in a row. nullopt: too many, or this attempt cannot
  // be recorded, so that requeues might never end.
  std::optional<std::uint64_t> once_more(slurm::Cause cause, std::uint64_t step) {
    const std::uint64_t number = log_.futile_attempts(step) + 1;
    const bool counted = log_.count_futile(step, number);
    if (number < slurm::most_futile_attempts(cause) && counted) return number;
    warn(str(number, " attempts in a row saved nothing beyond step ", step,
             counted ? "" : ", and the count cannot be recorded", ": see ", layout_.attempts().string()));
    return std::nullopt;
  }

  const SlurmJob& job_;
  const LocalOptions& options_;
  const run::Layout layout_;
  slurm::JobWatch watch_;
  SlurmNodes nodes_;
  SlurmLog log_;
  SlurmStop stop_;
  std::uint64_t step_at_start_;  // the committed step when the attempt began
  std::uint64_t futile_at_start_ = log_.futile_attempts(step_at_start_);
  EarlyRequest early_;
  // Set if this process replaces the batch script: the reason for the script's end. nullopt: this process is
  // the batch script.
  std::optional<slurm::Cause> succeeds_;
  struct {
    bool trained = false;   // this attempt has made a step
    bool requeued = false;  // the job is in Slurm's queue again
  } so_far_;
};

}  // namespace

int fail_slurm(const SlurmJob& job, const LocalOptions& options, const Error& error) {
  return SlurmSite(job, options).failed_early(error);
}

int end_slurm_early(SlurmJob job, const LocalOptions& options, int signal) {
  if (const Status there = correct_and_check(job, options.run_dir); !there) return report(there.error());
  // The record of attempts needs the directory; an attempt that cannot be recorded is not requeued.
  if (const Status made = make_directories(options.run_dir, 0700); !made) log_warning(made.error().line());
  return SlurmSite(job, options).signalled_early(signal);
}

Result<TakenOver> succeed_slurm(const SlurmJob& job, const LocalOptions& options,
                                const slurm::BatchHostAnswer& answer, const run::Holder& lost) {
  SlurmSite site(job, options);
  const slurm::Cause cause = site.succeed(answer);
  TakeOver how;
  how.attempt = run::newest_attempt(options.layout());
  how.term = lost.term;
  if (lost.slurm_node == job.batch_host) how.patience = kGivenUp;  // otherwise the default patience
  how.within = kComesUp;
  how.stop = protocol::StopRun{static_cast<int>(ExitCode::kSaved), slurm::to_text(cause), protocol::Time(0)};
  Workers none(site.machines(), {});  // the workers on the other nodes find the new coordinator by themselves
  return take_over(site, options, none, how);
}

int run_slurm(const SlurmJob& job, const LocalOptions& options, InitialState initial) {
  SlurmSite site(job, options);
  if (site.must_not_begin()) return static_cast<int>(ExitCode::kSaved);
  return run_at(site, options, std::move(initial));
}

}  // namespace rekindle::app
