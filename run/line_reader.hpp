// The lines of a file of records, whatever is in it: no line takes more memory than kMostLineBytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>

namespace rekindle::run {

inline constexpr std::size_t kMostLineBytes = std::size_t{1} << 20;

class LineReader {
 public:
  explicit LineReader(std::istream& in) : in_(in) {}

  // False when there is no further line.
  bool next();
  // Without its line end; empty for a line that is longer than kMostLineBytes.
  const std::string& text() const { return text_; }
  std::uint64_t bytes() const { return bytes_; }  // with its line end
  bool ended() const { return ended_; }           // has one

 private:
  std::istream& in_;
  std::array<char, 65536> buffer_;
  std::size_t at_ = 0, end_ = 0;  // what of the buffer has not been looked at
  std::string text_;
  std::uint64_t bytes_ = 0;
  bool ended_ = false;
};

}  // namespace rekindle::run
