#include "app/join.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <span>

#include "app/container.hpp"
#include "app/join_state.hpp"
#include "app/local_site.hpp"
#include "app/places.hpp"
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
#include "run/layout.hpp"
#include "run/records.hpp"
#include "run/status_file.hpp"
#include "run/terms.hpp"
#include "run/trust.hpp"
#include "run/watch.hpp"
#include "slurm/environment.hpp"
#include "slurm/programs.hpp"

namespace rekindle::app {
namespace {

using std::chrono::milliseconds, std::chrono::seconds;

constexpr seconds kLook{1};     // between two checks of the run directory
constexpr seconds kRestart{5};  // time for a user to restart a run whose first process died
constexpr std::chrono::minutes kLeastPatience{3};  // until a coordinator has taken a run over
constexpr seconds kLeaving{20};                    // until dismissed workers have exited

// Where this machine's trainers listen.
struct Listens {
  std::string interface, port_range;
};

// The last look at the run directory.
struct Seen {
  run::Sign sign = run::Sign::kAlive;
  milliseconds at{0}, sign_since{0};
};

struct Joined {
  bool ever = false;  // trainers of this machine were in the run: only then may this process take it over
  bool announced = false;  // the join was printed
};

class Helper {
 public:
  Helper(const JoinOptions& options, const run::Layout& layout, Fd signals)
      : options_(options), layout_(layout), signals_(std::move(signals)), watch_(layout_) {}

  Result<int> help() {
    REKINDLE_CHECK(read_config());
    if (saved_step(layout_) >= job_.steps && newest_ended(layout_) > 0) {
      say(str("the run is complete (", counted(job_.steps, "step"), "): there is nothing to help with"));
      return 0;
    }
    for (;;) {
      const LastEnd last = last_end(layout_);
      ended_before_ = last.term;
      if (last.term > 0) {
        REKINDLE_TRY(const std::optional<int> left, wait_for_attempt_after(last));
        if (left) return *left;
        REKINDLE_CHECK(read_config());  // the next attempt may have other options
      }
      REKINDLE_CHECK(start_workers());
      REKINDLE_TRY(const std::optional<int> ended, serve());
      workers_->kill_all();
      if (ended) return *ended;
      REKINDLE_TRY(const std::optional<int> left, judge_end());
      if (left) return *left;
      say("the run may start again in Slurm: these workers wait for it, at most --wait");
    }
  }

 private:
  Status read_config() {
    REKINDLE_TRY(job_, read_job(layout_.config()));
    return check_no_srun(container_of(job_), "join");
  }

  // nullopt: it has begun.
  Result<std::optional<int>> wait_for_attempt_after(const LastEnd& last) {
    say(str("no attempt of this run is running: waiting for the next attempt, at most ",
            format_duration(options_.wait), " (--wait)"));
    const Awaited awaited = await_attempt(layout_, last, options_.wait, signals_.get());
    if (awaited.signal != 0) return leave_for(awaited.signal);
    return awaited.came ? std::optional<int>() : not_back();
  }

  Status start_workers() {
    REKINDLE_CHECK(check_reachable(layout_));
    // The next attempt of the run may use other nodes.
    listens_.interface = options_.interface.empty() ? interface_for(layout_, job_) : options_.interface;
    listens_.port_range = options_.port_range.empty() ? job_.port_range : options_.port_range;
    REKINDLE_CHECK(check_network(listens_.interface, listens_.port_range));
    std::vector<std::string> arguments = worker_of(layout_);
    arguments.insert(arguments.end(), {"--joined", "--wait-ms", str(options_.wait.count()), "--interface",
                                       listens_.interface, "--port-range", listens_.port_range});
    workers_.reset();  // they use the machine
    machine_.emplace(options_.workers, contained_worker(job_, options_.run_dir));
    workers_.emplace(*machine_, std::move(arguments));
    return workers_->start_all(0);
  }

  // Returns when the workers have left (nullopt), or when there is an exit code.
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
      if (const auto now = boot_time(); now - seen_.at >= kLook) {
        seen_.at = now;
        REKINDLE_TRY(const std::optional<int> ended, look(now));
        if (ended) return ended;
      }
    }
    return std::optional<int>();
  }

  // Checks the run directory for events that workers with a broken connection never receive.
  Result<std::optional<int>> look(milliseconds now) {
    const run::Sign sign = watch_.look(now);
    if (sign != seen_.sign) seen_.sign_since = now;
    seen_.sign = sign;
    const auto& holder = watch_.holder();
    const bool slurm = protocol::launched_by_slurm(job_);
    if (sign == run::Sign::kAlive) {
      say_when_joined();
    } else if (sign == run::Sign::kEnded) {
      const bool seen_alive = holder && holder->term > ended_before_;
      if (slurm || !seen_alive || now - seen_.sign_since < kLeaving) return std::optional<int>();
      say(str("the run has ended (saved: step ", saved_step(layout_), "): these workers exit"));
      return std::optional(0);
    } else if (!slurm && joined_.ever && (sign == run::Sign::kSilent || now - seen_.sign_since >= kRestart)) {
      return take_over_from(*holder);
    } else if (!slurm && !joined_.ever && sign == run::Sign::kSilent &&
               now - seen_.sign_since >= options_.wait) {
      return not_back();  // a suspended coordinator keeps its connections, so the workers would wait for ever
    }
    return std::optional<int>();
  }

  void say_when_joined() {
    if (joined_.announced) return;
    const auto status = run::read_status(layout_);
    if (!status) return;
    const InRun own = in_run(*status, workers_->names());
    joined_.ever = joined_.ever || own.any;
    if (own.with_rank == 0) return;
    joined_.announced = true;
    say(str("joined: ", counted(own.with_rank, "trainer"), " of this machine ",
            own.with_rank == 1 ? "is" : "are", " now in the run (step ",
            status->value("step", std::uint64_t{0}), " of ", status->value("steps", std::uint64_t{0}), ")"));
  }

  // Continues the run under this process. nullopt: another process continues the run.
  Result<std::optional<int>> take_over_from(const run::Holder& lost) {
    LocalOptions run;
    run.run_dir = options_.run_dir;
    run.run_dir_inode = layout_.root().root_inode();
    run.workers = options_.workers;
    REKINDLE_TRY(run.job, read_job(layout_.config()));
    run.job.interface = listens_.interface;
    run.job.port_range = listens_.port_range;
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
    // A new watch gives the holder its full time again: the holder may be alive although it writes nothing.
    watch_ = run::Watch(layout_);
    seen_.sign_since = boot_time();
    return std::optional<int>();
  }

  // The run goes on without these workers.
  std::optional<int> leave_for(int signal) {
    if (workers_) workers_->kill_all();
    come_back(signal);
    return 0;
  }

  // The workers have exited by themselves. Returns the exit code. nullopt: the run will have another attempt.
  Result<std::optional<int>> judge_end() {
    // If the run itself stopped or finished, this process was successful.
    const auto last = static_cast<ExitCode>(workers_->exit_code());
    if (last == ExitCode::kConfig || last == ExitCode::kGaveUp) {
      return fail(last, "the run does not accept these workers",
                  str("see ", layout_.logs().string(), "/worker-w0.log"));
    }
    const bool lives = seen_.sign == run::Sign::kAlive && watch_.heard_lately(boot_time());
    const std::string saved = str("step ", saved_step(layout_));
    if (last != ExitCode::kSaved) {
      say(str("the run has ended (saved: ", saved, "): these workers have exited"));
      return std::optional(0);
    }
    if (will_be_back(layout_, ended_before_)) return std::optional<int>();
    if (newest_ended(layout_) > ended_before_) {
      say(str("the run was stopped (saved: ", saved, "): these workers have exited"));
      return std::optional(0);
    }
    return not_back(lives);
  }

  Result<std::optional<int>> not_back(bool lives = false) const {
    if (lives) return unreachable(layout_);
    const std::string line =
        str("the run in ", options_.run_dir.string(), " was not started again within --wait");
    if (slurm::in_job()) {  // a job whose help was not needed has not failed
      say(str(line, ": this job ends"));
      return std::optional(0);
    }
    return fail(ExitCode::kSaved, line, "start the run again with its own command, then join");
  }

  const JoinOptions& options_;
  const run::Layout layout_;
  protocol::Job job_;  // as the newest attempt has written it
  const Fd signals_;
  std::optional<ThisMachine> machine_;
  run::Watch watch_;
  std::optional<Workers> workers_;
  Listens listens_;
  std::uint64_t ended_before_ = 0;  // the newest term that had ended when the workers were started
  Seen seen_;
  Joined joined_;
};

Result<int> join(const JoinOptions& options) {
  std::optional<EndOnSignal> interruptible([](int signal) {
    come_back(signal);  // in a Slurm job
    return 0;
  });
  run::Layout layout(options.run_dir);
  if (is_file(options.run_dir))
    return fail(ExitCode::kConfig, str(options.run_dir.string(), " is a file, not a run directory"),
                "give the --run-dir of a run");
  constexpr milliseconds kKeySeenWithin{5000};  // on another node, after run.toml
  if (!path_exists(layout.config()) || !await_file(layout.key_pair(), kKeySeenWithin)) {
    if (!runs_inside(layout).empty()) REKINDLE_CHECK(must_be_run(layout));
    return fail(ExitCode::kConfig, str(options.run_dir.string(), " contains no run that can be joined"),
                "start one there with rekindle local, slurm or submit");
  }
  REKINDLE_CHECK(run::check_trusted(layout));
  REKINDLE_TRY(const std::uint64_t inode, run::inode_of(layout));
  layout = run::Layout(options.run_dir, Trust::kOwn, inode);
  if (const std::string line = run::exchange_warning(layout); !line.empty()) warn("warning: " + line);
  if (slurm::in_job()) {
    if (const Status found = slurm::check_programs({{"scontrol", "requeue this job"}}); !found)
      say(str("warning: ", found.error().line()));
  }
  REKINDLE_TRY(Fd signals, take_signals());
  interruptible.reset();
  // An invalid claim keeps the run from starting, so the workers would wait in vain.
  if (const auto newest = run::newest_term(layout); !newest && newest.error().code == ExitCode::kConfig)
    return forward_error(newest.error());
  return Helper(options, layout, std::move(signals)).help();
}

}  // namespace

int run_join(const JoinOptions& options) {
  auto exit_code = join(options);
  if (exit_code) return *exit_code;
  return report(exit_code.error());
}

}  // namespace rekindle::app
