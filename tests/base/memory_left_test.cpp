#include "base/memory_left.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "../temporary_directory.hpp"

namespace rekindle {
namespace {

class MemoryLeftTest : public testing::Test {
 protected:
  void SetUp() override {
    write("proc/meminfo", "MemTotal: 8000 kB\nMemFree: 10 kB\nMemAvailable: 5000 kB\n");
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_.path() / name).parent_path());
    std::ofstream(root_.path() / name) << text;
  }
  void expect(std::uint64_t bytes, std::uint64_t of) const {
    const MemoryLeft left = memory_left(root_.path());
    EXPECT_EQ(left.bytes, bytes);
    EXPECT_EQ(left.of, of);
  }
  TemporaryDirectory root_;
};

TEST_F(MemoryLeftTest, WithoutCgroups_TheMachines) { expect(5000 * 1024, 8000 * 1024); }

TEST_F(MemoryLeftTest, NothingCanBeRead_Zero) {
  std::filesystem::remove(root_.path() / "proc/meminfo");
  expect(0, 0);
}

// The job's limit is above the step's group, as Slurm makes them. Caches do not count as used.
TEST_F(MemoryLeftTest, GroupOfVersion2_TheTightestLimitOfThoseAbove) {
  write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  write("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
  write("sys/fs/cgroup/slurm/job_7/step_0/memory.current", "900000\n");
  write("sys/fs/cgroup/slurm/job_7/memory.max", "1000000\n");
  write("sys/fs/cgroup/slurm/job_7/memory.current", "900000\n");
  write("sys/fs/cgroup/slurm/job_7/memory.stat", "anon 1\ninactive_file 50000\nfile 60000\n");
  expect(150000, 1000000);
}

TEST_F(MemoryLeftTest, GroupOfVersion1_ItsLimit) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/x\n3:memory:/job\n0::/\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2000000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "2500000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "2500000\n");
  expect(0, 2000000);
}

TEST(MemoryLeft, OfThisMachine_IsSome) {
  const MemoryLeft left = memory_left();
  EXPECT_GT(left.of, 0U);
  EXPECT_LE(left.bytes, left.of);
}

}  // namespace
}  // namespace rekindle
