// A file's bytes, of which most are not stored: unwritten pages read as zeros. Internal to checkpoint/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

namespace rekindle::checkpoint {

class SparseBytes {
 public:
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  static constexpr std::size_t kPageBytes = 4096;
  std::map<std::uint64_t, std::array<std::byte, kPageBytes>> pages_;  // by offset / kPageBytes
};

}  // namespace rekindle::checkpoint
