// Files in a folder that other users may own or write to, such as a folder with data.
#pragma once

#include "base/files.hpp"

namespace rekindle {

// As open_file(), but a link is not followed, opening never waits, and the file must be a regular file of
// this user or root that no other user may write to. A file with a second name is refused, too: the other
// name may be in another user's folder.
Result<Fd> open_guarded(const FilePath& path, int flags);

// Whether this process may make files in a folder. Some file systems say yes and then refuse.
bool is_writable(const FilePath& folder);
// Whether this process may not read a file, because of the permissions of the file or of a folder above it.
bool is_denied(const FilePath& file);

}  // namespace rekindle
