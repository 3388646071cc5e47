#include "app/signals.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/text.hpp"

namespace rekindle::app {
namespace {

constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kStopSignals) sigaddset(&set, signal);
  return set;
}

constexpr const char* kPrefix = "rekindle: signal ";

}  // namespace

void hold_signals() {
  const sigset_t set = stop_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a reader of the output that goes away must not end a run
  std::signal(SIGCHLD, SIG_DFL);  // ignored, no child's end would be told
  // Who is asked to stop is this process: Slurm signals its children, too, and scontrol has to finish. What
  // is ignored is kept for signalfd(2) all the same while it is blocked; but ignoring it drops one that has
  // come already, so this is done once, at the very beginning, and lasts over exec.
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

void report_signals() {
  hold_signals();
  std::thread([] {
    const sigset_t set = stop_signals();
    for (int signal = 0; ::sigwait(&set, &signal) == 0;) {
      const std::string line = str(kPrefix, signal, "\n");
      if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) continue;  // nobody listens any more
    }
  }).detach();
}

std::optional<int> signal_in(const std::string& line) {
  if (!line.starts_with(kPrefix)) return std::nullopt;
  const int signal = std::atoi(line.c_str() + std::strlen(kPrefix));
  const sigset_t set = stop_signals();
  return signal > 0 && signal < NSIG && sigismember(&set, signal) == 1 ? std::optional(signal) : std::nullopt;
}

}  // namespace rekindle::app
