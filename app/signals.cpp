#include "app/signals.hpp"

#include <sys/signalfd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/text.hpp"

namespace rekindle::app {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) sigaddset(&set, signal);
  return set;
}

}  // namespace

void hold_signals() {
  const sigset_t set = stop_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

Result<Fd> take_signals() {
  hold_signals();
  const sigset_t set = stop_signals();
  Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail(str("signalfd: ", std::strerror(errno)));
  return fd;
}

}  // namespace rekindle::app
