#include "base/own_code.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/process.hpp"

namespace rekindle {
namespace {

// Pages that the process may write were copied by the kernel, when they were written.
bool reads_own_file() {
  const std::string program = own_executable().string();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.ends_with(program) && line.find(" rw-p ") == std::string::npos) return true;
  return false;
}

TEST(OwnCode, KeptInMemory_NothingIsReadFromTheProgramsFileAnyMore) {
  ASSERT_TRUE(reads_own_file());
  const pid_t child = ::fork();
  if (child == 0) {
    keep_code_in_memory();
    ::_exit(reads_own_file() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace rekindle
