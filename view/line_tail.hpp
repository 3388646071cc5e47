// New lines of a file that other processes append to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/file_path.hpp"
#include "base/result.hpp"

namespace rekindle::view {

class LineTail {
 public:
  explicit LineTail(FilePath file) : file_(std::move(file)) {}

  // `anew`: the file became shorter since the last call, and all its lines are visited.
  using Visit = std::function<void(std::string line, bool anew)>;
  // Visits the complete lines since the last call, without their line ends; none if there is no file. After
  // an error the next call begins where this one did.
  Status read(const Visit& visit);
  // Goes to the last lines of the file: at most `bytes` before its end.
  Status skip_to_last(std::uint64_t bytes);

 private:
  FilePath file_;
  std::uint64_t offset_ = 0;  // behind the last complete line
};

}  // namespace rekindle::view
