// kill_shepherd() with a program named srun that has forked copies of itself.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "../temporary_directory.hpp"
#include "base/process.hpp"
#include "slurm/shepherd.hpp"

namespace rekindle::slurm {
namespace {

namespace fs = std::filesystem;

// Two copies of bash, named srun and other: bash forks a copy of itself for a command in parentheses.
class SlurmShepherd : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::copy_file(fs::canonical("/bin/bash"), folder_ / "srun");
    fs::copy_file(fs::canonical("/bin/bash"), folder_ / "other");
  }

  std::string program(const std::string& name) const { return (folder_ / name).string(); }
  // Waits without a child process until the test closes the pipe's other end.
  static constexpr const char* kWaiting = "(read -r line <&3; :) & echo up >&4; wait";

  TemporaryDirectory temporary_;
  const fs::path folder_ = temporary_.path();
};

// A started program and two pipes: the program waits for the first and answers on the second.
class Started {
 public:
  explicit Started(const std::vector<std::string>& argv) {
    if (::pipe2(wait_, O_CLOEXEC) != 0 || ::pipe2(answer_, O_CLOEXEC) != 0) return;
    auto child = spawn(argv, {}, {{wait_[0], answer_[1]}});
    if (!child) return;
    child_ = std::move(*child);
    char byte = 0;
    up_ = ::read(answer_[0], &byte, 1) == 1;
  }
  ~Started() {
    for (const int fd : {wait_[0], wait_[1], answer_[0], answer_[1]}) ::close(fd);
    if (child_.pid > 0) wait_for(child_);
  }
  bool up() const { return up_; }
  pid_t pid() const { return child_.pid; }

 private:
  int wait_[2] = {-1, -1}, answer_[2] = {-1, -1};
  Child child_;
  bool up_ = false;
};

TEST_F(SlurmShepherd, CopyOfSrun_IsKilled) {
  const Started srun({program("srun"), "-c", kWaiting});
  ASSERT_TRUE(srun.up());
  EXPECT_EQ(children_of(srun.pid()).size(), 1U);
  EXPECT_EQ(kill_shepherd(srun.pid()), 1);
}

TEST_F(SlurmShepherd, OfSrunInAWrapper_IsKilled_AndTheWrappersOwnCopyIsNot) {
  const std::string inner = program("srun") + " -c '" + kWaiting + "'";
  const Started wrapper({program("other"), "-c", "(" + inner + "; read -r line <&3) & wait"});
  ASSERT_TRUE(wrapper.up());
  const auto copies = children_of(wrapper.pid());
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(kill_shepherd(wrapper.pid()), 1);
  EXPECT_TRUE(is_running(copies[0]));
}

TEST_F(SlurmShepherd, AnotherProgram_LosesNothing) {
  const Started other({program("other"), "-c", kWaiting});
  ASSERT_TRUE(other.up());
  EXPECT_EQ(kill_shepherd(other.pid()), 0);
}

}  // namespace
}  // namespace rekindle::slurm
