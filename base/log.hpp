// Log lines for an operator: the event, the process, the next action. Only this module uses spdlog.
#pragma once

#include <string_view>

#include "base/file_path.hpp"

namespace rekindle {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kNone };
// kInBackground: a process of its own (cat) writes the file, so that this process neither waits for storage
// that hangs nor has a file open there: before a child can execute a program, the kernel waits for what is
// unwritten. If that process is too slow, lines are lost.
enum class LogWrites { kAtOnce, kInBackground };

// Starts to write lines to `file` (appended; created with its folder; refused if it is a link or another
// user's) and, from level `console` upward, to stderr. Without the file, warnings go to stderr. `name`: the
// process, as in "coordinator" or "trainer 3". Before the first call: stderr, kInfo.
void start_logging(std::string_view name, const FilePath& file, LogLevel console,
                   LogWrites writes = LogWrites::kAtOnce);

// Writes one line. Characters that are not plain text are escaped (base/printable.hpp).
void log(LogLevel level, std::string_view line);
// The same for the file alone: the user has seen it.
void log_to_file(LogLevel level, std::string_view line);
inline void log_debug(std::string_view line) { log(LogLevel::kDebug, line); }
inline void log_info(std::string_view line) { log(LogLevel::kInfo, line); }
inline void log_warning(std::string_view line) { log(LogLevel::kWarning, line); }
inline void log_error(std::string_view line) { log(LogLevel::kError, line); }

}  // namespace rekindle
