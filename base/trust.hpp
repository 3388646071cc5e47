// Who may change a file or directory. Internal to base/.
#pragma once

#include <sys/stat.h>

#include "base/file_path.hpp"
#include "base/result.hpp"

namespace rekindle {

// An error (ExitCode::kConfig, with the command that mends it) if another user than this one and root owns
// what `info` describes, or may write there. `fd`: it, opened, or -1. A POSIX access control list that lets
// somebody write shows in the group's bits. Source: acl(5), "Correspondence between ACL entries and file
// permission bits".
Status check_owner(int fd, const struct stat& info, const FilePath& path);

}  // namespace rekindle
