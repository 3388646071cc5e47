// Writes a laid-out file in one pass: header bytes from the layout, data from memory. Internal to
// checkpoint/.
#pragma once

#include <functional>

#include "base/file_path.hpp"

#include "checkpoint/read_ahead.hpp"

namespace rekindle::checkpoint {

// Writes the file durably under `path` (a temporary name), past the page cache if the file system allows
// this. Removes the file on failure. `block_written` may be empty.
Status write_blocks(const FilePath& path, ReadAhead& ahead, const std::function<void()>& block_written);

}  // namespace rekindle::checkpoint
