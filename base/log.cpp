#include "base/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <vector>

namespace rekindle {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kNone:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

}  // namespace

void start_logging(std::string_view name, const std::filesystem::path& file, LogLevel console) {
  auto to_stderr = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  to_stderr->set_level(level_of(console));
  std::vector<spdlog::sink_ptr> sinks{to_stderr};
  std::string file_error;
  if (!file.empty()) {
    try {
      sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string()));
    } catch (const spdlog::spdlog_ex& error) {
      file_error = error.what();  // a log that cannot be written must not stop the run
    }
  }
  auto logger = std::make_shared<spdlog::logger>(std::string(name), sinks.begin(), sinks.end());
  logger->set_level(spdlog::level::debug);
  logger->flush_on(spdlog::level::debug);
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %-7l %n: %v");
  spdlog::set_default_logger(std::move(logger));
  if (!file_error.empty()) log_warning("no log file: " + file_error);
}

void log(LogLevel level, std::string_view line) { spdlog::log(level_of(level), "{}", line); }

}  // namespace rekindle
