// A block of memory of its own from the kernel: zero, and beginning with a page. Pages that nobody touches
// take no memory.
#pragma once

#include <cstddef>
#include <span>

namespace rekindle {

class Pages {
 public:
  explicit Pages(std::size_t bytes);  // throws std::bad_alloc
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&&) = delete;

  std::span<std::byte> bytes() { return memory_; }
  std::span<const std::byte> bytes() const { return memory_; }
  std::span<float> floats();

 private:
  std::span<std::byte> memory_;
};

}  // namespace rekindle
