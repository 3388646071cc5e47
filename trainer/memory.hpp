#pragma once

#include <cstdint>

namespace rekindle::trainer {

// Proportional set size of this process: a page shared by n processes counts 1/n. From
// /proc/self/smaps_rollup (proc(5)); 0 if the kernel does not provide the file.
std::uint64_t pss_bytes();
// Resident bytes, from /proc/self/statm (proc(5)); 0 if the kernel does not provide the file.
std::uint64_t resident_bytes();
// The CPU time that this process has used, over all its threads, in milliseconds.
std::uint64_t cpu_time_ms();

}  // namespace rekindle::trainer
