#include "trainer/memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <string>
#include <utility>

#include "base/process.hpp"

namespace rekindle::trainer {

std::uint64_t pss_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    std::uint64_t kilobytes = 0;
    if (word == "Pss:" && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

namespace {

std::uint64_t own_cpu_ms() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<std::uint64_t>(used.tv_sec) * 1000 + static_cast<std::uint64_t>(used.tv_nsec) / 1000000;
}

// utime and stime, see proc(5).
std::uint64_t cpu_ms_of(pid_t pid) {
  const auto ticks = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return (stat_field(pid, 14) + stat_field(pid, 15)) * 1000 / ticks;
}

}  // namespace

std::uint64_t CpuMeter::used_ms() {
  const std::uint64_t own = own_cpu_ms();
  std::uint64_t used = own - std::exchange(own_ms_, own);
  std::map<pid_t, std::uint64_t> children;
  for (const pid_t child : children_of(::getpid())) {
    const std::uint64_t now = cpu_ms_of(child);
    const auto known = children_ms_.find(child);
    const std::uint64_t before = known == children_ms_.end() ? 0 : known->second;
    used += now - std::min(now, before);  // less: another process has the number of one that ended
    children.emplace(child, now);
  }
  children_ms_ = std::move(children);
  return used;
}

}  // namespace rekindle::trainer
