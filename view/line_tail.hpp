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

  // `anew`: the file was shortened or written anew since the last call, and all its lines are visited.
  using Visit = std::function<void(std::string line, bool anew)>;
  // Visits the complete lines since the last call, without their line ends; none if there is no file. After
  // an error the next call begins where this one did.
  Status read(const Visit& visit);

  struct Slice {
    std::string text;          // complete lines with their line ends; empty: there is no new line
    std::uint64_t offset = 0;  // of `text` in the file
    bool anew = false;         // `text` is the beginning of a file that was shortened or written anew
    bool more = false;         // the next call has more lines
  };
  // The next complete lines: about `most_bytes` of them, but at least one line if a complete line is there.
  // After an error the next call begins where this one did.
  Result<Slice> read_slice(std::uint64_t most_bytes);

  // Goes to the last lines of the file: at most `bytes` before its end.
  Status skip_to_last(std::uint64_t bytes);

 private:
  void advance(std::uint64_t offset, const std::string& text);

  FilePath file_;
  std::uint64_t offset_ = 0;  // behind the last complete line
  // The bytes before offset_, at most kCompared of them. If the file has other bytes there, it was shortened
  // and has grown since, and its size alone does not tell.
  std::string before_;
};

}  // namespace rekindle::view
