// Whether a run directory is safe to use: its owner, and users who may change it, control what a run
// executes, reads and resumes from. docs/security.md lists what is trusted and why.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::run {

// An error (ExitCode::kConfig, with the command that repairs it) if a user other than this one and root owns,
// or may change, the run directory or a file that a run reads, executes or appends to there (checkpoints are
// checked when they are read); if such a file is a link; if another user may read the key; or if a record
// file is too long. Call this before any file there is used. A missing directory is no error.
Status check_trusted(const Layout& layout);

// The inode of the present run directory, for Layout. An error if the directory cannot be opened safely.
Result<std::uint64_t> inode_of(const Layout& layout);

// A warning if another user may put another directory in the place of the run directory, because that user
// owns, or may change, a folder above it, a link that leads to it, or a folder above such a link. Empty: no
// user can.
std::string exchange_warning(const Layout& layout);

}  // namespace rekindle::run
