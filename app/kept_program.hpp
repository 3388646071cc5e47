// The programs that started a run, kept in its run directory with all non-system libraries. So a rebuild
// between two attempts, or a deleted checkout, does not affect the run.
#pragma once

#include <filesystem>

#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

// Returns their folder; copies the programs of this build if none are kept yet.
Result<FilePath> keep_program(const run::Layout& layout);

}  // namespace rekindle::app
