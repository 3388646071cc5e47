// What this process uses of its machine.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>

namespace rekindle::trainer {

// Proportional set size of this process: a page shared by n processes counts 1/n. From
// /proc/self/smaps_rollup (proc(5)); 0 if the kernel does not provide the file.
std::uint64_t pss_bytes();
// Resident bytes, from /proc/self/statm (proc(5)); 0 if the kernel does not provide the file.
std::uint64_t resident_bytes();

// The CPU time of this process, over all its threads, and of its children: those that load samples for a
// script.
class CpuMeter {
 public:
  // Since the call before, in milliseconds; at the first call, since the start. What a child used after the
  // last call before its end is not counted.
  std::uint64_t used_ms();

 private:
  std::uint64_t own_ms_ = 0;
  std::map<pid_t, std::uint64_t> children_ms_;  // used up to the call before
};

}  // namespace rekindle::trainer
