// A run's directory and key are nobody else's business: whoever reads the key belongs to the run.
#pragma once

#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::run {

// An error (ExitCode::kConfig, with the command that mends it) if other users may enter the run directory, or
// anybody but its owner may read the key.
Status check_private(const Layout& layout);

}  // namespace rekindle::run
