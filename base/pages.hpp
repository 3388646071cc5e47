// A block of memory of its own from the kernel: zero, and beginning with a page. The memory is taken at once,
// in huge pages where the kernel has them: 530 MB of small pages cost their first writer 0.3 s, and the
// writer may be a trainer that others wait for.
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
  std::span<std::byte> mapping_;  // contains memory_
};

}  // namespace rekindle
