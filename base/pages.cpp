#include "base/pages.hpp"

#include <sys/mman.h>

#include <memory>
#include <new>
#include <utility>

namespace rekindle {

namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;  // x86-64 and aarch64 with pages of 4 KiB

}  // namespace

Pages::Pages(std::size_t bytes) {
  if (bytes == 0) return;
  std::size_t room = bytes < kHuge ? bytes : bytes + kHuge;
  void* begin = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  mapping_ = {static_cast<std::byte*>(begin), room};
  if (bytes >= kHuge) std::align(kHuge, bytes, begin, room);
  memory_ = {static_cast<std::byte*>(begin), bytes};
  // Neither is needed for correct results: an older kernel, or one without huge pages, refuses.
  if (bytes >= kHuge) ::madvise(begin, bytes, MADV_HUGEPAGE);
  ::madvise(begin, bytes, MADV_POPULATE_WRITE);
}

Pages::~Pages() {
  if (!mapping_.empty()) ::munmap(mapping_.data(), mapping_.size());
}

Pages::Pages(Pages&& other) noexcept
    : memory_(std::exchange(other.memory_, {})), mapping_(std::exchange(other.mapping_, {})) {}

std::span<float> Pages::floats() {
  return {reinterpret_cast<float*>(memory_.data()), memory_.size() / sizeof(float)};
}

}  // namespace rekindle
