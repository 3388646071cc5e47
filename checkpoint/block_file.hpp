// Writes a laid-out file: header bytes from the layout, data from memory, one pass. Internal to checkpoint/.
#pragma once

#include "base/file_path.hpp"

#include "checkpoint/read_ahead.hpp"

namespace rekindle::checkpoint {

// Writes the file durably under `path` (a temporary name); past the page cache where the file system allows
// it. Removes the file on failure.
Status write_blocks(const FilePath& path, ReadAhead& ahead);

}  // namespace rekindle::checkpoint
