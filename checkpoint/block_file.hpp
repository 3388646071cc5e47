// Writes a laid-out file: header bytes from the layout, data from memory, one pass. Internal to checkpoint/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "checkpoint/layout.hpp"

namespace rekindle::checkpoint {

inline constexpr std::size_t kBlockBytes = std::size_t{4} << 20;

constexpr std::uint64_t blocks_in(std::uint64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes; }

// Some bytes at some place of the file.
struct Piece {
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
};

// Writes the file durably under `path` (a temporary name) and returns the XXH3-64 of each block, taken from
// the very buffer that was written. `pieces` in order of offset, without overlaps. Removes the file on
// failure.
Result<std::vector<std::uint64_t>> write_blocks(const std::filesystem::path& path, const Layout& layout,
                                                const std::vector<Piece>& pieces);

}  // namespace rekindle::checkpoint
