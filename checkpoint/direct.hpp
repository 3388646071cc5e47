// Reading and writing past the page cache. Internal to checkpoint/.
#pragma once

#include <cstddef>

namespace rekindle::checkpoint {

// The largest sector size of any storage: offsets, sizes and memory addresses are multiples of it.
inline constexpr std::size_t kSector = 4096;

// Sets or clears O_DIRECT. False (with errno) if the file does not support this.
bool set_direct(int fd, bool direct);

}  // namespace rekindle::checkpoint
