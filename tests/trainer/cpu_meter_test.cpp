#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <ctime>

#include "trainer/memory.hpp"

namespace rekindle::trainer {
namespace {

constexpr std::uint64_t kWork = 300;  // milliseconds

void work() {
  const auto used = [] {
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000 + static_cast<std::uint64_t>(now.tv_nsec) / 1000000;
  };
  for (const std::uint64_t end = used() + kWork; used() < end;) continue;
}

TEST(CpuMeter, OwnTimeCountsOnce) {
  CpuMeter meter;
  meter.used_ms();
  work();
  EXPECT_GE(meter.used_ms(), kWork - 1);
  EXPECT_LT(meter.used_ms(), kWork);
}

TEST(CpuMeter, TimeOfAChildCountsOnce_AndItsEndTakesNothingAway) {
  CpuMeter meter;
  meter.used_ms();
  std::array<int, 2> done{};
  ASSERT_EQ(::pipe(done.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    std::ignore = ::write(done[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(done[0], &byte, 1), 1);
  constexpr std::uint64_t kTick = 20;  // the kernel counts in ticks of 10 ms at most
  EXPECT_GE(meter.used_ms(), kWork - kTick);
  EXPECT_LT(meter.used_ms(), kWork - kTick);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_LT(meter.used_ms(), kWork - kTick);
  for (const int end : done) ::close(end);
}

}  // namespace
}  // namespace rekindle::trainer
