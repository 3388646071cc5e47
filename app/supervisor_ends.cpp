// The end of a run in its supervisor: the coordinator's end, a lost coordinator, a failed take-over.
#include <unistd.h>

#include "app/completed.hpp"
#include "app/report.hpp"
#include "app/supervisor_loop.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "run/terms.hpp"

namespace rekindle::app {

using namespace protocol;

namespace {

// How long a coordinator may be silent: kSilence while the coordinator is up; kTakeover until a replacement
// is up; kClaim until the first coordinator is up, which may have to wait for its term.
constexpr auto kSilence = std::chrono::seconds(15);
constexpr auto kTakeover = std::chrono::minutes(2);
constexpr auto kClaim = std::chrono::minutes(10);

bool good_end(int exit_code) { return exit_code == 0 || exit_code == 75 || exit_code == 130; }

}  // namespace

int Supervisor::end_site(const RunResult& result) {
  if (!end_.site_exit_code) end_.site_exit_code = site_.ended(result);
  return *end_.site_exit_code;
}

void Supervisor::kill_all() {
  coordinator_.kill();
  workers_.kill_all();
  mark_end();
}

void Supervisor::mark_end() {
  const auto newest = run::newest_term(layout_);
  if (!newest || !*newest || (*newest)->ended) return;
  const Status marked = run::end_term(layout_, (*newest)->term);  // does nothing for another process's term
  if (!marked) log_warning(marked.error().line());
}

bool Supervisor::has_ended() const {
  const auto newest = run::newest_term(layout_);
  return newest && *newest && (*newest)->ended && !(*newest)->orphaned;
}

bool Supervisor::another_took_over() const {
  const auto newest = run::newest_term(layout_);
  if (!newest || !*newest || (*newest)->term <= taking_over_->how.term) return false;
  return !run::visible(**newest) || (*newest)->supervisor_pid != ::getpid();
}

void Supervisor::save_only(protocol::Job& job) {
  job.interface = "127.0.0.1";
  job.port_range.clear();
  if (std::exchange(taking_over_->saves_only, true)) return;
  view_.warn(
      "no coordinator can listen on an address that other machines can reach: "
      "the state of this machine's trainers is saved");
  stop_.request = StopRun{static_cast<int>(ExitCode::kSaved), "the run lost its first process", Time(0)};
}

void Supervisor::restart_coordinator() {
  // A good exit code means that the workers were dismissed at the end of the run, so the coordinator died
  // after that. With any other code, the run may go on with workers on other machines.
  const bool over = good_end(workers_.exit_code()) && workers_.done();
  if (over)
    return on_end(
        {workers_.exit_code(), "the run ended, but its coordinator died (see logs/coordinator.log)"});
  if (const Status started = start_coordinator(); !started) {
    view_.warn(started.error().line());
    coordinator_.schedule_retry();
  }
}

void Supervisor::on_end(const Ended& end) {
  if (end_.exit_code) return;
  end_.ended = true;
  // Another process took the run over first, or the run's own supervisor is alive.
  if (must_take_over() && end.exit_code == static_cast<int>(ExitCode::kConfig)) return;
  end_.exit_code = end.exit_code;
  end_.may_pass = end.may_pass;
  if (good_end(end.exit_code)) {
    view_.say(end.exit_code == 0 ? end.line : end.line + how_to_go_on());
    if (const std::string line = end.exit_code == 0 ? completed_line(options_) : ""; !line.empty())
      view_.say(line);
  } else {
    view_.say("");
    warn(end.line);
  }
}

void Supervisor::on_coordinator_end() {
  const ExitStatus status = coordinator_.reap();
  if (must_take_over() && !status.by_signal && status.code == kCannotListen) ++taking_over_->cannot_listen;
  if (end_.ended) return;
  const std::string how = str(
      "the coordinator ", status.by_signal ? "was killed by signal " : "ended with exit code ", status.code);
  // A first coordinator that ends by itself before it is up has printed an error for the user. Without a
  // later coordinator, the trainers go on.
  const bool refused = attempt_ == 0 && !status.by_signal;
  if (!coordinator_.schedule_restart(status) || refused)
    return on_end({70, str(how, ": ", how_to_start_again(), " from the last checkpoint"), true, !refused});
  view_.warn(str(how, ": the supervisor starts a new one, training goes on"));
}

// The end of the line of a run that was stopped.
std::string Supervisor::how_to_go_on() const {
  if (launched_by_slurm(options_.job)) return "";  // the site says whether Slurm starts the run again
  // The command of this process, rekindle join, cannot start the run.
  return taking_over_ ? str(": start the run in ", layout_.root().string(), " with its own command to go on")
                      : ": run the same command again to go on";
}

std::string Supervisor::how_to_start_again() const {
  if (launched_by_slurm(options_.job)) return "the next attempt goes on";
  // The command of this process, rekindle join, cannot start the run.
  return taking_over_ ? "start the run again with its own command: it goes on"
                      : "run the same command again: it goes on";
}

void Supervisor::judge_coordinator() {
  const auto limit = coordinator_.is_up() ? kSilence : attempt_ == 0 ? kClaim : kTakeover;
  if (coordinator_.kill_if_silent(limit)) view_.warn("the coordinator hangs and is killed");
}

void Supervisor::judge_take_over() {
  if (!must_take_over()) return;
  // The other process may even have ended the run and dismissed these workers by now, before the coordinator
  // of this process has seen its claim.
  if (workers_.done() && another_took_over())
    return on_end({static_cast<int>(ExitCode::kConfig), "another process has taken over the run"});
  // The workers also wait for a coordinator for --wait. If they have left, their state is lost.
  const bool left = workers_.done() && !has_ended();
  if (!left && Clock::now() - taking_over_->began < taking_over_->how.within) return;
  on_end({static_cast<int>(ExitCode::kGaveUp),
          "the run has lost its first process, and this rekindle join cannot replace that process: start the "
          "run again with its own command; the steps since the last checkpoint are lost"});
}

}  // namespace rekindle::app
