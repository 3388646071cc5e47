// The use of a GPU by NVML: numbers when they are there, and nothing but unknown numbers when NVML is
// missing, fails or hangs.
#include "device/gpu_watch.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace rekindle::device {
namespace {

using std::chrono::milliseconds;

constexpr const char* kIdentity = "00112233445566778899aabbccddeeff";
constexpr GpuUse kUse{12'000'000'000, 80'000'000'000, 97};
constexpr GpuUse kUnknown;

class Nvml : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"NVML_STAND_IN_KIND", "NVML_STAND_IN_FAILS", "NVML_STAND_IN_HANGS"})
      ::unsetenv(name);
  }
  void TearDown() override { SetUp(); }

  static GpuUse asked() {
    const auto gpu = NvmlGpu::open(REKINDLE_NVML_STAND_IN, kIdentity);
    return gpu ? (*gpu)->use() : GpuUse{};
  }
  // The first known numbers, or after a while none.
  static GpuUse watched(const GpuWatch& watch, milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (watch.newest() == kUnknown && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(milliseconds(1));
    return watch.newest();
  }
};

TEST_F(Nvml, MemoryAndUseOfTheGpuWithThatIdentity) {
  EXPECT_EQ(asked(), kUse);
  ::setenv("NVML_STAND_IN_KIND", "GPU-00112233-4455-6677-8899-aabbccddeeff", 1);
  EXPECT_EQ(asked(), kUse);
  ::setenv("NVML_STAND_IN_KIND", "MIG-00112233-4455-6677-8899-aabbccddeeff", 1);
  EXPECT_EQ(asked(), kUse) << "a part of a GPU";
  ::setenv("NVML_STAND_IN_KIND", "GPU-1", 1);
  EXPECT_FALSE(NvmlGpu::open(REKINDLE_NVML_STAND_IN, kIdentity)) << "NVML does not know this GPU";
}

TEST_F(Nvml, PartsThatCannotBeTold_AreUnknown) {
  ::setenv("NVML_STAND_IN_FAILS", "utilization", 1);
  EXPECT_EQ(asked(), (GpuUse{kUse.used_bytes, kUse.total_bytes, -1}));
  ::setenv("NVML_STAND_IN_FAILS", "memory", 1);
  EXPECT_EQ(asked(), (GpuUse{0, 0, 97}));
}

TEST_F(Nvml, MissingOrAnotherLibraryOrNoDriver_AnError) {
  EXPECT_EQ(NvmlGpu::open("/nowhere/libnvidia-ml.so.1", kIdentity).error().what,
            "/nowhere/libnvidia-ml.so.1 is not there");
  EXPECT_EQ(NvmlGpu::open("libc.so.6", kIdentity).error().what, "libc.so.6 is no NVML");
  ::setenv("NVML_STAND_IN_FAILS", "init", 1);
  EXPECT_FALSE(NvmlGpu::open(REKINDLE_NVML_STAND_IN, kIdentity));
}

TEST_F(Nvml, Watch_HasTheNumbersAndThoseThatFollow) {
  const GpuWatch watch(REKINDLE_NVML_STAND_IN, kIdentity, milliseconds(1));
  EXPECT_EQ(watched(watch, milliseconds(10000)), kUse);
  ::setenv("NVML_STAND_IN_FAILS", "memory", 1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (watch.newest() == kUse && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(watch.newest(), (GpuUse{0, 0, 97}));
}

TEST_F(Nvml, WatchOfALibraryThatIsMissingOrFails_EndsAtOnceAndKnowsNothing) {
  const GpuWatch none("/nowhere/libnvidia-ml.so.1", kIdentity);
  EXPECT_EQ(watched(none, milliseconds(20)), kUnknown);
  ::setenv("NVML_STAND_IN_FAILS", "init", 1);
  const GpuWatch fails(REKINDLE_NVML_STAND_IN, kIdentity);
  EXPECT_EQ(watched(fails, milliseconds(20)), kUnknown);
}

// The test would hang with the thread if the watch waited for it.
TEST_F(Nvml, WatchOfALibraryThatHangs_NobodyWaitsForIt) {
  for (const char* function : {"init", "handle", "memory"}) {
    ::setenv("NVML_STAND_IN_HANGS", function, 1);
    const GpuWatch watch(REKINDLE_NVML_STAND_IN, kIdentity);
    EXPECT_EQ(watched(watch, milliseconds(20)), kUnknown) << function;
  }
  ::setenv("NVML_STAND_IN_HANGS", "shutdown", 1);
  const GpuWatch watch(REKINDLE_NVML_STAND_IN, kIdentity);
  EXPECT_EQ(watched(watch, milliseconds(10000)), kUse);
}

}  // namespace
}  // namespace rekindle::device
