#include "base/log.hpp"

#include <fcntl.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/append_file.hpp"
#include "base/files.hpp"
#include "base/pipe.hpp"
#include "base/printable.hpp"
#include "base/process.hpp"

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

// Needed because spdlog's own file sink opens a path and follows links.
class FileSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FileSink(Fd file) : file_(std::move(file)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    // Ignore errors: a log that cannot be written must not stop the run.
    std::ignore = ::write(file_.get(), line.data(), line.size());
  }
  void flush_() override {}

 private:
  Fd file_;
};

Result<Fd> open_log(const FilePath& file) {
  REKINDLE_CHECK(make_directories(file.parent_path()));
  return open_to_append(file, O_WRONLY);
}

// The input of a process that writes to `file`. It goes on through the signals that end a run. A line that
// cannot be written is lost, and the next one is tried (cat ends at the first error).
Result<Fd> through_a_process(const Fd& file) {
  REKINDLE_TRY(Pipe pipe, make_pipe());
  if (::fcntl(pipe.write.get(), F_SETFL, O_NONBLOCK) != 0)
    return forward_error(errno_error("cannot set", "a pipe"));
  Streams streams;
  streams.in = pipe.read.get();
  streams.out = file.get();
  streams.session = true;
  constexpr const char* kWriter =
      "trap '' HUP INT TERM USR1 USR2 XFSZ; exec 2>/dev/null; while IFS= read -r line; do printf '%s\\n' "
      "\"$line\"; done";
  REKINDLE_TRY(const Child writer, spawn({"sh", "-c", kWriter}, {}, {}, streams));
  return std::move(pipe.write);
}

}  // namespace

void start_logging(std::string_view name, const FilePath& file, LogLevel console, LogWrites writes) {
  auto to_stderr = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  to_stderr->set_level(level_of(console));
  std::vector<spdlog::sink_ptr> sinks{to_stderr};
  std::string file_error;
  if (!file.empty()) {
    auto opened = open_log(file);
    if (opened && writes == LogWrites::kInBackground) {
      if (auto in = through_a_process(*opened)) *opened = std::move(*in);
    }
    if (opened)
      sinks.push_back(std::make_shared<FileSink>(std::move(*opened)));
    else
      file_error = opened.error().line();
  }
  auto logger = std::make_shared<spdlog::logger>(std::string(name), sinks.begin(), sinks.end());
  logger->set_level(spdlog::level::debug);
  logger->flush_on(spdlog::level::debug);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %-7l %n: %v", spdlog::pattern_time_type::utc);
  spdlog::set_default_logger(std::move(logger));
  if (file_error.empty()) return;
  // Otherwise no person would see this process's warnings.
  to_stderr->set_level(level_of(std::min(console, LogLevel::kWarning)));
  log_warning("no log file: " + file_error);
}

void log(LogLevel level, std::string_view line) { spdlog::log(level_of(level), "{}", printable(line)); }

void log_to_file(LogLevel level, std::string_view line) {
  const auto logger = spdlog::default_logger();
  if (logger->sinks().size() < 2) return;
  const std::string text = printable(line);
  logger->sinks().back()->log(spdlog::details::log_msg(logger->name(), level_of(level), text));
}

}  // namespace rekindle
