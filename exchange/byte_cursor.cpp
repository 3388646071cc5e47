#include "exchange/byte_cursor.hpp"

#include <algorithm>
#include <cstring>

namespace rekindle::exchange {

std::span<std::byte> ByteCursor::next(std::size_t limit) {
  while (piece_ < pieces_->size() && offset_ == (*pieces_)[piece_].size()) {
    ++piece_;
    offset_ = 0;
  }
  if (piece_ == pieces_->size()) return {};
  const std::span<std::byte> piece = (*pieces_)[piece_];
  const std::span<std::byte> part = piece.subspan(offset_, std::min(limit, piece.size() - offset_));
  offset_ += part.size();
  return part;
}

std::size_t ByteCursor::read(std::span<std::byte> to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const std::span<std::byte> part = next(to.size() - done);
    if (part.empty()) break;
    std::memcpy(to.data() + done, part.data(), part.size());
    done += part.size();
  }
  return done;
}

std::size_t ByteCursor::write(std::span<const std::byte> from) {
  std::size_t done = 0;
  while (done < from.size()) {
    const std::span<std::byte> part = next(from.size() - done);
    if (part.empty()) break;
    std::memcpy(part.data(), from.data() + done, part.size());
    done += part.size();
  }
  return done;
}

std::size_t total_bytes(const std::vector<std::span<std::byte>>& pieces) {
  std::size_t total = 0;
  for (const auto& piece : pieces) total += piece.size();
  return total;
}

}  // namespace rekindle::exchange
