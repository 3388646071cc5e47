// Reads the shards of one checkpoint, and checks their sizes. Internal to checkpoint/.
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
  // Storage may show files of other nodes late, so this waits up to `patience` for each file.
  explicit ShardReader(FilePath checkpoint_dir, std::chrono::milliseconds patience = {})
      : directory_(std::move(checkpoint_dir)), patience_(patience) {}

  Status read(const ShardEntry& shard, std::uint64_t offset, std::span<std::byte> out);
  // Reads past the page cache if the file system allows this. `begin` and the start of the memory are
  // multiples of kSector. The memory after `out` must be writable up to the next multiple of kSector.
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
  Direct direct_ = Direct::kNotTried;  // for the open shard
};

}  // namespace rekindle::checkpoint
