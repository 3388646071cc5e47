#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <thread>

#include "base/process.hpp"
#include "base/text.hpp"

namespace rekindle {
namespace {

// How often a process is looked for where there are no pidfds. The end of a trainer is noticed sooner
// (Lifeline).
constexpr int kLookMs = 100;
constexpr int kBegun = 22;  // the field of /proc/PID/stat with the time of the start

// Old container runtimes answer a system call that they do not know with EPERM.
bool is_unknown_call(int error) { return error == ENOSYS || error == EPERM; }

// Sends a byte when the process is gone. Ends early when there is no reader any more.
// The time of its start tells the process from a later one with the same pid.
void look_for(pid_t pid, std::uint64_t begun, const Fd& to) {
  while (is_running(pid) && stat_field(pid, kBegun) == begun) {
    pollfd reader{to.get(), 0, 0};  // POLLHUP: there is none
    if (::poll(&reader, 1, kLookMs) > 0) return;
  }
  std::ignore = ::send(to.get(), "", 1, MSG_NOSIGNAL);
}

Result<Fd> watch_by_looking(pid_t pid) {
  const std::uint64_t begun = stat_field(pid, kBegun);
  if (begun == 0) return fail(str("no process ", pid));
  int ends[2];  // not a pipe: a byte without a reader would be a SIGPIPE
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(str("socketpair: ", std::strerror(errno)));
  Fd read(ends[0]), write(ends[1]);
  try {
    std::thread([pid, begun, to = std::move(write)] { look_for(pid, begun, to); }).detach();
  } catch (const std::system_error& error) {
    return fail(str("no thread to watch a process with: ", error.what()));
  }
  return read;
}

}  // namespace

Result<Fd> watch_process(pid_t pid) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (fd) return fd;
  if (is_unknown_call(errno)) return watch_by_looking(pid);
  return fail(str("no process ", pid, ": ", std::strerror(errno)));
}

void kill_child(const Child& child, int signal) {
  if (::syscall(SYS_pidfd_send_signal, child.pidfd.get(), signal, nullptr, 0) == 0 || errno == ESRCH) return;
  // The descriptor is no pidfd: the process is known by its pid alone, until its end was noticed.
  pollfd ended{child.pidfd.get(), POLLIN, 0};
  if (child.pidfd && child.pid > 0 && ::poll(&ended, 1, 0) == 0) ::kill(child.pid, signal);
}

}  // namespace rekindle
