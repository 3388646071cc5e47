// Records and logs: files of a run directory that grow.
#pragma once

#include "base/file_path.hpp"
#include "base/files.hpp"
#include "base/result.hpp"

namespace rekindle {

// Opens or creates a file to append to it. `access`: O_WRONLY or O_RDWR.
//
// open_file() refuses a file with a second name (a hard link), because what is written would be in the other
// place, too. If such a file below a root belongs to this user and only this user can change it, its name is
// first given to a copy: `cp -al RUN BACKUP` gives each file of a run a second name, in the backup. What was
// linked is never written to, whoever made the link.
Result<Fd> open_to_append(const FilePath& path, int access);

}  // namespace rekindle
