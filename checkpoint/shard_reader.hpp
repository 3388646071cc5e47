// Reads the shards of one checkpoint, whose sizes must be right. Internal to checkpoint/.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include "base/file_path.hpp"

#include "base/files.hpp"
#include "base/result.hpp"
#include "checkpoint/checkpoint.hpp"

namespace rekindle::checkpoint {

class ShardReader {
 public:
  // Files of other nodes may be seen late: it waits for each up to `patience`.
  explicit ShardReader(FilePath checkpoint_dir, std::chrono::milliseconds patience = {})
      : directory_(std::move(checkpoint_dir)), patience_(patience) {}

  Status read(const ShardEntry& shard, std::uint64_t offset, std::span<std::byte> out);
  // Past the page cache where the file system allows it. `begin` is a multiple of kSector, and so is the
  // memory that `out` is the beginning of.
  Status read_block(const ShardEntry& shard, std::uint64_t begin, std::span<std::byte> out);
  FilePath path_of(const ShardEntry& shard) const { return directory_ / shard.file; }

 private:
  enum class Direct : std::uint8_t { kNotTried, kYes, kNo };

  Status open(const ShardEntry& shard);
  bool read_directly(std::uint64_t begin, std::span<std::byte> out);
  Error missing(Error error) const;

  const FilePath directory_;
  const std::chrono::milliseconds patience_;
  FilePath path_;
  Fd fd_;
  const ShardEntry* open_ = nullptr;
  Direct direct_ = Direct::kNotTried;  // of the shard that is open
};

}  // namespace rekindle::checkpoint
