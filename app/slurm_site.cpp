#include "app/slurm_site.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/report.hpp"
#include "app/signals.hpp"
#include "app/slurm_nodes.hpp"
#include "app/supervisor.hpp"
#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/json_reader.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"
#include "run/terms.hpp"
#include "slurm/cause.hpp"
#include "slurm/deadline.hpp"
#include "slurm/job_watch.hpp"
#include "slurm/requeue.hpp"

namespace rekindle::app {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::system_clock;

namespace {

constexpr milliseconds kGivenUp{2000};       // of a coordinator whose node Slurm has given up
constexpr std::chrono::minutes kComesUp{2};  // a coordinator, or what is held is lost
constexpr seconds kTearDown{30};             // until Slurm ends a job that it has requeued
constexpr const char* kSubmitted = "submitted";
constexpr std::uint64_t kFutile = 3;  // attempts

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
        step_at_start_(committed_step(layout_)),
        stop_at_start_(stop_request()) {
    if (const auto intent = last_intent(); intent.value("successor", "") == job.environment.id())
      follows_ = intent.value("job", "");
  }

  // What goes wrong before the run begins. In the first attempt the user has to mend it; what worked then is
  // this node's fault, unless another run holds the directory.
  int failed_early(const Error& error) {
    const int code = report(error);
    if (!is_later_attempt() || held_by_another()) return code;
    const int done = ended(code);
    left();
    return done;
  }

  // There is nothing to save, but perhaps a next attempt to see to.
  int signalled_early(int signal) {
    on_signal(signal, false);
    const int done = ended(usual_exit_code(signal));
    left();
    return done;
  }

  // This process takes the place of a batch script that is dead. `answer`: of Slurm, just now.
  slurm::Cause succeed(const slurm::BatchHostAnswer& answer) {
    succeeds_ = answer.lost ? slurm::Cause::kBatchHostLost : slurm::Cause::kScriptKilled;
    const std::uint64_t committed = std::exchange(step_at_start_, step_at_begin());
    on_signal(SIGUSR1, false);
    if (!slurm::is_over(answer.facts)) return *succeeds_;
    // Slurm kills what is left after KillWait: the requeue comes first, and then what can be saved is saved.
    // If that could be one attempt too many, it depends on what is saved.
    stop_.terminated = system_clock::now();
    if (job_.on_limit != OnLimit::kRequeue) return *succeeds_;
    if (is_futile(*succeeds_, committed) && futile_before(committed) + 1 >= kFutile) return *succeeds_;
    note(intent(*succeeds_, committed));
    constexpr seconds kPatience{10};
    const slurm::Requeued done = slurm::requeue_once(slurm::queue_of(job_.environment),
                                                     job_.environment.restarts, kPatience, answer.facts);
    if (!done.accepted) log_warning(str("not requeued yet: ", done.detail));
    return *succeeds_;
  }

  // A stop that was asked for since this job's attempt before began, which Slurm ended first. (One that was
  // heard, or is of another job, is old.)
  bool must_not_begin() {
    if (job_.environment.restarts == 0 || stop_at_start_.empty()) return false;
    nlohmann::json begin = nlohmann::json::object(), end = begin;
    for (const nlohmann::json& line : run::read_lines(layout_.attempts())) {
      const std::string event = line.value("event", "");
      if (event == "slurm-begin") begin = line, end = nlohmann::json::object();
      if (event == "slurm-end") end = line;
    }
    constexpr JsonField kFields[] = {{"asked", JsonType::kText}};
    const auto request = parse_object(stop_at_start_, kFields, layout_.stop_request().string());
    const std::string asked = request ? request->value("asked", "") : "";
    if (begin.value("job", "") != job_.environment.id() || asked < begin.value("at", "")) return false;
    const bool heard = end.value("cause", "") == slurm::to_text(slurm::Cause::kStopped);
    if (heard && !end.value("requeued", false)) return false;
    say("rekindle stop was asked of the attempt before: submit this job again to go on");
    record({{"event", "slurm-end"},
            {"cause", slurm::to_text(slurm::Cause::kStopped)},
            {"step", step_at_start_}});
    return true;
  }

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
    if (succeeds_) {
      record({{"event", "slurm-successor"}, {"job", job_.environment.id()}, {"node", job_.environment.node}});
      return;
    }
    record({{"event", "slurm-begin"},
            {"job", job_.environment.id()},
            {"restarts", job_.environment.restarts},
            {"nodes", job_.nodes.size()},
            {"node", job_.environment.node},
            {"step", step_at_start_},
            {"why", why_begun()}});
  }

  void on_signal(int signal, bool to_worker) override {
    const auto now = system_clock::now();
    told_by_nodes_ += to_worker ? 1 : 0;
    told_here_ = told_here_ || !to_worker;
    const bool ends_it = signal == SIGTERM && (!stop_.terminated || meant_nothing(now));
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
    if (succeeds_ && has_been_succeeded()) return exit_code;  // that process sees to the job
    const slurm::Seen seen = seen_by(exit_code);
    const slurm::Cause cause = slurm::judge(seen);
    const std::uint64_t step = committed_step(layout_);
    nlohmann::json line = {{"event", "slurm-end"}, {"cause", slurm::to_text(cause)}, {"step", step}};
    // The next attempt of a complete run ends at once, in good order.
    const bool wanted =
        slurm::wants_requeue(cause, signal_) || (succeeds_ && cause == slurm::Cause::kFinished);
    if (wanted && is_futile(cause, step) && !once_more(step)) {
      line["requeued"] = false;
      record_end(line);
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
    if (cause == slurm::Cause::kStopped || (cause == slurm::Cause::kOperator && !wanted))
      say("submit the job again to go on");
    if (wanted && job_.on_limit == OnLimit::kExit)
      say("not requeued (--on-limit exit): submit it again to go on");
    requeued_ = cause == slurm::Cause::kRequeued;
    bool goes_on = requeued_;
    if (cause == slurm::Cause::kStopped && put_back()) line["requeued"] = true;  // by Slurm
    if (wanted && job_.on_limit != OnLimit::kExit) {
      goes_on = requeue(cause, step);
      line["requeued"] = goes_on;
    }
    record_end(line);
    if (succeeds_ && !requeued_) end_job();
    return goes_on ? static_cast<int>(ExitCode::kSaved) : exit_code;
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
  // Whether Slurm has said that the last SIGTERM was not the job's end, and time has passed since.
  bool meant_nothing(system_clock::time_point now) const {
    constexpr seconds kAllNodesHaveToldOfIt{2};
    const auto said = answer();
    return said && !slurm::is_over(*said) && now - *stop_.terminated > kAllNodesHaveToldOfIt;
  }

  std::string stop_request() const {
    return read_text(layout_.stop_request(), run::kMostOfANote).value_or("");
  }

  // Whether Slurm, or somebody, has requeued this job.
  bool put_back() const {
    const auto said = answer();
    return said && said->restarts > job_.environment.restarts;
  }

  // Slurm's, since the newest signal.
  std::optional<slurm::JobFacts> answer() const {
    const auto look = watch_.latest();
    if (!look || look->number < asked_) return std::nullopt;
    return look->facts;
  }

  // Without its batch script Slurm would keep the job until its time limit.
  void end_job() const {
    const auto facts = slurm::show_job(job_.environment.id());
    if (!facts || facts->restarts != job_.environment.restarts || slurm::is_over(*facts)) return;
    say(str("job ", job_.environment.id(), " has lost its batch ",
            succeeds_ == slurm::Cause::kBatchHostLost ? "host" : "script",
            " and is not requeued: it is cancelled"));
    if (const Status cancelled = slurm::cancel(job_.environment.id()); !cancelled)
      log_warning(cancelled.error().line());
  }

  nlohmann::json intent(slurm::Cause cause, std::uint64_t step) const {
    return {{"job", job_.environment.id()},
            {"restarts", job_.environment.restarts},
            {"cause", slurm::to_text(cause)},
            {"step", step},
            {"at", utc_now()}};
  }

  // One that a requeue may rely on: what is older may be of a job that others have put back since.
  std::optional<slurm::JobFacts> fresh_answer() const {
    constexpr seconds kFresh{2};
    const auto look = watch_.latest();
    return look && Clock::now() - look->at < kFresh ? answer() : std::nullopt;
  }

  std::size_t nodes_left() const {
    std::size_t left = 0;
    for (std::size_t machine = 0; machine < job_.nodes.size(); ++machine)
      left += nodes_.gone(machine) ? 0 : 1;
    return left;
  }

  // Whether an earlier attempt of this job, or the job that submitted this one, has begun.
  bool is_later_attempt() const { return job_.environment.restarts > 0 || !follows_.empty(); }

  // Whether a live run of another job, or a later attempt of this one, has the run directory.
  bool held_by_another() const {
    const auto holder = run::newest_term(layout_);
    if (!holder || !*holder || run::provably_gone(**holder)) return false;
    return (*holder)->slurm_job != job_.environment.job ||
           (*holder)->slurm_restarts != job_.environment.restarts;
  }

  // Whether another process has claimed the run after this one.
  bool has_been_succeeded() const {
    const auto holder = run::newest_term(layout_);
    return holder && *holder && !(*holder)->ended && (*holder)->slurm_node != job_.environment.node;
  }

  // attempts.jsonl tells of the run that holds the directory: no end of another attempt belongs there.
  void record_end(const nlohmann::json& line) {
    if (!held_by_another()) record(line);
  }

  bool record(nlohmann::json line) {
    line["attempt"] = attempt_;
    line["at"] = utc_now();
    const Status recorded = run::record_attempt(layout_, line);
    if (!recorded) log_warning(recorded.error().line());
    return recorded.has_value();
  }

  // What was asked of Slurm last, for the attempt that comes of it.
  void note(const nlohmann::json& intent) const {
    if (auto written = replace_file(layout_.requeue(), intent.dump() + "\n"); !written)
      log_warning(written.error().line());  // a full disk must not cost the next attempt
  }

  nlohmann::json last_intent() const {
    const auto intents = run::read_lines(layout_.requeue());
    return intents.empty() ? nlohmann::json::object() : intents.back();
  }

  // The step of which this attempt's beginning is recorded; the committed one if it is not.
  std::uint64_t step_at_begin() const {
    std::uint64_t step = step_at_start_;
    for (const nlohmann::json& line : run::read_lines(layout_.attempts())) {
      if (line.value("event", "") == "slurm-begin" && line.value("job", "") == job_.environment.id() &&
          line.value("restarts", std::uint64_t{0}) == job_.environment.restarts)
        step = line.value("step", std::uint64_t{0});
    }
    return step;
  }

  std::string why_begun() const {
    const nlohmann::json intent = last_intent();
    if (job_.environment.restarts == 0)
      return follows_.empty() ? kSubmitted : "resubmitted after " + intent.value("cause", "");
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
    // What keeps a later attempt from beginning is no fault of the command line or the configuration: they
    // have not changed.
    const bool refused =
        exit_code == static_cast<int>(ExitCode::kConfig) || exit_code == static_cast<int>(ExitCode::kUsage);
    const bool may_pass = refused && attempt_ == 0 && is_later_attempt() && !held_by_another();
    seen.exit_code = may_pass ? static_cast<int>(ExitCode::kGaveUp) : exit_code;
    seen.signal = signal_;
    seen.restarts = job_.environment.restarts;
    const std::string stop = stop_request();
    // The first coordinator of an attempt removes those of older ones.
    seen.stop_asked = !stop.empty() && (succeeds_ || stop != stop_at_start_);
    seen.never_trained = !trained_ && step_at_start_ > 0;
    seen.batch_host_lost = succeeds_ == slurm::Cause::kBatchHostLost;
    seen.script_killed = succeeds_ == slurm::Cause::kScriptKilled;
    if (signal_ == 0 || exit_code == 0) return seen;
    const auto until = Clock::now() + job_.requeue_within;
    while (!(seen.facts = answer()) && Clock::now() < until) std::this_thread::sleep_for(milliseconds(10));
    heard();
    // The node was set down by hand, and Slurm lets this process live for a moment.
    if (const auto look = watch_.latest())
      seen.batch_host_lost =
          seen.batch_host_lost || (!succeeds_ && slurm::has_lost_batch_host(look->facts, look->nodes));
    seen.preempting = preempting_;
    seen.some_nodes_alone = !told_here_ && told_by_nodes_ < nodes_left();
    seen.limit = stop_.end;
    seen.signalled_at = stop_.signalled;
    return seen;
  }

  // Whether this attempt did what the next one would only do again: it ended by itself, or had all its time
  // and saved nothing. What others did to it does not count.
  bool is_futile(slurm::Cause cause, std::uint64_t step) const {
    return cause == slurm::Cause::kFailed ||
           (cause != slurm::Cause::kPreemption && cause != slurm::Cause::kNodeLeaves &&
            cause != slurm::Cause::kBatchHostLost && step == step_at_start_);
  }

  // How many attempts in a row have saved nothing beyond this step, as far as they were counted.
  std::uint64_t futile_before(std::uint64_t step) const {
    std::uint64_t number = 0;
    for (const nlohmann::json& line : run::read_lines(layout_.attempts())) {
      const std::string job = line.value("job", "");
      if (line.value("event", "") != "slurm-futile" || (job != job_.environment.id() && job != follows_))
        continue;
      number = line.value("step", std::uint64_t{0}) == step ? line.value("number", std::uint64_t{0}) : 0;
    }
    return number;
  }

  // Counts it. False: it was one too many in a row, or one that cannot be counted, which could go on for
  // ever.
  bool once_more(std::uint64_t step) {
    const std::uint64_t number = futile_before(step) + 1;
    const bool counted = record(
        {{"event", "slurm-futile"}, {"job", job_.environment.id()}, {"step", step}, {"number", number}});
    if (number < kFutile && counted) return true;
    warn(str(number, " attempts in a row saved nothing beyond step ", step,
             counted ? "" : ", and that cannot be written down", ": see ", layout_.attempts().string()));
    return false;
  }

  std::string how_to_go_on() const {
    return "type scontrol requeue " + job_.environment.id() + ", or submit it again";
  }

  // Or, where jobs may not be, a job that follows this one. Whether there is a next attempt now.
  bool requeue(slurm::Cause cause, std::uint64_t step) {
    const slurm::Environment& environment = job_.environment;
    nlohmann::json asked = intent(cause, step);
    note(asked);
    const bool resubmit = job_.on_limit == OnLimit::kResubmit;
    std::string successor;
    const slurm::Queue queue =
        resubmit ? slurm::resubmission_of(environment, layout_.resubmit_script().path(), successor)
                 : slurm::queue_of(environment);
    const slurm::Requeued done = slurm::requeue_once(queue, environment.restarts, job_.requeue_within,
                                                     resubmit ? std::nullopt : fresh_answer());
    requeued_ = done.accepted && successor.empty();
    if (!done.accepted) {
      warn(str("the state of step ", step, " is saved, but job ", environment.id(), " is not ",
               resubmit ? "submitted again" : "requeued", ": ", done.detail, ": ",
               done.may_be && !resubmit ? how_to_go_on() : "submit it again to go on"));
      return false;
    }
    if (!successor.empty()) {
      asked["successor"] = successor;
      note(asked);
    }
    const std::string how = successor.empty() ? "requeued" : "resubmitted as job " + successor;
    say(str(how, " (", slurm::to_text(cause), "): the next attempt goes on from step ", step));
    return true;
  }

  const SlurmJob& job_;
  const LocalOptions& options_;
  const run::Layout layout_;
  slurm::JobWatch watch_;
  SlurmNodes nodes_;
  std::uint64_t step_at_start_;      // the committed one, when the attempt began
  const std::string stop_at_start_;  // what the run has been asked before
  std::string follows_;              // the job that submitted this one; else empty
  std::uint64_t attempt_ = 0, asked_ = 0;
  std::size_t told_by_nodes_ = 0;  // signals
  bool told_here_ = false;
  // This process succeeds the batch script, which died for this reason. nullopt: it is the batch script's.
  std::optional<slurm::Cause> succeeds_;
  int signal_ = 0;
  slurm::Stopping stop_;  // since signal_
  bool preempting_ = false, requeued_ = false, trained_ = false;
};

}  // namespace

int fail_slurm(const SlurmJob& job, const LocalOptions& options, const Error& error) {
  return SlurmSite(job, options).failed_early(error);
}

int end_slurm_early(SlurmJob job, const LocalOptions& options, int signal) {
  const auto facts = patiently(job.requeue_within, [&] { return slurm::show_job(job.environment.job); });
  if (facts) correct(job.environment, *facts);
  if (const Status there = check_run_is_there(job, options.run_dir); !there) return report(there.error());
  // For the record of attempts; what cannot be counted is not requeued.
  if (const Status made = make_directories(options.run_dir, 0700); !made) log_warning(made.error().line());
  return SlurmSite(job, options).signalled_early(signal);
}

Result<TakenOver> succeed_slurm(const SlurmJob& job, const LocalOptions& options,
                                const slurm::BatchHostAnswer& answer, const run::Holder& lost) {
  SlurmSite site(job, options);
  const slurm::Cause cause = site.succeed(answer);
  TakeOver how;
  how.attempt = run::newest_attempt(run::Layout(options.run_dir));
  how.term = lost.term;
  if (lost.slurm_node == job.batch_host) how.patience = kGivenUp;  // and else as for any process
  how.within = kComesUp;
  how.stop = protocol::StopRun{static_cast<int>(ExitCode::kSaved), slurm::to_text(cause), 0};
  Workers none(site.machines(), {});  // those on the other nodes find the new coordinator by themselves
  return take_over(site, options, none, how);
}

int run_slurm(const SlurmJob& job, const LocalOptions& options, InitialState initial) {
  SlurmSite site(job, options);
  if (site.must_not_begin()) return static_cast<int>(ExitCode::kSaved);
  return run_at(site, options, std::move(initial));
}

}  // namespace rekindle::app
