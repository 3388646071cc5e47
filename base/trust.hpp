// Who may change a file or directory.
#pragma once

#include <sys/stat.h>

#include "base/file_path.hpp"
#include "base/result.hpp"

namespace rekindle {

// Whether another user than this one and root owns it.
bool others_own(const struct stat& info);
// Whether another user may write there. A POSIX access control list that lets somebody write shows in the
// group's bits. Source: acl(5), "Correspondence between ACL entries and file permission bits".
bool others_can_write(const struct stat& info);

// An error (ExitCode::kConfig, with the command that mends it) if either is so. `fd`: it, opened, or -1.
Status check_owner(int fd, const struct stat& info, const FilePath& path);

}  // namespace rekindle
