#include "trainer/memory.hpp"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <string>

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

std::uint64_t cpu_time_ms() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<std::uint64_t>(used.tv_sec) * 1000 + static_cast<std::uint64_t>(used.tv_nsec) / 1000000;
}

}  // namespace rekindle::trainer
