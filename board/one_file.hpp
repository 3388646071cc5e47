// The page of a run as one file, which needs no server.
#pragma once

#include <filesystem>

#include "base/result.hpp"
#include "board/run_page.hpp"

namespace rekindle::board {

class PageFile {
 public:
  PageFile(const std::filesystem::path& run_directory, std::filesystem::path file);
  // The file with all that the run has recorded by now. What was read for the last one is not read again.
  Status write();

 private:
  RunPage page_;
  const std::filesystem::path file_;
};

}  // namespace rekindle::board
