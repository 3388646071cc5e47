#include "run/line_reader.hpp"

#include <algorithm>
#include <cstring>
#include <span>

namespace rekindle::run {

bool LineReader::next() {
  text_.clear();
  bytes_ = 0;
  ended_ = false;
  while (!ended_) {
    if (at_ == end_) {
      given_up_ = give_up_ && give_up_();
      if (given_up_) return false;
      const std::uint64_t piece = std::min<std::uint64_t>(buffer_.size(), file_.size - offset_);
      status_ = file_.read(offset_, std::as_writable_bytes(std::span(buffer_)).first(piece));
      if (!status_) return false;
      offset_ += piece;
      at_ = 0;
      end_ = piece;
      if (end_ == 0) return bytes_ > 0;
    }
    const char* from = buffer_.data() + at_;
    const auto* found = static_cast<const char*>(std::memchr(from, '\n', end_ - at_));
    ended_ = found != nullptr;
    const std::size_t size = ended_ ? static_cast<std::size_t>(found - from) : end_ - at_;
    bytes_ += size;
    if (bytes_ <= kMostLineBytes)
      text_.append(from, size);
    else
      text_.clear();
    at_ += size + (ended_ ? 1 : 0);
    bytes_ += ended_ ? 1 : 0;
  }
  return true;
}

}  // namespace rekindle::run
