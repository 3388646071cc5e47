#pragma once

#include <cstdint>

namespace rekindle::trainer {

// Proportional set size of this process: a page that n processes share counts 1/n. From
// /proc/self/smaps_rollup (proc(5)); 0 where the kernel does not offer it.
std::uint64_t pss_bytes();

}  // namespace rekindle::trainer
