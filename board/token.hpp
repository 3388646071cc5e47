// The secret of a page: whoever knows it may read.
#pragma once

#include <filesystem>
#include <string>

#include "base/file_path.hpp"
#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::board {

// The secret in a file that only its owner can read; it is made if there is none.
Result<std::string> take_token(const FilePath& file);
// A secret that a person has put into a file: its first line. An error if others can read the file.
Result<std::string> read_token(const std::filesystem::path& file);
// Of a board: $XDG_STATE_HOME/rekindle/board-token (freedesktop.org, XDG Base Directory Specification).
Result<FilePath> board_token_file();

}  // namespace rekindle::board
