#include <gtest/gtest.h>

#include <algorithm>
#include <string>
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

}  // namespace
}  // namespace rekindle
