// Which users may change a file or directory.
#pragma once

#include <sys/stat.h>

#include "base/file_path.hpp"
#include "base/result.hpp"

namespace rekindle {

// Whether a user other than this one and root owns the file.
bool others_own(const struct stat& info);
// Whether other users may write to the file. A POSIX access control list with a writer is visible in the
// group's bits. Source: acl(5), "Correspondence between ACL entries and file permission bits".
bool others_can_write(const struct stat& info);

// An error (ExitCode::kConfig, with a command as the remedy) in both cases. For a path below a root, the
// command for modes mends all that is below this root. `fd`: the open file, or -1.
Status check_owner(int fd, const struct stat& info, const FilePath& path);

// Of a file that this process has just made: an error (ExitCode::kConfig) if the storage has given the file
// to another user, as NFS does with root's files (root_squash, exports(5)).
Status check_own(const struct stat& made, const FilePath& path);

}  // namespace rekindle
