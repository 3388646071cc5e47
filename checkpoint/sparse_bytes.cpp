#include "checkpoint/sparse_bytes.hpp"

#include <algorithm>

namespace rekindle::checkpoint {

void SparseBytes::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t inside = offset % kPageBytes;
    const std::size_t count = std::min(bytes.size(), kPageBytes - inside);
    auto& page = pages_.try_emplace(offset / kPageBytes).first->second;
    std::ranges::copy(bytes.first(count), page.begin() + inside);
    offset += count;
    bytes = bytes.subspan(count);
  }
}

void SparseBytes::read(std::uint64_t offset, std::span<std::byte> out) const {
  std::ranges::fill(out, std::byte{0});
  const std::uint64_t end = offset + out.size();
  for (auto page = pages_.lower_bound(offset / kPageBytes); page != pages_.end(); ++page) {
    const std::uint64_t begin = page->first * kPageBytes;
    if (begin >= end) break;
    const std::uint64_t from = std::max(begin, offset), to = std::min(begin + kPageBytes, end);
    std::copy_n(page->second.begin() + (from - begin), to - from, out.begin() + (from - offset));
  }
}

}  // namespace rekindle::checkpoint
