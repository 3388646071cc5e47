// What fuzzing starts from, and what it has found, once more in every test run.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace rekindle {
namespace {

TEST(Fuzz, EveryFileOfTheCorpus_IsReadOrRefused) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(REKINDLE_CORPUS)) {
    SCOPED_TRACE(entry.path());
    const auto bytes = read_file(entry.path());
    ASSERT_TRUE(bytes) << bytes.error().line();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes->data()), bytes->size());
    ++files;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace rekindle
