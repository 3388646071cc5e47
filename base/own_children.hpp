// The children that this process has started. All others it has inherited.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <mutex>
#include <set>

namespace rekindle {

class OwnChildren {
 public:
  static OwnChildren& of_this_process();

  // Calls `starter`, which starts a process and returns its pid; below 1: it has started none. Returns the
  // pid.
  pid_t start(const std::function<pid_t()>& starter);
  // The exit status of this child was taken.
  void forget(pid_t pid);
  // Takes the exit status of each child that has ended and that this process has not started. Returns their
  // number.
  std::size_t reap_others();

 private:
  std::mutex mutex_;  // guards the fields below
  int starting_ = 0;  // calls of start() that have not returned: their children are not in the list yet
  // A child's pid is free before forget(), and may be that of the next child by then: so both are in it.
  std::multiset<pid_t> pids_;
};

}  // namespace rekindle
