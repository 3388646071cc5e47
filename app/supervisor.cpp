#include "app/supervisor.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "app/local_site.hpp"
#include "app/prepare.hpp"
#include "app/progress.hpp"
#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/signals.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "protocol/wire.hpp"
#include "run/layout.hpp"
#include "run/terms.hpp"

namespace rekindle::app {

using namespace protocol;

namespace {

constexpr auto kGrace = std::chrono::seconds(15);    // for processes to go after the run has ended
constexpr auto kSilence = std::chrono::seconds(15);  // of a coordinator
constexpr auto kTakeover = std::chrono::minutes(2);  // until one that replaces another has said a word
constexpr auto kClaim = std::chrono::minutes(10);    // until the first has: it may have to wait for its term
constexpr auto kHeldUp = std::chrono::seconds(3);    // a turn that took longer: this process was suspended
constexpr int kCoordinatorCrashes = 8;               // in a row
constexpr int kTriesToListen = 3;                    // where other machines reach the coordinator

bool good_end(int exit_code) { return exit_code == 0 || exit_code == 75 || exit_code == 130; }

class Supervisor {
 public:
  Supervisor(Site& site, const LocalOptions& options, InitialState initial, Workers& workers)
      : site_(site),
        options_(options),
        initial_(std::move(initial)),
        layout_(options.run_dir),
        workers_(workers) {}
  Supervisor(Site& site, const LocalOptions& options, Workers& workers, const TakeOver& how)
      : Supervisor(site, options, InitialState{}, workers) {
    taking_over_ = how;
    attempt_ = how.attempt;
    stop_ = how.stop;
  }

  // nullopt: a run that was to be taken over has another supervisor.
  Result<TakenOver> run() {
    REKINDLE_TRY(signals_, take_signals());
    REKINDLE_CHECK(start_coordinator());
    while (!ended_) REKINDLE_CHECK(turn());
    if (!exit_code_) {
      if (coordinator_) wait_for(coordinator_->child);
      return TakenOver{std::nullopt, signal_};
    }
    const int exit_code = end_site(*exit_code_);
    workers_.dismiss();
    const auto until = Clock::now() + kGrace;
    while ((coordinator_ || workers_.running()) && Clock::now() < until) {
      if (auto status = turn(); !status) break;
    }
    if (coordinator_ || workers_.running()) {
      view_.say(str("warning: ", coordinator_ ? "the coordinator" : "a worker",
                    " did not leave at the end: it is killed"));
    }
    kill_all();
    site_.left();
    return TakenOver{exit_code, signal_};
  }

  // Tells the site, once. Returns what this process exits with.
  int end_site(int exit_code) {
    if (!site_exit_code_) site_exit_code_ = site_.ended(exit_code);
    return *site_exit_code_;
  }

  void kill_all() {
    if (coordinator_) kill_child(coordinator_->child, SIGKILL), wait_for(coordinator_->child);
    coordinator_.reset();
    workers_.kill_all();
    mark_end();
  }

 private:
  // A coordinator that was killed could not say that the run has ended: no helper is to take it over.
  void mark_end() {
    const auto newest = run::newest_term(layout_);
    if (!newest || !*newest || (*newest)->ended) return;
    const Status marked = run::end_term(layout_, (*newest)->term);  // if it is this process's
    if (!marked) log_warning(marked.error().line());
  }

  // Whether another process has taken the run over and ended it.
  bool has_ended() const {
    const auto newest = run::newest_term(layout_);
    return newest && *newest && (*newest)->ended && !(*newest)->orphaned;
  }

  Status start_coordinator() {
    coordinator_started_ = heard_at_ = Clock::now();
    up_ = false;
    protocol::Job job = options_.job;
    if (cannot_listen_ >= kTriesToListen) save_only(job);
    std::vector<std::string> arguments{
        "coordinator", "--run-dir",  options_.run_dir,  "--trainers", str(site_.trainers()),     "--attempt",
        str(attempt_), "--old-stop", options_.old_stop, "--job",      nlohmann::json(job).dump()};
    if (taking_over_ && !taken_)
      arguments.insert(arguments.end(), {"--patience-ms", str(taking_over_->patience.count()), "--lost-term",
                                         str(taking_over_->term)});
    REKINDLE_TRY(coordinator_, start_control(arguments));
    return {};
  }

  // No coordinator comes up where others could reach it (its ports are taken, say): what this machine's
  // trainers hold is saved, and the run ends.
  void save_only(protocol::Job& job) {
    job.interface = "127.0.0.1";
    job.port_range.clear();
    if (std::exchange(saves_only_, true)) return;
    view_.say(
        "warning: no coordinator can listen where other machines reach it: "
        "what this machine's trainers hold is saved");
    stop_ = StopRun{static_cast<int>(ExitCode::kSaved), "the run lost its first process", 0};
  }

  // This machine may be short of processes or memory for a while.
  void restart_coordinator() {
    // They were dismissed at the end: it died when all was done but its own end. Any other code: they were
    // left out, and the run may go on with workers elsewhere.
    const bool over = good_end(workers_.exit_code()) && workers_.done();
    if (over)
      return on_end(
          {workers_.exit_code(), "the run ended, and its coordinator died: see logs/coordinator.log"});
    if (const Status started = start_coordinator(); !started) {
      view_.say(str("warning: ", started.error().line()));
      coordinator_restart_at_ = Clock::now() + start_backoff_.next(coordinator_started_);
    }
  }

  // Waits for something to happen and handles it.
  Status turn() {
    std::vector<pollfd> waits{{signals_.get(), POLLIN, 0}};
    waits.push_back({coordinator_ && coordinator_->channel ? coordinator_->channel->fd() : -1, POLLIN, 0});
    waits.push_back({coordinator_ ? coordinator_->child.pidfd.get() : -1, POLLIN, 0});
    waits.push_back({site_.fd(), POLLIN, 0});
    workers_.watch(waits);
    if (::poll(waits.data(), waits.size(), static_cast<int>(kTurn.count())) < 0) return {};
    if (waits[0].revents != 0) on_signal();  // a second Ctrl-C kills all: nobody is left to look at
    if (coordinator_ && waits[1].revents != 0) {
      REKINDLE_CHECK(hear_coordinator());
    } else if (coordinator_ && waits[2].revents != 0) {
      on_coordinator_end();
    }
    if (waits[3].revents != 0) site_.heard();
    const auto of_workers = std::span(waits).subspan(4);
    for (const std::string& line : workers_.read(of_workers)) on_worker_line(line);
    for (const Workers::End& end : workers_.reap(of_workers)) on_worker_end(end);
    if (ended_) return {};
    if (stop_) tell_if_sooner();
    judge_coordinator();
    judge_take_over();
    if (!ended_ && !coordinator_ && Clock::now() >= coordinator_restart_at_) restart_coordinator();
    workers_.restart_due();
    view_.tick();
    return {};
  }

  void on_signal() {
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) return;
    const bool interrupt = info.ssi_signo == SIGINT;
    if (interrupt && interrupted_) {
      view_.say("second Ctrl-C: leaving at once, without saving");
      ended_ = true;
      exit_code_ = static_cast<int>(ExitCode::kInterrupted);
      kill_all();
      return;
    }
    if (interrupt)
      view_.say(
          "Ctrl-C: the run saves its state and ends; press Ctrl-C again to leave at once without saving");
    interrupted_ = interrupted_ || interrupt;
    if (signal_ == 0) signal_ = static_cast<int>(info.ssi_signo);
    stop(static_cast<int>(info.ssi_signo), false);
  }

  void stop(int signal, bool to_worker) {
    site_.on_signal(signal, to_worker);
    const char* name = ::sigabbrev_np(signal);
    // Kept until the run ends: a coordinator that is started again has to hear of it, too.
    if (!stop_) {
      stop_ = StopRun{static_cast<int>(signal == SIGINT ? ExitCode::kInterrupted : ExitCode::kSaved),
                      str("SIG", name != nullptr ? name : "?", to_worker ? " on a node" : ""), 0};
    }
    tell_stop();
  }

  void tell_stop() {
    limit_ = site_.limit();
    if (limit_) {
      const auto left = std::chrono::floor<std::chrono::milliseconds>(*limit_ - Clock::now()).count();
      stop_->within_ms = std::max<std::int64_t>(1, left);
    }
    tell(*stop_);
  }

  void tell_if_sooner() {
    constexpr std::chrono::milliseconds kWorthIt{300};
    const auto limit = site_.limit();
    if (limit && (!limit_ || *limit < *limit_ - kWorthIt)) tell_stop();
  }

  void tell(const ToCoordinator& message) {
    if (!coordinator_ || !coordinator_->channel) return;
    if (auto sent = coordinator_->channel->send(encode(message)); !sent) log_warning(sent.error().line());
  }

  Status hear_coordinator() {
    auto text = coordinator_->channel->receive();
    if (!text || !*text) {
      coordinator_->channel.reset();  // its end follows on the pidfd
      return {};
    }
    heard_at_ = Clock::now();
    REKINDLE_TRY(const ToSupervisor message, decode<ToSupervisor>(**text));
    if (const auto* up = std::get_if<CoordinatorUp>(&message)) return on_coordinator_up(*up);
    if (const auto* say = std::get_if<Say>(&message)) view_.say(say->line);
    if (const auto* beat = std::get_if<CoordinatorBeat>(&message); beat != nullptr && beat->running)
      view_.first_step();
    if (const auto* progress = std::get_if<Progress>(&message)) {
      site_.trains();
      view_.show(*progress);
    }
    if (const auto* ending = std::get_if<Ending>(&message)) on_ending(*ending);
    if (const auto* end = std::get_if<Ended>(&message)) on_end(*end);
    return {};
  }

  Status on_coordinator_up(const CoordinatorUp& up) {
    up_ = true;
    const bool first = attempt_ == 0;
    attempt_ = up.attempt;
    if (stop_) tell_stop();
    if (!first) {
      if (taking_over_ && !std::exchange(taken_, true)) {
        if (!taking_over_->announcement.empty()) view_.say(taking_over_->announcement);
        site_.begun(attempt_);
      }
      return {};
    }
    site_.begun(attempt_);
    // Only the holder of a term may say what the run is.
    REKINDLE_CHECK(keep_initial_state(initial_, options_, layout_));
    initial_ = {};
    REKINDLE_CHECK(replace_file(layout_.config(), to_toml(options_.job)));
    return workers_.start_all(up.term);
  }

  // Whoever waits for this run to be saved need not wait for trainers to go.
  void on_ending(const Ending& ending) {
    if (ending.exit_code == static_cast<int>(ExitCode::kSaved)) end_site(ending.exit_code);
  }

  void on_end(const Ended& end) {
    if (exit_code_) return;
    ended_ = true;
    // Somebody else was faster, or the run's own supervisor lives.
    if (taking_over_ && !taken_ && end.exit_code == static_cast<int>(ExitCode::kConfig)) return;
    exit_code_ = end.exit_code;
    if (good_end(end.exit_code)) {
      view_.say(end.line);
      if (const std::string line = end.exit_code == 0 ? completed_line(options_) : ""; !line.empty())
        view_.say(line);
      // The command of a helper trains nothing by itself.
      if (taking_over_ && end.exit_code != 0)
        view_.say(str("to go on, start the run in ", layout_.root().string(),
                      " with its own command, as at its start"));
    } else {
      view_.say("");
      warn(end.line);
    }
  }

  // Training does not need it; but nobody else can mend a generation or save the state.
  void on_coordinator_end() {
    const ExitStatus status = wait_for(coordinator_->child);
    coordinator_.reset();
    if (taking_over_ && !taken_ && !status.by_signal && status.code == kCannotListen) ++cannot_listen_;
    if (ended_) return;
    const std::string how =
        str("the coordinator ", status.by_signal ? "was killed by signal " : "ended with exit code ",
            status.code);
    // One that never came up and says why has something to mend. One that is started again and cannot come up
    // waits for a disk or a port, and one that somebody killed was well: trainers do without meanwhile.
    const bool refused = attempt_ == 0 && !status.by_signal;
    const bool well = !status.by_signal || (status.code == SIGKILL && !std::exchange(hung_, false));
    const auto pause = (well ? start_backoff_ : backoff_).next(coordinator_started_);
    if (refused || backoff_.crashes() > kCoordinatorCrashes)
      return on_end({70, str(how, ": ", how_to_start_again(), " from the last checkpoint")});
    view_.say(str("warning: ", how, ": it is started again, training goes on"));
    coordinator_restart_at_ = Clock::now() + pause;
  }

  std::string how_to_start_again() const {
    if (launched_by_slurm(options_.job)) return "the next attempt goes on";
    // The command of a helper trains nothing by itself.
    return taking_over_ ? "start the run again with its own command: it goes on"
                        : "run the same command again: it goes on";
  }

  // It sends a word a second. One that was silent for long hangs, unless this process was itself held up.
  void judge_coordinator() {
    const auto now = Clock::now();
    if (now - turned_at_ > kHeldUp) heard_at_ = now;
    turned_at_ = now;
    // The first one may wait long for its term; one that replaces another is known to hold it.
    const auto limit = up_ ? kSilence : attempt_ == 0 ? kClaim : kTakeover;
    if (!coordinator_ || now - heard_at_ < limit) return;
    view_.say("warning: the coordinator hangs: it is killed");
    kill_child(coordinator_->child, SIGKILL);
    hung_ = true;
    heard_at_ = now;
  }

  void judge_take_over() {
    if (!taking_over_ || taken_) return;
    // Its workers wait for a coordinator for --wait, too, and have then left with what they held.
    const bool left = workers_.done() && !has_ended();
    if (!left && Clock::now() - began_ < taking_over_->within) return;
    on_end({static_cast<int>(ExitCode::kGaveUp),
            "the run has lost its first process, and this helper cannot take its place: start the run again "
            "with its own command; the steps since the last checkpoint are lost"});
  }

  void on_worker_end(const Workers::End& end) {
    if (ended_) return;
    site_.lost_worker();
    tell(WorkerDied{end.worker, end.status.by_signal, end.status.code});
  }

  // Slurm may signal the nodes alone, or long before this process.
  void on_worker_line(const std::string& line) {
    if (ended_) return;
    if (const auto signal = signal_in(line))
      stop(*signal, true);
    else if (!site_.is_noise(line))
      view_.say(line);
  }

  Site& site_;
  const LocalOptions& options_;
  InitialState initial_;  // until it is on disk
  run::Layout layout_;
  ProgressView view_;
  Fd signals_;
  std::optional<Process> coordinator_;
  Workers& workers_;
  std::optional<TakeOver> taking_over_;
  Backoff backoff_, start_backoff_;
  std::uint64_t attempt_ = 0;  // 0: no coordinator has been up yet
  int cannot_listen_ = 0;      // coordinators of a run that was to be taken over
  bool saves_only_ = false;    // what this machine's trainers hold: no other machine reaches the coordinator
  int signal_ = 0;             // the first that came to this process
  bool taken_ = false;         // a run that was to be taken over is this process's
  const Clock::time_point began_ = Clock::now();
  bool up_ = false, ended_ = false, interrupted_ = false, hung_ = false;
  Clock::time_point coordinator_started_, coordinator_restart_at_, heard_at_ = Clock::now(),
                                                                   turned_at_ = Clock::now();
  std::optional<StopRun> stop_;
  std::optional<Clock::time_point> limit_;         // of the stop, as told last
  std::optional<int> exit_code_, site_exit_code_;  // the run's; what the site makes of it
};

}  // namespace

int run_at(Site& site, const LocalOptions& options, InitialState initial) {
  Workers workers(site.machines(), site.worker_arguments());
  Supervisor supervisor(site, options, std::move(initial), workers);
  const auto exit_code = supervisor.run();
  if (exit_code) return *exit_code->exit_code;  // it is there: nothing was taken over
  supervisor.kill_all();
  report(exit_code.error());
  return supervisor.end_site(static_cast<int>(exit_code.error().code));
}

Result<TakenOver> take_over(Site& site, const LocalOptions& options, Workers& workers, const TakeOver& how) {
  return Supervisor(site, options, workers, how).run();
}

int run_local(const LocalOptions& options, InitialState initial) {
  LocalSite site(options);
  return run_at(site, options, std::move(initial));
}

}  // namespace rekindle::app
