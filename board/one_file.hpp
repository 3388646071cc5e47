// The page of a run as one file, which needs no server.
#pragma once

#include <filesystem>

#include "base/result.hpp"

namespace rekindle::board {

Status write_page_file(const std::filesystem::path& run_directory, const std::filesystem::path& file);

}  // namespace rekindle::board
