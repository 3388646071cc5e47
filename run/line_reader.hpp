// Reads the lines of a record file with any content. No line takes more memory than kMostLineBytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/input_file.hpp"
#include "base/result.hpp"

namespace rekindle::run {

inline constexpr std::size_t kMostLineBytes = std::size_t{1} << 20;

class LineReader {
 public:
  // Reads up to `file.size`. `give_up` is called before each piece of 64 KiB, also within one long line.
  explicit LineReader(InputFile file, std::function<bool()> give_up = {})
      : file_(std::move(file)), give_up_(std::move(give_up)) {}

  // False when there is no further line, when reading was given up, or after an error.
  bool next();
  bool given_up() const { return given_up_; }
  // An error if a part of the file could not be read: next() has then returned false before the end.
  const Status& status() const { return status_; }
  // The line without its line end; empty if the line is longer than kMostLineBytes.
  const std::string& text() const { return text_; }
  std::uint64_t bytes() const { return bytes_; }  // of the line, with its line end
  bool ended() const { return ended_; }           // whether the line has a line end

 private:
  InputFile file_;
  std::uint64_t offset_ = 0;       // in the file, of the end of the buffer
  std::function<bool()> give_up_;  // may be empty
  std::array<char, 65536> buffer_;
  std::size_t at_ = 0, end_ = 0;  // the unread part of the buffer
  std::string text_;
  std::uint64_t bytes_ = 0;
  bool ended_ = false, given_up_ = false;
  Status status_;
};

}  // namespace rekindle::run
