// gzip (RFC 1952) in memory, by zlib. Internal to data/.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "base/result.hpp"

namespace rekindle::data {

// All members of `packed`, one after the other. Damage, truncation and anything after the last member are
// errors (ExitCode::kConfig) that name `path`; so is unpacking to more than `most_bytes`, so that a damaged
// or hostile file cannot take all memory.
Result<std::vector<std::uint8_t>> gunzip(std::span<const std::uint8_t> packed,
                                         const std::filesystem::path& path, std::size_t most_bytes);

}  // namespace rekindle::data
