#include "base/pages.hpp"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace rekindle {

Pages::Pages(std::size_t bytes) {
  if (bytes == 0) return;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = {static_cast<std::byte*>(memory), bytes};
}

Pages::~Pages() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
}

Pages::Pages(Pages&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}

std::span<float> Pages::floats() {
  return {reinterpret_cast<float*>(memory_.data()), memory_.size() / sizeof(float)};
}

}  // namespace rekindle
