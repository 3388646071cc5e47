// Reading and writing past the page cache. Internal to checkpoint/.
#pragma once

#include <cstddef>

namespace rekindle::checkpoint {

// Of any storage, at most: offsets, sizes and memory are multiples of it.
inline constexpr std::size_t kSector = 4096;

// Sets or clears O_DIRECT; false (with errno) where that cannot be.
bool set_direct(int fd, bool direct);

}  // namespace rekindle::checkpoint
