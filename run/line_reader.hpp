// Reads the lines of a record file with any content. No line takes more memory than kMostLineBytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <string>
#include <utility>

namespace rekindle::run {

inline constexpr std::size_t kMostLineBytes = std::size_t{1} << 20;

class LineReader {
 public:
  // `give_up` is called before each piece of 64 KiB, also within one long line.
  explicit LineReader(std::istream& in, std::function<bool()> give_up = {})
      : in_(in), give_up_(std::move(give_up)) {}

  // False when there is no further line, or when reading was given up.
  bool next();
  bool given_up() const { return given_up_; }
  // The line without its line end; empty if the line is longer than kMostLineBytes.
  const std::string& text() const { return text_; }
  std::uint64_t bytes() const { return bytes_; }  // of the line, with its line end
  bool ended() const { return ended_; }           // whether the line has a line end

 private:
  std::istream& in_;
  std::function<bool()> give_up_;  // may be empty
  std::array<char, 65536> buffer_;
  std::size_t at_ = 0, end_ = 0;  // the unread part of the buffer
  std::string text_;
  std::uint64_t bytes_ = 0;
  bool ended_ = false, given_up_ = false;
};

}  // namespace rekindle::run
