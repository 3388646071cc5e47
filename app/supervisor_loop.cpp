#include "app/supervisor_loop.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "app/environment_note.hpp"
#include "app/run_config.hpp"
#include "app/script_copy.hpp"
#include "app/signals.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace rekindle::app {

using namespace protocol;

namespace {

constexpr auto kGrace = std::chrono::seconds(15);  // until all processes must have exited after the run's end
constexpr int kTriesToListen = 3;                  // on an address that other machines can reach

}  // namespace

Supervisor::Supervisor(Site& site, const LocalOptions& options, Beginning beginning, Workers& workers)
    : site_(site),
      options_(options),
      beginning_(std::move(beginning)),
      layout_(options.layout()),
      workers_(workers) {}

Supervisor::Supervisor(Site& site, const LocalOptions& options, Workers& workers, const TakeOver& how)
    : Supervisor(site, options, Beginning{}, workers) {
  taking_over_ = TakingOver{.how = how};
  attempt_ = how.attempt;
  stop_.request = how.stop;
}

Result<TakenOver> Supervisor::run() {
  REKINDLE_TRY(signals_, take_signals());
  REKINDLE_CHECK(start_coordinator());
  while (!end_.ended) REKINDLE_CHECK(turn());
  if (!end_.exit_code) {
    coordinator_.wait();
    return TakenOver{std::nullopt, stop_.signal};
  }
  const int exit_code = end_site({*end_.exit_code, end_.may_pass});
  workers_.dismiss();
  const auto until = Clock::now() + kGrace;
  while ((coordinator_.runs() || workers_.running()) && Clock::now() < until) {
    if (auto status = turn(); !status) break;
  }
  if (coordinator_.runs() || workers_.running()) {
    view_.warn(str(coordinator_.runs() ? "the coordinator" : "a worker",
                   " did not exit at the end of the run and is killed"));
  }
  kill_all();
  site_.left();
  return TakenOver{exit_code, stop_.signal};
}

Status Supervisor::start_coordinator() {
  protocol::Job job = options_.job;
  if (taking_over_ && taking_over_->cannot_listen >= kTriesToListen) save_only(job);
  std::vector<std::string> arguments = layout_.options();
  arguments.insert(arguments.begin(), "coordinator");
  arguments.insert(arguments.end(), {"--trainers", str(site_.trainers()), "--attempt", str(attempt_),
                                     "--old-stop", options_.old_stop, "--job", nlohmann::json(job).dump()});
  if (!options_.time_limit.empty()) arguments.insert(arguments.end(), {"--time-limit", options_.time_limit});
  if (must_take_over())
    arguments.insert(arguments.end(), {"--patience-ms", str(taking_over_->how.patience.count()),
                                       "--lost-term", str(taking_over_->how.term)});
  return coordinator_.start(arguments);
}

Status Supervisor::turn() {
  std::vector<pollfd> waits{{signals_.get(), POLLIN, 0}};
  waits.push_back({coordinator_.messages_fd(), POLLIN, 0});
  waits.push_back({coordinator_.end_fd(), POLLIN, 0});
  waits.push_back({site_.fd(), POLLIN, 0});
  workers_.watch(waits);
  if (::poll(waits.data(), waits.size(), static_cast<int>(kTurn.count())) < 0) return {};
  if (waits[0].revents != 0)
    on_signal();  // a second Ctrl-C kills all children, so the code below must check that they run
  if (coordinator_.runs() && waits[1].revents != 0) {
    REKINDLE_CHECK(on_message());
  } else if (coordinator_.runs() && waits[2].revents != 0) {
    on_coordinator_end();
  }
  if (waits[3].revents != 0) site_.on_readable();
  const auto of_workers = std::span(waits).subspan(4);
  for (const std::string& line : workers_.read(of_workers)) on_worker_line(line);
  for (const Workers::End& end : workers_.reap(of_workers)) on_worker_end(end);
  if (end_.ended) return {};
  if (stop_.request) send_stop_if_sooner();
  if (!end_.site_exit_code) site_.await_save();
  judge_coordinator();
  judge_take_over();
  if (!end_.ended && coordinator_.restart_is_due()) restart_coordinator();
  workers_.restart_due();
  return {};
}

void Supervisor::on_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != sizeof info) return;
  const bool interrupt = info.ssi_signo == SIGINT;
  if (interrupt && stop_.interrupted) {
    view_.say("second Ctrl-C: leaving at once; what is not saved by now is lost");
    end_.ended = true;
    end_.exit_code = static_cast<int>(ExitCode::kInterrupted);
    kill_all();
    return;
  }
  if (interrupt)
    view_.say("Ctrl-C: the run saves its state and ends; press Ctrl-C again to leave at once without saving");
  stop_.interrupted = stop_.interrupted || interrupt;
  if (stop_.signal == 0) stop_.signal = static_cast<int>(info.ssi_signo);
  stop(static_cast<int>(info.ssi_signo), false);
}

void Supervisor::stop(int signal, bool to_worker) {
  site_.on_signal(signal, to_worker);
  const char* name = ::sigabbrev_np(signal);
  // Kept until the run ends, because a restarted coordinator needs the request, too.
  if (!stop_.request) {
    stop_.request = StopRun{static_cast<int>(signal == SIGINT ? ExitCode::kInterrupted : ExitCode::kSaved),
                            str("SIG", name != nullptr ? name : "?", to_worker ? " on a node" : ""), Time(0)};
  }
  send_stop();
}

void Supervisor::send_stop() {
  stop_.limit = site_.limit();
  if (stop_.limit) {
    const Time left = std::chrono::floor<Time>(*stop_.limit - Clock::now());
    stop_.request->within = std::max(Time(1), left);
  }
  coordinator_.send(*stop_.request);
}

void Supervisor::send_stop_if_sooner() {
  constexpr std::chrono::milliseconds kWorthIt{300};
  const auto limit = site_.limit();
  if (limit && (!stop_.limit || *limit < *stop_.limit - kWorthIt)) send_stop();
}

Status Supervisor::on_message() {
  REKINDLE_TRY(const auto message, coordinator_.receive());
  if (!message) return {};
  return std::visit([this](const auto& each) { return take(each); }, *message);
}

Status Supervisor::take(const Say& say) {
  view_.say(say.line);
  return {};
}

Status Supervisor::take(const CoordinatorBeat& beat) {
  if (coordinator_.is_up()) view_.on_activity(beat.activity);  // otherwise it still reads the records
  return {};
}

Status Supervisor::take(const Progress& progress) {
  site_.trains();
  view_.show(progress);
  return {};
}

Status Supervisor::take(const Ended& ended) {
  if (ended.over)
    on_end(ended);
  else if (ended.exit_code == static_cast<int>(ExitCode::kSaved))
    end_site({ended.exit_code});
  return {};
}

Status Supervisor::take(const CoordinatorUp& up) {
  const bool first = attempt_ == 0;
  attempt_ = up.attempt;
  if (stop_.request) send_stop();
  if (!first) {
    if (taking_over_ && !std::exchange(taking_over_->taken, true)) {
      if (!taking_over_->how.announcement.empty()) view_.say(taking_over_->how.announcement);
      site_.begun(attempt_);
    }
    return {};
  }
  site_.begun(attempt_);
  // Only the holder of a term may write the run's configuration.
  REKINDLE_CHECK(keep_initial_state(beginning_.initial, options_, layout_));
  beginning_.initial = {};
  protocol::Job job = options_.job;
  if (is_script(job)) {
    REKINDLE_TRY(job.task.script, copy_for_attempt(job.task.script, layout_));
  }
  REKINDLE_CHECK(replace_file(layout_.config(), to_toml(job)));
  REKINDLE_CHECK(replace_file(layout_.environment(), environment_note(own_environment())));
  if (beginning_.watchers != nullptr) beginning_.watchers->begin(layout_, options_.watchers);
  return workers_.start_all(up.term);
}

void Supervisor::on_worker_end(const Workers::End& end) {
  if (end_.ended) return;
  site_.lost_worker();
  coordinator_.send(WorkerDied{end.worker, end.status.by_signal, end.status.code});
}

void Supervisor::on_worker_line(const std::string& line) {
  if (end_.ended) return;
  if (const auto signal = signal_in(line))
    stop(*signal, true);
  else if (!site_.is_noise(line))
    view_.say(line);
}

}  // namespace rekindle::app
