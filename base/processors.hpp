// How many processors this process may use.
#pragma once

#include <cstdint>
#include <filesystem>

namespace rekindle {

// At least 1: the processors of this thread's affinity mask, or fewer if a CPU limit of its cgroups is
// tighter (docker --cpus, a limit of Kubernetes). A limit of 1.5 processors counts as 2. `root`: of the file
// system with proc and sys.
std::uint64_t processors(const std::filesystem::path& root = "/");

}  // namespace rekindle
