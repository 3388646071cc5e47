// Memory that peers on this host may read: memfd segments that only their maker can write, and that cannot
// shrink under a reader (sealed), so a peer's death or mistake never turns into a SIGBUS here.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string_view>
#include <utility>

#include "base/files.hpp"
#include "base/result.hpp"

namespace rekindle::exchange {

class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  ~Mapping();
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  std::byte* data() const { return data_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

struct Segment {
  Fd fd;
  Mapping memory;
};

// `bytes` of zeros, their pages there already: a page fault in a step costs more than the sum of its floats.
Result<Segment> make_segment(const char* name, std::size_t bytes);

// A peer's segment, read-only. Lives on when the peer is dead.
Result<Mapping> map_peer_segment(pid_t pid, int fd, std::size_t bytes);

}  // namespace rekindle::exchange
