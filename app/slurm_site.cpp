#include "app/slurm_site.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/slurm_nodes.hpp"
#include "app/supervisor.hpp"
#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"
#include "slurm/cause.hpp"
#include "slurm/deadline.hpp"
#include "slurm/job_watch.hpp"
#include "slurm/requeue.hpp"

namespace rekindle::app {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::system_clock;

namespace {

constexpr seconds kTearDown{30};  // until Slurm ends a job that it has requeued
constexpr const char* kSubmitted = "submitted";
constexpr int kOwnFaults = 3;  // attempts that ended by themselves, and saved nothing new

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::uint64_t committed_step(const run::Layout& layout) {
  const auto committed = checkpoint::list_committed(layout.root());
  return committed.empty() ? 0 : committed.front().step;
}

class SlurmSite : public Site {
 public:
  SlurmSite(const SlurmJob& job, const LocalOptions& options)
      : job_(job),
        options_(options),
        layout_(options.run_dir),
        watch_(job.environment),
        nodes_(job, watch_),
        step_at_start_(committed_step(layout_)) {}

  Machines& machines() override { return nodes_; }
  std::uint64_t trainers() const override { return job_.nodes.size() * options_.job.trainers_per_worker; }
  std::vector<std::string> worker_arguments() const override {
    return {"worker", "--run-dir", options_.run_dir};
  }
  int fd() const override { return watch_.fd(); }
  void heard() override {
    watch_.heard();
    const auto look = watch_.latest();
    if (!look) return;
    if (signal_ == 0)
      stop_.end = look->facts.end;
    else if (look->facts.preempting && look->number >= asked_)
      preempting_ = true;
  }
  void lost_worker() override { watch_.look(); }
  void trains() override { trained_ = true; }

  bool is_noise(const std::string& line) const override { return is_srun_noise(line); }

  void begun(std::uint64_t number) override {
    attempt_ = number;
    record({{"event", "slurm-begin"},
            {"job", job_.environment.id()},
            {"restarts", job_.environment.restarts},
            {"nodes", job_.nodes.size()},
            {"node", job_.environment.node},
            {"step", step_at_start_},
            {"why", why_begun()}});
  }

  void on_signal(int signal) override {
    const auto now = system_clock::now();
    const bool ends_it = signal == SIGTERM && !stop_.terminated;
    // Each node tells of it: one answer does for all.
    if (signal_ == 0 || ends_it) asked_ = watch_.look();
    if (ends_it) stop_.terminated = now;
    if (signal_ != 0) return;
    signal_ = signal;
    stop_.signalled = now;
    stop_.kill_wait = job_.kill_wait;
    if (options_.job.stop_within_ms > 0) stop_.within = milliseconds(options_.job.stop_within_ms);
  }

  std::optional<Clock::time_point> limit() override {
    if (signal_ == 0) return std::nullopt;
    stop_.answer = answer();
    const auto now = system_clock::now();
    const auto deadline = slurm::stop_deadline(stop_, now);
    if (!deadline) return std::nullopt;
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(*deadline - now);
  }

  int ended(int exit_code) override {
    const slurm::Seen seen = seen_by(exit_code);
    const slurm::Cause cause = slurm::judge(seen);
    const std::uint64_t step = committed_step(layout_);
    nlohmann::json line = {{"event", "slurm-end"}, {"cause", slurm::to_text(cause)}, {"step", step}};
    if (cause == slurm::Cause::kOwnFault && own_faults_at(step) + 1 >= kOwnFaults) {
      line["requeued"] = false;
      record(line);
      std::fprintf(stderr, "rekindle: %d attempts in a row ended by themselves at step %llu: see %s\n",
                   kOwnFaults, static_cast<unsigned long long>(step), layout_.attempts().c_str());
      return static_cast<int>(ExitCode::kGaveUp);
    }
    if (cause == slurm::Cause::kRequeued) say("Slurm has requeued this job");
    if (cause == slurm::Cause::kUnknown && signal_ != SIGUSR1)
      say(str(
          "Slurm does not say why this job was signalled: it is not requeued; if it was not meant to end, ",
          how_to_go_on()));
    if (cause == slurm::Cause::kCancelled)
      say("this job was cancelled: it is not requeued; submit it again to go on");
    if (cause == slurm::Cause::kTimeLimit && step == step_at_start_)
      say("warning: nothing new was saved in this attempt: is there time for a step before the signal?");
    const bool wanted = slurm::wants_requeue(cause, signal_);
    if (wanted && job_.on_limit == OnLimit::kExit)
      say("not requeued (--on-limit exit): submit it again to go on");
    requeued_ = cause == slurm::Cause::kRequeued;
    if (wanted && job_.on_limit == OnLimit::kRequeue) {
      requeued_ = requeue(cause, step);
      line["requeued"] = requeued_;
    }
    record(line);
    return requeued_ ? static_cast<int>(ExitCode::kSaved) : exit_code;
  }

  // Ending now, while Slurm takes the job down, would be taken for the job's own end.
  void left() override {
    if (!requeued_ || stop_.terminated) return;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    const timespec most{kTearDown.count(), 0};
    ::sigtimedwait(&set, nullptr, &most);
  }

 private:
  // Slurm's, since the newest signal.
  std::optional<slurm::JobFacts> answer() const {
    const auto look = watch_.latest();
    if (!look || look->number < asked_) return std::nullopt;
    return look->facts;
  }

  // One that a requeue may rely on: what is older may be of a job that others have put back since.
  std::optional<slurm::JobFacts> fresh_answer() const {
    constexpr seconds kFresh{2};
    const auto look = watch_.latest();
    return look && Clock::now() - look->at < kFresh ? answer() : std::nullopt;
  }

  void record(nlohmann::json line) {
    line["attempt"] = attempt_;
    line["at"] = utc_now();
    if (auto recorded = run::record_attempt(layout_, line); !recorded) log_warning(recorded.error().line());
  }

  std::string why_begun() const {
    if (job_.environment.restarts == 0) return kSubmitted;
    const auto intents = run::read_lines(layout_.requeue());
    const nlohmann::json intent = intents.empty() ? nlohmann::json::object() : intents.back();
    const bool ours = intent.value("job", "") == job_.environment.id() &&
                      intent.value("restarts", std::uint64_t{0}) + 1 == job_.environment.restarts;
    if (ours) return "requeued after " + intent.value("cause", "");
    return last_has_ended() ? "requeued by Slurm or an operator"
                            : "requeued by Slurm: the attempt before was killed, or its node failed";
  }

  bool last_has_ended() const {
    std::string last;
    for (const nlohmann::json& line : run::read_lines(layout_.attempts())) {
      const std::string event = line.value("event", "");
      if (event == "slurm-begin" || event == "slurm-end") last = event;
    }
    return last != "slurm-begin";
  }

  slurm::Seen seen_by(int exit_code) {
    slurm::Seen seen;
    seen.exit_code = exit_code;
    seen.signal = signal_;
    seen.restarts = job_.environment.restarts;
    std::error_code code;
    seen.stop_asked = std::filesystem::exists(layout_.stop_request(), code);
    seen.never_trained = !trained_ && step_at_start_ > 0;
    if (signal_ == 0 || exit_code == 0) return seen;
    const auto until = Clock::now() + job_.requeue_within;
    while (!(seen.facts = answer()) && Clock::now() < until) std::this_thread::sleep_for(milliseconds(10));
    heard();
    seen.preempting = preempting_;
    seen.limit = stop_.end;
    seen.signalled_at = stop_.signalled;
    return seen;
  }

  // Earlier attempts of this job that ended by themselves and left this very step; those that others ended do
  // not count.
  int own_faults_at(std::uint64_t step) const {
    int count = 0;
    const auto lines = run::read_lines(layout_.attempts());
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
      const std::string event = line->value("event", "");
      if (event == "slurm-begin" && line->value("why", "") == kSubmitted) break;  // this job's first
      if (event != "slurm-end") continue;
      if (line->value("step", std::uint64_t{0}) != step) break;
      if (line->value("cause", "") == slurm::to_text(slurm::Cause::kOwnFault)) ++count;
    }
    return count;
  }

  std::string how_to_go_on() const {
    return "type scontrol requeue " + job_.environment.id() + ", or submit it again";
  }

  bool requeue(slurm::Cause cause, std::uint64_t step) {
    const slurm::Environment& environment = job_.environment;
    const nlohmann::json intent = {{"job", environment.id()},
                                   {"restarts", environment.restarts},
                                   {"cause", slurm::to_text(cause)},
                                   {"step", step},
                                   {"at", utc_now()}};
    if (auto written = replace_file(layout_.requeue(), intent.dump() + "\n"); !written)
      log_warning(written.error().line());  // a full disk must not cost the next attempt
    const slurm::Requeued done = slurm::requeue_once(slurm::queue_of(environment), environment.restarts,
                                                     job_.requeue_within, fresh_answer());
    if (done.accepted) {
      say(str("requeued (", slurm::to_text(cause), "): the next attempt goes on from step ", step));
      return true;
    }
    std::fprintf(stderr, "rekindle: the state of step %llu is saved, but job %s is not requeued: %s: %s\n",
                 static_cast<unsigned long long>(step), environment.id().c_str(), done.detail.c_str(),
                 done.may_be ? how_to_go_on().c_str() : "submit it again to go on");
    return false;
  }

  const SlurmJob& job_;
  const LocalOptions& options_;
  const run::Layout layout_;
  slurm::JobWatch watch_;
  SlurmNodes nodes_;
  const std::uint64_t step_at_start_;
  std::uint64_t attempt_ = 0, asked_ = 0;
  int signal_ = 0;
  slurm::Stopping stop_;  // since signal_
  bool preempting_ = false, requeued_ = false, trained_ = false;
};

}  // namespace

int run_slurm(const SlurmJob& job, const LocalOptions& options, InitialState initial) {
  SlurmSite site(job, options);
  return run_at(site, options, std::move(initial));
}

}  // namespace rekindle::app
