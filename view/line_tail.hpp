// New lines of a file that other processes append to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_path.hpp"
#include "base/result.hpp"

namespace rekindle::view {

class LineTail {
 public:
  explicit LineTail(FilePath file) : file_(std::move(file)) {}

  struct Lines {
    std::vector<std::string> texts;  // complete ones, without their line ends
    bool anew = false;               // the file became shorter since the last call: these are all its lines
  };
  // Those since the last call; none if there is no file.
  Result<Lines> read();

 private:
  FilePath file_;
  std::uint64_t offset_ = 0;  // behind the last complete line
};

}  // namespace rekindle::view
