#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <tuple>

#include "base/channel.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace rekindle {
namespace {

// How often processes are looked for where there are no pidfds. The end of a trainer is noticed sooner
// (Lifeline).
constexpr std::chrono::milliseconds kLook{100};
constexpr int kThreads = 20, kBegun = 22;  // fields of /proc/PID/stat

// Old container runtimes answer a system call that they do not know with EPERM.
bool is_unknown_call(int error) { return error == ENOSYS || error == EPERM; }

enum class ChildState { kRuns, kEnded, kNoChild };

// A child has ended when its last thread has, not its first. Leaves it for wait_for().
ChildState state_of_child(pid_t pid) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    return ChildState::kNoChild;
  return info.si_pid == 0 ? ChildState::kRuns : ChildState::kEnded;
}

struct Watched {
  pid_t pid = -1;
  bool is_child = false;
  std::uint64_t begun = 0;  // tells another process from a later one with its pid
  Fd to;                    // a byte is sent to it at the end

  // If /proc cannot be read, for want of descriptors, the process is not taken for dead.
  bool has_ended() const {
    if (is_child) return state_of_child(pid) != ChildState::kRuns;
    if (::kill(pid, 0) != 0 && errno == ESRCH) return true;
    const std::uint64_t now = stat_field(pid, kBegun);
    if (now != 0 && now != begun) return true;
    // A zombie whose other threads still run has not ended.
    return now != 0 && !is_running(pid) && stat_field(pid, kThreads) <= 1;
  }
  bool has_reader() const {
    pollfd reader{to.get(), 0, 0};  // POLLHUP: there is none
    return ::poll(&reader, 1, 0) == 0;
  }
};

// One thread for all watched processes of this one. It is never ended: nor is this object.
class Lookout {
 public:
  void add(Watched watched) {
    const std::scoped_lock lock(mutex_);
    if (!looks_) {
      std::thread([this] { look(); }).detach();
      looks_ = true;
    }
    watched_.push_back(std::move(watched));
    added_.notify_one();
  }

 private:
  void look() {
    for (std::unique_lock lock(mutex_);;) {
      added_.wait(lock, [this] { return !watched_.empty(); });
      std::erase_if(watched_, [](const Watched& watched) {
        if (!watched.has_reader()) return true;
        if (!watched.has_ended()) return false;
        // Closing it is not enough: a process that was forked from this one may have it open, too.
        std::ignore = ::send(watched.to.get(), "", 1, MSG_NOSIGNAL);
        return true;
      });
      lock.unlock();
      std::this_thread::sleep_for(kLook);  // there is nothing that tells: that would be a pidfd
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable added_;
  std::vector<Watched> watched_;
  bool looks_ = false;
};

Result<Fd> watch_by_looking(pid_t pid) {
  static auto* const lookout = new Lookout;
  Watched watched{.pid = pid, .is_child = state_of_child(pid) != ChildState::kNoChild, .begun = 0, .to = {}};
  if (!watched.is_child) watched.begun = stat_field(pid, kBegun);
  if (!watched.is_child && watched.begun == 0) return fail(str("no process ", pid));
  // Not a pipe: a byte without a reader would be a SIGPIPE.
  REKINDLE_TRY(auto ends, Channel::pair());
  watched.to = std::move(ends.second);
  try {
    lookout->add(std::move(watched));
  } catch (const std::system_error& error) {
    return fail(str("no thread to watch a process with: ", error.what()));
  }
  return std::move(ends.first);
}

}  // namespace

Result<Fd> watch_process(pid_t pid) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (fd) return fd;
  if (is_unknown_call(errno)) return watch_by_looking(pid);
  return fail(str("cannot watch process ", pid, ": ", std::strerror(errno)));
}

void kill_child(const Child& child, int signal) {
  if (::syscall(SYS_pidfd_send_signal, child.pidfd.get(), signal, nullptr, 0) == 0 || errno == ESRCH) return;
  // The descriptor is no pidfd. The pid is the child's until wait_for() has returned.
  if (child.pid > 0 && state_of_child(child.pid) != ChildState::kNoChild) ::kill(child.pid, signal);
}

}  // namespace rekindle
