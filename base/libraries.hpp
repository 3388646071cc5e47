// The shared libraries that a program would be started with on this machine.
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

// Asks the dynamic loader, which starts nothing: ld.so(8), LD_TRACE_LOADED_OBJECTS. An error
// (ExitCode::kConfig) names this node, the program and each library that is missing, or not of the version
// that is needed; any other error says that it could not be found out.
Result<std::vector<Library>> libraries_of(const std::filesystem::path& program);

}  // namespace rekindle
