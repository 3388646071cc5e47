#include "base/own_children.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include "base/process.hpp"

namespace rekindle {

OwnChildren& OwnChildren::of_this_process() {
  static auto* const one = new OwnChildren;  // never destroyed: threads may outlive main's statics
  return *one;
}

// Not locked meanwhile: a program on storage that hangs takes long to start, and only its thread has to wait.
pid_t OwnChildren::start(const std::function<pid_t()>& starter) {
  {
    const std::scoped_lock lock(mutex_);
    ++starting_;
  }
  const pid_t pid = starter();
  const std::scoped_lock lock(mutex_);
  --starting_;
  if (pid > 0) pids_.insert(pid);
  return pid;
}

void OwnChildren::forget(pid_t pid) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = pids_.find(pid); found != pids_.end()) pids_.erase(found);
}

std::size_t OwnChildren::reap_others() {
  siginfo_t any{};
  if (::waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT) != 0 || any.si_pid == 0) return 0;
  // That child may be one that this process has started, and its exit status is for wait_for(). So each child
  // is asked for by its pid.
  const std::scoped_lock lock(mutex_);
  if (starting_ > 0) return 0;  // the next call will do
  std::size_t reaped = 0;
  for (const pid_t pid : children_of(::getpid())) {
    if (pids_.contains(pid)) continue;
    siginfo_t ended{};
    const int answer = ::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG);
    if (answer == 0 && ended.si_pid == pid) ++reaped;
  }
  return reaped;
}

}  // namespace rekindle
