#include "app/signals.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>
#include <tuple>

#include "base/process.hpp"
#include "base/text.hpp"

namespace rekindle::app {
namespace {

constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};

// nohup(1) starts a program with SIGHUP ignored. A process that holds it has it blocked, too, also after
// exec.
bool hangup_stays_ignored() {
  struct sigaction now {};
  sigset_t blocked;
  sigemptyset(&blocked);
  sigprocmask(SIG_BLOCK, nullptr, &blocked);
  return ::sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler == SIG_IGN &&
         sigismember(&blocked, SIGHUP) == 0;
}

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kStopSignals) sigaddset(&set, signal);
  if (hangup_stays_ignored()) sigdelset(&set, SIGHUP);
  return set;
}

constexpr const char* kPrefix = "rekindle: signal ";
constexpr const char* kStepPrefix = "rekindle: step ";

// A closed reader is not an error.
bool print_line(const std::string& line) {
  return ::write(STDOUT_FILENO, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

}  // namespace

void hold_signals(Hangup hangup) {
  if (hangup == Hangup::kHeld) {
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, SIGHUP);
    sigprocmask(SIG_BLOCK, &only, nullptr);
  }
  const sigset_t set = stop_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a closed reader of the output must not end a run
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond `ulimit -f` is an error like a full disk
  std::signal(SIGCHLD, SIG_DFL);  // if SIGCHLD were ignored, no exit status could be read
  // Only this process handles the signals, but Slurm signals its children, too, and a child like scontrol
  // must finish. So children inherit the signals as ignored. A blocked signal stays pending for signalfd(2)
  // even if ignored. But setting SIG_IGN drops a pending signal, so this is done only once, at the start, and
  // lasts over exec.
  for (const int signal : kStopSignals) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

bool stop_is_asked() {
  sigset_t waiting;
  sigemptyset(&waiting);
  sigpending(&waiting);
  return std::ranges::any_of(kStopSignals, [&](int signal) { return sigismember(&waiting, signal) == 1; });
}

Result<Fd> take_signals() {
  hold_signals();
  const sigset_t set = stop_signals();
  Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail(str("signalfd: ", std::strerror(errno)));
  return fd;
}

int usual_exit_code(int signal) {
  return static_cast<int>(signal == SIGINT ? ExitCode::kInterrupted : ExitCode::kSaved);
}

EndOnSignal::EndOnSignal(std::function<int(int signal)> last_act) : done_(::eventfd(0, EFD_CLOEXEC)) {
  const sigset_t set = stop_signals();
  Fd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!done_ || !signals) return;  // no descriptors are left: signals stay pending
  thread_ = std::thread([done = done_.get(), signals = std::move(signals), last_act = std::move(last_act)] {
    for (;;) {
      pollfd waits[] = {{done, POLLIN, 0}, {signals.get(), POLLIN, 0}};
      if (::poll(waits, std::size(waits), -1) < 0) continue;
      if (waits[0].revents != 0) return;
      signalfd_siginfo info{};
      if (::read(signals.get(), &info, sizeof info) != sizeof info) continue;
      const auto signal = static_cast<int>(info.ssi_signo);
      const int exit_code = last_act(signal);
      const char* name = ::sigabbrev_np(signal);
      std::fprintf(stderr, "rekindle: ended by SIG%s\n", name != nullptr ? name : "?");
      ::_exit(exit_code);
    }
  });
}

EndOnSignal::~EndOnSignal() {
  constexpr std::uint64_t kDone = 1;
  if (!thread_.joinable()) return;
  if (::write(done_.get(), &kDone, sizeof kDone) != sizeof kDone)
    std::abort();  // this write to an eventfd cannot fail
  thread_.join();
}

void report_signals() {
  hold_signals(Hangup::kHeld);
  std::thread([] {
    const sigset_t set = stop_signals();
    for (int signal = 0; ::sigwait(&set, &signal) == 0;) {
      std::ignore = print_line(str(kPrefix, signal, "\n"));
    }
  }).detach();
}

std::optional<int> signal_in(const std::string& line) {
  if (!line.starts_with(kPrefix)) return std::nullopt;
  const int signal = std::atoi(line.c_str() + std::strlen(kPrefix));
  const sigset_t set = stop_signals();
  return signal > 0 && signal < NSIG && sigismember(&set, signal) == 1 ? std::optional(signal) : std::nullopt;
}

void report_step() {
  const std::string job = environment_variable("SLURM_JOB_ID"), step = environment_variable("SLURM_STEP_ID");
  if (!job.empty() && !step.empty()) std::ignore = print_line(str(kStepPrefix, job, ".", step, "\n"));
}

std::optional<std::string> step_in(const std::string& line) {
  if (!line.starts_with(kStepPrefix)) return std::nullopt;
  const std::string step = line.substr(std::strlen(kStepPrefix));
  return step.find_first_not_of("0123456789.") == std::string::npos ? std::optional(step) : std::nullopt;
}

}  // namespace rekindle::app
