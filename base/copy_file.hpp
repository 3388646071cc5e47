// Files under a second name, or copied. In pieces: a library may be larger than the memory that is free.
#pragma once

#include "base/file_path.hpp"
#include "base/result.hpp"

namespace rekindle {

// A new file at `to`, durable, with the bytes of `from`. `mode` 0: its owner's rights.
Status copy_file(const FilePath& from, const FilePath& to, unsigned mode = 0);
// A hard link to `from` at `to`, or such a copy if there can be none.
Status link_or_copy(const FilePath& from, const FilePath& to);

}  // namespace rekindle
