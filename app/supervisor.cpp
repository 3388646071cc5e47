#include "app/supervisor.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "app/prepare.hpp"
#include "app/progress.hpp"
#include "app/run_config.hpp"
#include "base/channel.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "protocol/wire.hpp"
#include "run/layout.hpp"
#include "run/privacy.hpp"

namespace rekindle::app {

using namespace protocol;

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kGrace = std::chrono::seconds(15);  // for processes to go after the run has ended
constexpr auto kTurn = std::chrono::milliseconds(100);
constexpr auto kSilence = std::chrono::seconds(15);  // of a coordinator
constexpr auto kTakeover = std::chrono::minutes(2);  // until one that replaces another has said a word
constexpr auto kHeldUp = std::chrono::seconds(3);    // a turn that took longer: this process was suspended
constexpr int kCoordinatorCrashes = 8;               // in a row

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) sigaddset(&set, signal);
  return set;
}

// Signals as a file descriptor; blocked for this process, and not for its children (spawn() clears the mask).
Result<Fd> take_signals() {
  hold_signals();
  const sigset_t set = stop_signals();
  Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail(str("signalfd: ", std::strerror(errno)));
  return fd;
}

struct Process {
  Child child;
  std::unique_ptr<Channel> channel;
};

Result<Process> start(const std::vector<std::string>& arguments) {
  static const std::string control = own_executable().parent_path() / "rekindle-control";
  REKINDLE_TRY(auto ends, Channel::pair());
  std::vector<std::string> argv{control};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  REKINDLE_TRY(Child child, spawn(argv, {}, {{ends.second.get()}}));
  return Process{std::move(child), std::make_unique<Channel>(std::move(ends.first))};
}

// A process that meant to go says so by one of the exit codes of base/result.hpp; whatever else ends one is a
// crash.
bool deliberate(const ExitStatus& status) {
  if (status.by_signal) return false;
  switch (static_cast<ExitCode>(status.code)) {
    case ExitCode::kFinished:
    case ExitCode::kUsage:
    case ExitCode::kGaveUp:
    case ExitCode::kSaved:
    case ExitCode::kInterrupted:
    case ExitCode::kConfig:
      return true;
    default:
      return false;
  }
}

// How long to wait before a crashed process is started again: longer each time, unless it lasted.
class Backoff {
 public:
  Clock::duration next(Clock::time_point started) {
    if (Clock::now() - started > kSteady) crashes_ = 0;
    return std::min<Clock::duration>(kFirst * (1 << std::min(crashes_++, 16)), kLongest);
  }
  int crashes() const { return crashes_; }

 private:
  static constexpr auto kFirst = std::chrono::milliseconds(100);
  static constexpr auto kLongest = std::chrono::seconds(60), kSteady = std::chrono::seconds(60);
  int crashes_ = 0;
};

// The workers of this machine: started again, under new names, when they crash.
class Workers {
 public:
  explicit Workers(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {}

  Status start_all(std::uint64_t count, std::uint64_t term) {
    term_ = term;
    slots_.resize(count);
    for (std::size_t i = 0; i < slots_.size(); ++i) REKINDLE_CHECK(start_one(i));
    return {};
  }

  void watch(std::vector<pollfd>& waits) const {
    for (const Slot& slot : slots_)
      waits.push_back({slot.process ? slot.process->child.pidfd.get() : -1, POLLIN, 0});
  }

  struct End {
    std::string worker;
    ExitStatus status;
  };
  // Those that have ended, as `waits` (filled by watch()) says.
  std::vector<End> reap(std::span<const pollfd> waits) {
    std::vector<End> ends;
    for (std::size_t i = 0; i < std::min(slots_.size(), waits.size()); ++i) {
      Slot& slot = slots_[i];
      if (waits[i].revents == 0 || !slot.process) continue;
      ends.push_back({slot.name, wait_for(slot.process->child)});
      slot.process.reset();
      slot.done = deliberate(ends.back().status);
      slot.exit_code = ends.back().status.code;
      if (!slot.done) slot.restart_at = Clock::now() + slot.backoff.next(slot.started);
    }
    return ends;
  }

  void restart_due() {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      if (slot.process || slot.done || Clock::now() < slot.restart_at) continue;
      if (const Status started = start_one(i); !started) {
        log_warning(started.error().line());
        slot.restart_at = Clock::now() + slot.backoff.next(slot.started);
      }
    }
  }

  bool running() const {
    return std::any_of(slots_.begin(), slots_.end(),
                       [](const Slot& slot) { return slot.process.has_value(); });
  }
  bool done() const {
    return !slots_.empty() && std::all_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.done; });
  }
  // Of the one that fared worst.
  int exit_code() const {
    int worst = 0;
    for (const Slot& slot : slots_) worst = std::max(worst, slot.exit_code);
    return worst;
  }

  // End of file on their sockets tells them to go.
  void dismiss() {
    for (Slot& slot : slots_) {
      slot.done = true;
      if (slot.process) slot.process->channel.reset();
    }
  }
  void kill_all() {
    dismiss();
    for (Slot& slot : slots_) {
      if (!slot.process) continue;
      kill_child(slot.process->child, SIGKILL);
      wait_for(slot.process->child);
      slot.process.reset();
    }
  }

 private:
  struct Slot {
    std::string name;
    std::optional<Process> process;
    Clock::time_point started, restart_at;
    Backoff backoff;
    bool done = false;
    int exit_code = 0;  // if done
  };

  Status start_one(std::size_t i) {
    Slot& slot = slots_[i];
    slot.name = str("w", i, "-", random_hex(4));
    slot.started = Clock::now();
    std::vector<std::string> arguments = arguments_;
    arguments.insert(arguments.end(), {"--name", slot.name, "--term", str(term_)});
    REKINDLE_TRY(slot.process, start(arguments));
    return {};
  }

  const std::vector<std::string> arguments_;
  std::uint64_t term_ = 0;
  std::vector<Slot> slots_;
};

class Supervisor {
 public:
  explicit Supervisor(const LocalOptions& options)
      : options_(options), layout_(options.run_dir), workers_({"worker", "--run-dir", options.run_dir}) {}

  Result<int> run() {
    REKINDLE_TRY(signals_, take_signals());
    REKINDLE_CHECK(start_coordinator());
    while (!ended_) REKINDLE_CHECK(turn());
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
    return *exit_code_;
  }

  void kill_all() {
    if (coordinator_) kill_child(coordinator_->child, SIGKILL), wait_for(coordinator_->child);
    coordinator_.reset();
    workers_.kill_all();
  }

 private:
  Status start_coordinator() {
    const auto trainers = options_.workers * options_.job.trainers_per_worker;
    coordinator_started_ = heard_at_ = Clock::now();
    up_ = false;
    REKINDLE_TRY(coordinator_,
                 start({"coordinator", "--run-dir", options_.run_dir, "--trainers", str(trainers),
                        "--attempt", str(attempt_), "--job", nlohmann::json(options_.job).dump()}));
    return {};
  }

  // This machine may be short of processes or memory for a while.
  void restart_coordinator() {
    // They were dismissed: it died when all was done but its own end.
    if (workers_.done())
      return on_end({workers_.exit_code(), "the run ended, and its coordinator died: see logs/coordinator.log"});
    if (const Status started = start_coordinator(); !started) {
      view_.say(str("warning: ", started.error().line()));
      coordinator_restart_at_ = Clock::now() + backoff_.next(coordinator_started_);
    }
  }

  // Waits for something to happen and handles it.
  Status turn() {
    std::vector<pollfd> waits{{signals_.get(), POLLIN, 0}};
    waits.push_back({coordinator_ && coordinator_->channel ? coordinator_->channel->fd() : -1, POLLIN, 0});
    waits.push_back({coordinator_ ? coordinator_->child.pidfd.get() : -1, POLLIN, 0});
    workers_.watch(waits);
    if (::poll(waits.data(), waits.size(), static_cast<int>(kTurn.count())) < 0) return {};
    if (waits[0].revents != 0) on_signal();  // a second Ctrl-C kills all: nobody is left to look at
    if (coordinator_ && waits[1].revents != 0) {
      REKINDLE_CHECK(hear_coordinator());
    } else if (coordinator_ && waits[2].revents != 0) {
      on_coordinator_end();
    }
    for (const Workers::End& end : workers_.reap(std::span(waits).subspan(3))) on_worker_end(end);
    if (ended_) return {};
    judge_coordinator();
    if (!coordinator_ && Clock::now() >= coordinator_restart_at_) restart_coordinator();
    workers_.restart_due();
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
    interrupted_ = interrupted_ || interrupt;
    const char* name = ::sigabbrev_np(static_cast<int>(info.ssi_signo));
    // Kept until the run ends: a coordinator that is started again has to hear of it, too.
    if (!stop_) {
      stop_ = StopRun{static_cast<int>(interrupt ? ExitCode::kInterrupted : ExitCode::kSaved),
                      str("SIG", name != nullptr ? name : "?"),
                      static_cast<std::int64_t>(options_.job.stop_within_ms)};
    }
    tell(*stop_);
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
    if (const auto* progress = std::get_if<Progress>(&message)) view_.show(*progress);
    if (const auto* end = std::get_if<Ended>(&message)) on_end(*end);
    return {};
  }

  Status on_coordinator_up(const CoordinatorUp& up) {
    up_ = true;
    const bool first = attempt_ == 0;
    attempt_ = up.attempt;
    if (stop_) tell(*stop_);
    if (!first) return {};
    // Only the holder of a term may say what the run is.
    REKINDLE_CHECK(replace_file(layout_.config(), to_toml(options_.job)));
    return workers_.start_all(options_.workers, up.term);
  }

  void on_end(const Ended& end) {
    if (exit_code_) return;
    ended_ = true;
    exit_code_ = end.exit_code;
    const bool good = end.exit_code == 0 || end.exit_code == 75 || end.exit_code == 130;
    if (good) {
      view_.say(end.line);
      if (const std::string line = end.exit_code == 0 ? completed_line(options_) : ""; !line.empty())
        view_.say(line);
    } else {
      view_.say("");
      std::fprintf(stderr, "rekindle: %s\n", end.line.c_str());
    }
  }

  // Training does not need it; but nobody else can mend a generation or save the state.
  void on_coordinator_end() {
    const ExitStatus status = wait_for(coordinator_->child);
    coordinator_.reset();
    if (ended_) return;
    const std::string how =
        str("the coordinator ", status.by_signal ? "was killed by signal " : "ended with exit code ",
            status.code);
    const auto pause = backoff_.next(coordinator_started_);
    // One that never came up and says why has something to mend.
    const bool refused = attempt_ == 0 && !status.by_signal;
    if (refused || backoff_.crashes() > kCoordinatorCrashes)
      return on_end({70, str(how, ": run the same command again: it goes on from the last checkpoint")});
    view_.say(str("warning: ", how, ": it is started again, training goes on"));
    coordinator_restart_at_ = Clock::now() + pause;
  }

  // It sends a word a second. One that was silent for long hangs, unless this process was itself held up.
  void judge_coordinator() {
    const auto now = Clock::now();
    if (now - turned_at_ > kHeldUp) heard_at_ = now;
    turned_at_ = now;
    // The first one may wait long for its term; one that replaces another is known to hold it.
    const auto limit = up_ ? kSilence : kTakeover;
    if (!coordinator_ || attempt_ == 0 || now - heard_at_ < limit) return;
    view_.say("warning: the coordinator hangs: it is killed");
    kill_child(coordinator_->child, SIGKILL);
    heard_at_ = now;
  }

  void on_worker_end(const Workers::End& end) {
    if (ended_) return;
    tell(WorkerDied{end.worker, end.status.by_signal, end.status.code});
  }

  const LocalOptions& options_;
  run::Layout layout_;
  ProgressView view_;
  Fd signals_;
  std::optional<Process> coordinator_;
  Workers workers_;
  Backoff backoff_;
  std::uint64_t attempt_ = 0;  // 0: no coordinator has been up yet
  bool up_ = false, ended_ = false, interrupted_ = false;
  Clock::time_point coordinator_started_, coordinator_restart_at_, heard_at_ = Clock::now(),
                                                                   turned_at_ = Clock::now();
  std::optional<StopRun> stop_;
  std::optional<int> exit_code_;
};

}  // namespace

void hold_signals() {
  const sigset_t set = stop_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

int run_local(const LocalOptions& options) {
  Supervisor supervisor(options);
  auto exit_code = supervisor.run();
  if (exit_code) return *exit_code;
  supervisor.kill_all();
  std::fprintf(stderr, "rekindle: %s\n", exit_code.error().line().c_str());
  return static_cast<int>(exit_code.error().code);
}

namespace {

Result<int> join(const JoinOptions& options) {
  const run::Layout layout(options.run_dir);
  std::error_code code;
  if (!std::filesystem::exists(layout.config(), code) ||
      !std::filesystem::exists(layout.private_key(), code)) {
    return fail(ExitCode::kConfig, str(options.run_dir.string(), " holds no run that can be joined"),
                "start one there with rekindle local");
  }
  REKINDLE_CHECK(run::check_private(layout));
  REKINDLE_TRY(const Fd signals, take_signals());
  REKINDLE_TRY(const Job job, read_job(layout.config()));
  const std::string interface = options.interface.empty() ? job.interface : options.interface;
  const std::string port_range = options.port_range.empty() ? job.port_range : options.port_range;
  REKINDLE_CHECK(check_network(interface, port_range));
  Workers workers({"worker", "--run-dir", options.run_dir, "--wait-ms", str(options.wait.count()),
                   "--interface", interface, "--port-range", port_range});
  REKINDLE_CHECK(workers.start_all(options.workers, 0));
  ExitStatus last;
  while (!workers.done()) {
    std::vector<pollfd> waits{{signals.get(), POLLIN, 0}};
    workers.watch(waits);
    if (::poll(waits.data(), waits.size(), static_cast<int>(kTurn.count())) < 0) continue;
    for (const Workers::End& end : workers.reap(std::span(waits).subspan(1))) last = end.status;
    if (waits[0].revents != 0) break;  // the run goes on without these workers
    workers.restart_due();
  }
  workers.kill_all();
  // The run's own end, stopped or finished, is a good end for whoever helped.
  const bool refused =
      last.code == static_cast<int>(ExitCode::kConfig) || last.code == static_cast<int>(ExitCode::kGaveUp);
  if (refused) {
    return fail(static_cast<ExitCode>(last.code), "the run does not take these workers",
                str("see ", layout.logs().string(), "/worker-w0.log"));
  }
  return 0;
}

}  // namespace

int run_join(const JoinOptions& options) {
  auto exit_code = join(options);
  if (exit_code) return *exit_code;
  std::fprintf(stderr, "rekindle: %s\n", exit_code.error().line().c_str());
  return static_cast<int>(exit_code.error().code);
}

}  // namespace rekindle::app
