// Whether a run directory can be worked in: who owns it and who may change it decides what a run executes,
// reads and goes on from. docs/security.md says what is trusted and why.
#pragma once

#include <string>

#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::run {

// An error (ExitCode::kConfig, with the command that mends it) if another user than this one and root owns,
// or may change, the run directory or what a run reads, executes or appends to there (checkpoints are checked
// when they are read); if one of them is a link; or if anybody else may read the key. To be called before
// anything there is used. No directory: no error.
Status check_trusted(const Layout& layout);

// What to warn of where another user may move the run directory away, for he may change the directory that it
// is in; empty: nobody can.
std::string parent_warning(const Layout& layout);

}  // namespace rekindle::run
