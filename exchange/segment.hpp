// Memory that peers on this host may read: memfd segments that only their creator can write. Seals prevent a
// segment from shrinking, so a peer's death or error never causes a SIGBUS in a reader.
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

// `bytes` of zeros with allocated pages: a page fault in a step costs more than the sum of the page's floats.
Result<Segment> make_segment(const char* name, std::size_t bytes);

// A peer's segment, read-only. The mapping stays valid after the peer's death.
Result<Mapping> map_peer_segment(pid_t pid, int fd, std::size_t bytes);

}  // namespace rekindle::exchange
