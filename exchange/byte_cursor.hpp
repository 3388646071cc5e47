// Reads and writes scattered pieces of memory as if the pieces were one stream of bytes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rekindle::exchange {

class ByteCursor {
 public:
  explicit ByteCursor(const std::vector<std::span<std::byte>>& pieces) : pieces_(&pieces) {}

  // The next contiguous bytes, at most `limit`; empty at the end.
  std::span<std::byte> next(std::size_t limit);
  // Copies the next bytes out of the pieces. Returns the byte count (less than to.size() only at the end).
  std::size_t read(std::span<std::byte> to);
  // Copies into the pieces. Returns how many bytes of `from` fitted.
  std::size_t write(std::span<const std::byte> from);

 private:
  const std::vector<std::span<std::byte>>* pieces_;
  std::size_t piece_ = 0, offset_ = 0;
};

std::size_t total_bytes(const std::vector<std::span<std::byte>>& pieces);

}  // namespace rekindle::exchange
