// Writes a laid-out file: header bytes from the layout, data from memory, one pass. Internal to checkpoint/.
#pragma once

#include <cstddef>
#include <filesystem>

#include "checkpoint/read_ahead.hpp"

namespace rekindle::checkpoint {

// Some of them, from each trainer of a machine, leave the processor's cache to those who compute.
inline constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

// Writes the file durably under `path` (a temporary name); past the page cache where the file system allows
// it. Removes the file on failure.
Status write_blocks(const std::filesystem::path& path, ReadAhead& ahead);

}  // namespace rekindle::checkpoint
