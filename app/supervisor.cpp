#include "app/supervisor.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/prepare.hpp"
#include "app/progress.hpp"
#include "app/run_config.hpp"
#include "base/channel.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "protocol/wire.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

using namespace protocol;

namespace {

constexpr auto kGrace = std::chrono::seconds(15);  // for processes to go after the run has ended

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

class Supervisor {
 public:
  explicit Supervisor(const LocalOptions& options)
      : options_(options),
        layout_(options.run_dir),
        control_(own_executable().parent_path() / "rekindle-control") {}

  Result<int> run() {
    REKINDLE_TRY(signals_, take_signals());
    REKINDLE_CHECK(start_coordinator());
    while (!ended_) {
      if (auto status = turn(-1); !status) return forward_error(status.error());
    }
    // End of file on their sockets tells workers and coordinator to go.
    const auto until = std::chrono::steady_clock::now() + kGrace;
    for (auto& [name, worker] : workers_) worker.channel.reset();
    while ((coordinator_ || !workers_.empty()) && std::chrono::steady_clock::now() < until) {
      if (auto status = turn(200); !status) break;
    }
    kill_all();
    return *exit_code_;
  }

  void kill_all() {
    if (coordinator_) kill_child(coordinator_->child, SIGKILL), wait_for(coordinator_->child);
    for (const auto& [name, worker] : workers_) kill_child(worker.child, SIGKILL), wait_for(worker.child);
    coordinator_.reset();
    workers_.clear();
  }

 private:
  struct Process {
    Child child;
    std::unique_ptr<Channel> channel;
  };

  Result<Process> start(const std::vector<std::string>& arguments) {
    REKINDLE_TRY(auto ends, Channel::pair());
    std::vector<std::string> argv{control_};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    REKINDLE_TRY(Child child, spawn(argv, {}, ends.second.get()));
    return Process{std::move(child), std::make_unique<Channel>(std::move(ends.first))};
  }

  Status start_coordinator() {
    const auto trainers = options_.workers * options_.job.trainers_per_worker;
    REKINDLE_TRY(coordinator_, start({"coordinator", "--run-dir", options_.run_dir, "--trainers",
                                      str(trainers), "--job", nlohmann::json(options_.job).dump()}));
    return {};
  }

  Status start_workers(std::uint64_t term) {
    // Only the holder of a term may say what the run is.
    REKINDLE_CHECK(replace_file(layout_.config(), to_toml(options_.job)));
    for (std::uint64_t i = 0; i < options_.workers; ++i) {
      const std::string name = str("w", i, "-", random_hex(3));
      REKINDLE_TRY(Process worker,
                   start({"worker", "--run-dir", options_.run_dir, "--name", name, "--term", str(term)}));
      workers_.emplace(name, std::move(worker));
    }
    return {};
  }

  // Waits for something to happen and handles it.
  Status turn(int timeout_ms) {
    std::vector<pollfd> waits{{signals_.get(), POLLIN, 0}};
    waits.push_back({coordinator_ && coordinator_->channel ? coordinator_->channel->fd() : -1, POLLIN, 0});
    waits.push_back({coordinator_ ? coordinator_->child.pidfd.get() : -1, POLLIN, 0});
    std::vector<std::string> names;
    for (const auto& [name, worker] : workers_) {
      names.push_back(name);
      waits.push_back({worker.child.pidfd.get(), POLLIN, 0});
    }
    if (::poll(waits.data(), waits.size(), timeout_ms) < 0) return {};
    if (waits[0].revents != 0) on_signal();
    if (waits[1].revents != 0) {
      REKINDLE_CHECK(hear_coordinator());
    } else if (waits[2].revents != 0) {
      on_coordinator_end();
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (waits[3 + i].revents != 0) on_worker_end(names[i]);
    }
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
    const StopRun stop{static_cast<int>(interrupt ? ExitCode::kInterrupted : ExitCode::kSaved),
                       str("SIG", name != nullptr ? name : "?")};
    if (coordinator_ && coordinator_->channel) {
      if (auto sent = coordinator_->channel->send(encode(ToCoordinator(stop))); !sent)
        log_warning(sent.error().line());
    }
  }

  Status hear_coordinator() {
    auto text = coordinator_->channel->receive();
    if (!text || !*text) {
      coordinator_->channel.reset();  // its end follows on the pidfd
      return {};
    }
    REKINDLE_TRY(const ToSupervisor message, decode<ToSupervisor>(**text));
    if (const auto* up = std::get_if<CoordinatorUp>(&message)) return start_workers(up->term);
    if (const auto* say = std::get_if<Say>(&message)) view_.say(say->line);
    if (const auto* progress = std::get_if<Progress>(&message)) view_.show(*progress);
    if (const auto* end = std::get_if<Ended>(&message)) on_end(*end);
    return {};
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

  void on_coordinator_end() {
    const ExitStatus status = wait_for(coordinator_->child);
    coordinator_.reset();
    if (!ended_) {
      on_end(
          {70, str("the coordinator ", status.by_signal ? "was killed by signal " : "ended with exit code ",
                   status.code, ": run the same command again: it goes on from the last checkpoint")});
    }
  }

  void on_worker_end(const std::string& name) {
    const ExitStatus status = wait_for(workers_.at(name).child);
    workers_.erase(name);
    if (ended_ || !coordinator_ || !coordinator_->channel) return;
    const WorkerDied died{name, status.by_signal, status.code};
    if (auto sent = coordinator_->channel->send(encode(ToCoordinator(died))); !sent)
      log_warning(sent.error().line());
  }

  const LocalOptions& options_;
  run::Layout layout_;
  std::string control_;
  ProgressView view_;
  Fd signals_;
  std::optional<Process> coordinator_;
  std::map<std::string, Process> workers_;
  bool ended_ = false, interrupted_ = false;
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

}  // namespace rekindle::app
