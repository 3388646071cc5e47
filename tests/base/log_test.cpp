#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "../temporary_directory.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace rekindle {
namespace {

TEST(Log, InBackground_EveryLineReachesTheFileInOrder) {
  const TemporaryDirectory directory;
  const FilePath file(directory.path() / "run.log");
  constexpr int kLines = 200;
  start_logging("test", file, LogLevel::kNone, LogWrites::kInBackground);
  std::string expected;
  for (int i = 0; i < kLines; ++i) {
    if (i % 2 == 0)
      log_info(str("line ", i));
    else
      log_to_file(LogLevel::kWarning, str("line ", i));
  }
  start_logging("test", FilePath(), LogLevel::kInfo);
  std::string text;
  do {  // the test's time limit ends this
    std::this_thread::yield();
    text = read_text(file).value_or("");
  } while (std::count(text.begin(), text.end(), '\n') < kLines);
  std::size_t at = 0;
  for (int i = 0; i < kLines; ++i) {
    at = text.find(str(i % 2 == 0 ? "info    " : "warning ", "test: line ", i, "\n"), at);
    ASSERT_NE(at, std::string::npos) << i << "\n" << text;
  }
}

// A limit of file sizes stands for a disk that is full for a while.
TEST(Log, InBackground_AFailedWriteCostsNoLaterLine) {
  const TemporaryDirectory directory;
  const FilePath file(directory.path() / "run.log");
  constexpr rlim_t kLimit = 4096;
  struct rlimit usual {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &usual), 0);
  const struct rlimit small { kLimit, usual.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  start_logging("test", file, LogLevel::kNone, LogWrites::kInBackground);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &usual), 0);
  for (int i = 0; i < 100; ++i) log_info(std::string(100, 'x'));
  std::error_code error;
  while (std::filesystem::file_size(file.path(), error) != kLimit) std::this_thread::yield();
  while (read_text(file).value_or("").find("there is room again") == std::string::npos) {
    std::filesystem::resize_file(file.path(), 0);  // each time: some of the lines may still come
    log_info("there is room again");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // for the writer: more lines would delay it
  }
  start_logging("test", FilePath(), LogLevel::kInfo);
}

}  // namespace
}  // namespace rekindle
