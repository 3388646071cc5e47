// Hard links and copies. Copies are made in pieces: a library may be larger than the free memory.
#pragma once

#include "base/file_path.hpp"
#include "base/result.hpp"

namespace rekindle {

// Creates `to`, durable, with the bytes of `from`. `mode` 0: readable and writable by the owner only.
Status copy_file(const FilePath& from, const FilePath& to, unsigned mode = 0);
// The same for a file that is open for reading as `source`; `from` is for messages.
Status copy_open_file(int source, const FilePath& from, const FilePath& to, unsigned mode);
// A hard link to `from` at `to`, or such a copy if a link is not possible.
Status link_or_copy(const FilePath& from, const FilePath& to);

}  // namespace rekindle
