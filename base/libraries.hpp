// The shared libraries that the dynamic loader would use for a program on this machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rekindle {

struct Library {
  std::string name;            // libc10.so
  std::filesystem::path path;  // where this machine has it
};

// Asks the dynamic loader, which does not start the program: ld.so(8), LD_TRACE_LOADED_OBJECTS. An error with
// ExitCode::kConfig contains this node, the program and each library that is missing or has a wrong version.
// Any other error means that the check itself failed. The program is searched in `folder`, the opened folder
// of its path.
Result<std::vector<Library>> libraries_of(const std::filesystem::path& program, int folder);
// The same, but opens the folder by its current path.
Result<std::vector<Library>> libraries_of(const std::filesystem::path& program);

}  // namespace rekindle
