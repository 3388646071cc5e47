// Cuts what a program prints into lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rekindle {

class LineSplitter {
 public:
  static constexpr std::size_t kLongest = std::size_t{64} << 10;  // then the line is cut

  // The lines that end in `bytes`, without their ends. As on a terminal, what follows a '\r' takes the place
  // of the line, so a progress bar is one line: memory stays small, and so does the output.
  std::vector<std::string> take(std::string_view bytes) {
    std::vector<std::string> lines;
    for (const char c : bytes) {
      if (c == '\n' || line_.size() == kLongest) lines.push_back(std::exchange(line_, {}));
      const bool is_end = c == '\n' || c == '\r';
      if (std::exchange(returned_, c == '\r') && !is_end) line_.clear();
      if (!is_end) line_ += c;
    }
    return lines;
  }

  // The line that has no end: for the end of the text.
  std::string rest() { return std::exchange(line_, {}); }

 private:
  std::string line_;       // unfinished
  bool returned_ = false;  // by a '\r' just now
};

}  // namespace rekindle
