#include "app/join.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>

#include "app/local_site.hpp"
#include "app/prepare.hpp"
#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/signals.hpp"
#include "app/slurm_job.hpp"
#include "app/supervisor.hpp"
#include "app/workers.hpp"
#include "base/clock.hpp"
#include "base/duration.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/network.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "run/layout.hpp"
#include "run/place.hpp"
#include "run/records.hpp"
#include "run/status_file.hpp"
#include "run/terms.hpp"
#include "run/trust.hpp"
#include "run/watch.hpp"
#include "slurm/environment.hpp"
#include "slurm/programs.hpp"
#include "slurm/requeue.hpp"

namespace rekindle::app {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLook{1};     // between two looks at the run directory
constexpr seconds kRestart{5};  // a run whose first process died may be started again by hand at once
constexpr std::chrono::minutes kLeastPatience{3};  // with a coordinator that is to take a run over
constexpr seconds kLeaving{20};                    // until workers that were dismissed have left

// Where this machine's trainers listen: where the run's do, if this machine has such an interface; else on
// the way to its coordinator.
std::string interface_for(const run::Layout& layout, const protocol::Job& job) {
  if (choose_address(interfaces(), job.interface)) return job.interface;
  const auto place = run::read_place(layout);
  const auto address = place ? address_towards(place->host) : Result<std::string>(job.interface);
  return address ? *address : job.interface;
}

// In a Slurm job whose time is over, or whose nodes are wanted: it helps again when there is room.
void come_back(int signal) {
  auto environment = slurm::read_environment();
  if (signal != SIGUSR1 || !environment) return;
  constexpr std::chrono::minutes kPatience{5};
  const auto facts = patiently(kPatience, [&] { return slurm::show_job(environment->job); });
  if (!facts) return;
  correct(*environment, *facts);
  const slurm::Requeued done =
      slurm::requeue_once(slurm::queue_of(*environment), environment->restarts, kPatience);
  say(done.accepted ? "requeued" : str("not requeued: ", done.detail));
}

std::uint64_t newest_ended(const run::Layout& layout) {
  const auto holder = run::newest_term(layout);
  return holder && *holder && (*holder)->ended && !(*holder)->orphaned ? (*holder)->term : 0;
}

// Whether the attempt that these workers were in has ended, and another one will follow: that of a Slurm job
// which nobody has asked to stop for good. `ended`: the newest term that had ended before.
bool will_be_back(const run::Layout& layout, std::uint64_t ended) {
  const auto until = Clock::now() + kNamesAreSeenWithin;
  while (newest_ended(layout) <= ended && Clock::now() < until)
    std::this_thread::sleep_for(milliseconds(100));
  const auto holder = run::newest_term(layout);
  return holder && *holder && (*holder)->term > ended && (*holder)->ended && !(*holder)->slurm_job.empty() &&
         !path_exists(layout.stop_request());
}

std::uint64_t saved_step(const run::Layout& layout) {
  const auto committed = checkpoint::list_committed(layout.root());
  return committed.empty() ? 0 : committed.front().step;
}

class Helper {
 public:
  Helper(const JoinOptions& options, protocol::Job job, Fd signals)
      : options_(options),
        layout_(options.run_dir),
        job_(std::move(job)),
        signals_(std::move(signals)),
        machine_(options.workers),
        watch_(layout_) {}

  Result<int> help() {
    if (saved_step(layout_) >= job_.steps && newest_ended(layout_) > 0) {
      say(str("the run is complete (", counted(job_.steps, "step"), "): there is nothing to help with"));
      return 0;
    }
    for (;;) {
      ended_before_ = newest_ended(layout_);
      if (ended_before_ > 0)
        say(str("no attempt of this run is going on: waiting for one, ", format_duration(options_.wait),
                " at most (--wait)"));
      REKINDLE_CHECK(start_workers());
      REKINDLE_TRY(const std::optional<int> ended, serve());
      workers_->kill_all();
      if (ended) return *ended;
      REKINDLE_TRY(const std::optional<int> left, judge_end());
      if (left) return *left;
      say("Slurm will start the run again: these workers wait for it");
    }
  }

 private:
  Status start_workers() {
    // A run that returns may be on other nodes.
    interface_ = options_.interface.empty() ? interface_for(layout_, job_) : options_.interface;
    port_range_ = options_.port_range.empty() ? job_.port_range : options_.port_range;
    REKINDLE_CHECK(check_network(interface_, port_range_));
    workers_.emplace(
        machine_, std::vector<std::string>{"worker", "--run-dir", options_.run_dir, "--joined", "--wait-ms",
                                           str(options_.wait.count()), "--interface", interface_,
                                           "--port-range", port_range_});
    return workers_->start_all(0);
  }

  // Until the workers have left (nullopt), or there is an exit code.
  Result<std::optional<int>> serve() {
    while (!workers_->done()) {
      std::vector<pollfd> waits{{signals_.get(), POLLIN, 0}};
      workers_->watch(waits);
      if (::poll(waits.data(), waits.size(), static_cast<int>(kTurn.count())) < 0) continue;
      workers_->reap(std::span(waits).subspan(1));
      signalfd_siginfo info{};
      if (waits[0].revents != 0 && ::read(signals_.get(), &info, sizeof info) == sizeof info)
        return leave_for(static_cast<int>(info.ssi_signo));
      workers_->restart_due();
      if (const auto now = boot_time(); now - looked_ >= kLook) {
        looked_ = now;
        REKINDLE_TRY(const std::optional<int> ended, look(now));
        if (ended) return ended;
      }
    }
    return std::optional<int>();
  }

  // What the run directory tells that workers may never hear: their connection may be broken.
  Result<std::optional<int>> look(milliseconds now) {
    const run::Sign sign = watch_.look(now);
    if (sign != sign_) sign_since_ = now;
    sign_ = sign;
    const auto& holder = watch_.holder();
    const bool slurm = protocol::launched_by_slurm(job_);
    if (sign == run::Sign::kAlive) {
      say_when_joined();
    } else if (sign == run::Sign::kEnded) {
      const bool seen_alive = holder && holder->term > ended_before_;
      if (slurm || !seen_alive || now - sign_since_ < kLeaving) return std::optional<int>();
      say(str("the run has ended (saved: step ", saved_step(layout_), "): these workers leave"));
      return std::optional(0);
    } else if (!slurm && joined_ && (sign == run::Sign::kSilent || now - sign_since_ >= kRestart)) {
      return take_over_from(*holder);
    }
    return std::optional<int>();
  }

  void say_when_joined() {
    if (said_joined_) return;
    const auto status = run::read_status(layout_);
    if (!status) return;
    std::size_t count = 0;  // that are no spares
    for (const auto& trainer : status->value("trainers", nlohmann::json::array())) {
      const std::string name = trainer.value("trainer", "");
      for (const std::string& worker : workers_->names()) {
        if (!name.starts_with(worker + ".")) continue;
        joined_ = true;
        count += trainer.value("rank", -1) >= 0 ? 1 : 0;
      }
    }
    if (count == 0) return;
    said_joined_ = true;
    say(str("joined: ", count, count == 1 ? " trainer" : " trainers", " of this machine help the run (step ",
            status->value("step", std::uint64_t{0}), " of ", status->value("steps", std::uint64_t{0}), ")"));
  }

  // The run goes on under this process; nullopt: under another.
  Result<std::optional<int>> take_over_from(const run::Holder& lost) {
    LocalOptions run;
    run.run_dir = options_.run_dir;
    run.workers = options_.workers;
    REKINDLE_TRY(run.job, read_job(layout_.config()));
    run.job.interface = interface_;
    run.job.port_range = port_range_;
    start_logging("rekindle", layout_.log(str("supervisor-", host_name())), LogLevel::kInfo);
    log_warning(str("the run has lost its first process on host ", lost.host, ", or that host is silent"));
    LocalSite site(run);
    TakeOver how;
    how.term = lost.term;
    how.attempt = run::newest_attempt(layout_);
    how.within = std::max<milliseconds>(options_.wait, kLeastPatience);
    how.announcement = str("warning: the run has lost its first process (on host ", lost.host,
                           "): this rekindle join takes its place; Ctrl-C here saves and ends the run");
    REKINDLE_TRY(const TakenOver taken, take_over(site, run, *workers_, how));
    if (taken.exit_code) return taken.exit_code;
    if (taken.signal != 0) return leave_for(taken.signal);
    watch_ =
        run::Watch(layout_);  // a holder that answers although it writes nothing is asked again much later
    sign_since_ = boot_time();
    return std::optional<int>();
  }

  // The run goes on without these workers.
  std::optional<int> leave_for(int signal) {
    workers_->kill_all();
    come_back(signal);
    return 0;
  }

  // The workers have left by themselves: the exit code; nullopt: the run will be back.
  Result<std::optional<int>> judge_end() {
    // The run's own end, stopped or finished, is a good end for whoever helped.
    const auto last = static_cast<ExitCode>(workers_->exit_code());
    if (last == ExitCode::kConfig || last == ExitCode::kGaveUp) {
      return fail(last, "the run does not take these workers",
                  str("see ", layout_.logs().string(), "/worker-w0.log"));
    }
    const std::string saved = str("step ", saved_step(layout_));
    if (last != ExitCode::kSaved) {
      say(str("the run has ended (saved: ", saved, "): these workers have left"));
      return std::optional(0);
    }
    if (will_be_back(layout_, ended_before_)) return std::optional<int>();
    if (newest_ended(layout_) > ended_before_) {
      say(str("the run was stopped (saved: ", saved, "): these workers have left"));
      return std::optional(0);
    }
    const std::string line =
        str("the run in ", options_.run_dir.string(), " was not started again within --wait");
    if (slurm::in_job()) {  // a helper that was not needed is no failed job
      say(str(line, ": this job ends"));
      return std::optional(0);
    }
    return fail(ExitCode::kSaved, line, "start the run again with its own command, then join");
  }

  const JoinOptions& options_;
  const run::Layout layout_;
  const protocol::Job job_;
  const Fd signals_;
  ThisMachine machine_;
  run::Watch watch_;
  std::optional<Workers> workers_;
  std::string interface_, port_range_;
  std::uint64_t ended_before_ = 0;  // the newest term that had ended when the workers were started
  run::Sign sign_ = run::Sign::kAlive;
  milliseconds looked_{0}, sign_since_{0};
  // Trainers of this machine were in the run: only then may this process take the run over.
  bool joined_ = false, said_joined_ = false;
};

Result<int> join(const JoinOptions& options) {
  std::optional<EndOnSignal> interruptible([](int signal) {
    come_back(signal);  // in a Slurm job
    return 0;
  });
  const run::Layout layout(options.run_dir);
  if (is_file(options.run_dir))
    return fail(ExitCode::kConfig, str(options.run_dir.string(), " is a file, not a run directory"),
                "give the --run-dir of a run");
  // A run that has just begun on another node.
  constexpr milliseconds kSeenWithin{5000};
  // In a Slurm job it may be there first.
  const auto patience = slurm::in_job() ? std::max(kSeenWithin, options.wait) : kSeenWithin;
  if (!await_file(layout.config(), patience) || !await_file(layout.key_pair(), kSeenWithin)) {
    return fail(ExitCode::kConfig, str(options.run_dir.string(), " holds no run that can be joined"),
                "start one there with rekindle local, slurm or submit");
  }
  REKINDLE_CHECK(run::check_trusted(layout));
  if (slurm::in_job()) {
    if (const Status found = slurm::check_programs({{"scontrol", "requeue this job"}}); !found)
      say(str("warning: ", found.error().line()));
  }
  REKINDLE_TRY(Fd signals, take_signals());
  interruptible.reset();
  // A claim that no run has written would keep these workers waiting for a run that cannot begin.
  if (const auto newest = run::newest_term(layout); !newest && newest.error().code == ExitCode::kConfig)
    return forward_error(newest.error());
  REKINDLE_TRY(protocol::Job job, read_job(layout.config()));
  return Helper(options, std::move(job), std::move(signals)).help();
}

}  // namespace

int run_join(const JoinOptions& options) {
  auto exit_code = join(options);
  if (exit_code) return *exit_code;
  return report(exit_code.error());
}

}  // namespace rekindle::app
