#include "base/processors.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "../temporary_directory.hpp"

namespace rekindle {
namespace {

// The affinity mask of this process may have any number of processors.
class ProcessorsTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_.path() / name).parent_path());
    std::ofstream(root_.path() / name) << text;
  }
  // The number for a limit of so many processors.
  std::uint64_t at_most(std::uint64_t limit) const { return std::min(without_limit_, limit); }

  TemporaryDirectory root_;
  std::uint64_t without_limit_ = processors(root_.path());
};

TEST_F(ProcessorsTest, WithoutCgroups_TheAffinityMask) {
  cpu_set_t mask;
  ASSERT_EQ(::sched_getaffinity(0, sizeof mask, &mask), 0);
  EXPECT_EQ(without_limit_, static_cast<std::uint64_t>(CPU_COUNT(&mask)));
  CPU_ZERO(&mask);
  CPU_SET(::sched_getcpu(), &mask);
  ASSERT_EQ(::sched_setaffinity(0, sizeof mask, &mask), 0);  // each test is a process of its own
  EXPECT_EQ(processors(root_.path()), 1U);
}

TEST_F(ProcessorsTest, GroupOfVersion2_TheTightestLimitOfThoseAboveRoundedUp) {
  write("proc/self/cgroup", "0::/kubepods/pod7/container\n");
  write("sys/fs/cgroup/kubepods/pod7/container/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/kubepods/pod7/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/kubepods/cpu.max", "800000 100000\n");
  EXPECT_EQ(processors(root_.path()), at_most(2));
}

TEST_F(ProcessorsTest, LessThanAProcessor_One) {
  write("proc/self/cgroup", "0::/x\n");
  write("sys/fs/cgroup/x/cpu.max", "20000 100000\n");
  EXPECT_EQ(processors(root_.path()), 1U);
}

// A container of Docker: the path is that of the host, and its own group is the topmost one here.
TEST_F(ProcessorsTest, GroupOfVersion1_ItsLimit) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/docker/c\n3:memory:/docker/c\n0::/\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processors(root_.path()), 1U);
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(processors(root_.path()), without_limit_);
}

TEST_F(ProcessorsTest, FilesThatCannotBeRead_NoLimit) {
  write("proc/self/cgroup", "0::/x\nnonsense\n");
  write("sys/fs/cgroup/x/cpu.max", "nonsense\n");
  EXPECT_EQ(processors(root_.path()), without_limit_);
}

}  // namespace
}  // namespace rekindle
