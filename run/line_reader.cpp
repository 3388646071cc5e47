#include "run/line_reader.hpp"

#include <cstring>

namespace rekindle::run {

bool LineReader::next() {
  text_.clear();
  bytes_ = 0;
  ended_ = false;
  while (!ended_) {
    if (at_ == end_) {
      given_up_ = give_up_ && give_up_();
      if (given_up_) return false;
      in_.read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
      at_ = 0;
      end_ = static_cast<std::size_t>(in_.gcount());
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
