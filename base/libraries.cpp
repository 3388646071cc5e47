#include "base/libraries.hpp"

#include <fcntl.h>

#include <chrono>
#include <sstream>

#include "base/clock.hpp"
#include "base/command.hpp"
#include "base/lines.hpp"
#include "base/text.hpp"

namespace rekindle {

namespace {

// The path of a library that the loader reports through the held folder.
std::filesystem::path by_its_path(const std::string& found, const std::filesystem::path& folder) {
  const std::string held = str("/proc/self/fd/", kProgramsFd, "/");
  return found.starts_with(held) ? folder / found.substr(held.size()) : std::filesystem::path(found);
}

}  // namespace

Result<std::vector<Library>> libraries_of(const std::filesystem::path& program) {
  REKINDLE_TRY(const Fd folder, open_file(program.parent_path(), O_RDONLY | O_DIRECTORY));
  return libraries_of(program, folder.get());
}

Result<std::vector<Library>> libraries_of(const std::filesystem::path& program, int folder) {
  constexpr std::chrono::seconds kAnswer{60};  // cold network storage
  REKINDLE_TRY(const CommandOutput said,
               run_command({program.string()}, kAnswer, {{{"LD_TRACE_LOADED_OBJECTS", "1"}}, folder}));
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
      libraries.push_back({name, by_its_path(where.substr(0, where.rfind(" (")), program.parent_path())});
  }
  const std::string who = str("node ", host_name(), ": ", program.filename().string());
  if (!missing.empty()) return fail(ExitCode::kConfig, str(who, " needs ", missing, ", not found"));
  if (!said.ok())  // text on stderr without a failure may be about LD_PRELOAD
    return fail(ExitCode::kConfig, str(who, " cannot be loaded: ", first_line_of(said.err)));
  return libraries;
}

}  // namespace rekindle
