#include "base/libraries.hpp"

#include <chrono>
#include <sstream>

#include "base/clock.hpp"
#include "base/command.hpp"
#include "base/text.hpp"

namespace rekindle {

Result<std::vector<Library>> libraries_of(const std::filesystem::path& program) {
  constexpr std::chrono::seconds kAnswer{60};  // cold network storage
  REKINDLE_TRY(const CommandOutput said,
               run_command({"/usr/bin/env", "LD_TRACE_LOADED_OBJECTS=1", program.string()}, kAnswer));
  std::vector<Library> libraries;
  std::string missing;
  std::istringstream lines(said.out);
  for (std::string line; std::getline(lines, line);) {
    // "	libc10.so => /path/libc10.so (0x7f...)", or "	libc10.so => not found"
    const std::size_t begin = line.find_first_not_of(" \t"), arrow = line.find(" => ");
    if (begin == std::string::npos || arrow == std::string::npos) continue;
    const std::string name = line.substr(begin, arrow - begin), where = line.substr(arrow + 4);
    if (where == "not found")
      missing += str(missing.empty() ? "" : ", ", name);
    else
      libraries.push_back({name, where.substr(0, where.rfind(" ("))});
  }
  const std::string who = str("node ", host_name(), ": ", program.filename().string());
  if (!missing.empty()) return fail(ExitCode::kConfig, str(who, " needs ", missing, ", not found"));
  if (!said.ok())  // a word on stderr alone may be about LD_PRELOAD
    return fail(ExitCode::kConfig, str(who, " cannot be loaded: ", said.err.substr(0, said.err.find('\n'))));
  return libraries;
}

}  // namespace rekindle
