// The programs that a run was begun with, kept in its run directory with the libraries that are not the
// system's: a rebuild between two attempts, or a checkout that is gone, changes nothing.
#pragma once

#include <filesystem>

#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

// Where they are; copies this build's if there are none yet.
Result<FilePath> keep_program(const run::Layout& layout);

// Whether this process runs one of those in `programs`, by whatever name the folder goes.
bool is_here(const FilePath& programs);

}  // namespace rekindle::app
