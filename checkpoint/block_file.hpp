// Writes a laid-out file: header bytes from the layout, data from memory, one pass. Internal to checkpoint/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "checkpoint/layout.hpp"
#include "checkpoint/read_ahead.hpp"

namespace rekindle::checkpoint {

inline constexpr std::size_t kBlockBytes = std::size_t{4} << 20;

constexpr std::uint64_t blocks_in(std::uint64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes; }

// Writes the file durably under `path` (a temporary name) and returns the XXH3-64 of each block, taken from
// the very buffer that was written. Past the page cache where the file system allows it. Removes the file on
// failure.
Result<std::vector<std::uint64_t>> write_blocks(const std::filesystem::path& path, ReadAhead& ahead);

}  // namespace rekindle::checkpoint
