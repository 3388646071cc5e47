// Log lines for an operator: what happened, to whom, what happens next. spdlog stays behind this header.
#pragma once

#include <string_view>

#include "base/file_path.hpp"

namespace rekindle {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kNone };

// From now on lines go to `file` (appended; created with its folder; not where it is a link or another
// user's) and, from `console` upward, to stderr. `name` says which process speaks ("coordinator", "trainer
// 3"). Before the first call: stderr, kInfo.
void start_logging(std::string_view name, const FilePath& file, LogLevel console);

// One line: what is no plain text is escaped (base/printable.hpp).
void log(LogLevel level, std::string_view line);
inline void log_debug(std::string_view line) { log(LogLevel::kDebug, line); }
inline void log_info(std::string_view line) { log(LogLevel::kInfo, line); }
inline void log_warning(std::string_view line) { log(LogLevel::kWarning, line); }
inline void log_error(std::string_view line) { log(LogLevel::kError, line); }

}  // namespace rekindle
