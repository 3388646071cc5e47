#include "device/gpu_claim.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/files.hpp"
#include "base/text.hpp"

namespace rekindle::device {
namespace {

// GPUs that no other test has.
std::vector<std::string> gpus(int count) {
  static int made = 0;
  std::vector<std::string> names(static_cast<std::size_t>(count));
  for (std::string& name : names) name = str("test-", ::getpid(), "-", ++made);
  return names;
}

TEST(GpuClaim, TrainersOfARun_HaveTheGpusOfTheirNumbers) {
  const auto all = gpus(3);
  std::vector<ClaimedGpu> taken;
  for (int number = 0; number < 3; ++number) {
    taken.push_back(claim_gpu(all, number));
    EXPECT_EQ(taken.back().index, number);
  }
}

TEST(GpuClaim, AnotherRunOrAHelper_TakesAFreeGpu) {
  const auto all = gpus(4);
  std::vector<ClaimedGpu> taken;
  for (const int number : {0, 1}) taken.push_back(claim_gpu(all, number));
  for (const auto& [number, expected] : {std::pair(0, 2), {1, 3}}) {
    taken.push_back(claim_gpu(all, number));
    EXPECT_EQ(taken.back().index, expected);
  }
}

TEST(GpuClaim, MoreTrainersThanGpus_SharedEvenly) {
  const auto all = gpus(2);
  std::vector<ClaimedGpu> taken;
  std::array<int, 2> users{};
  for (const int number : {4, 0, 1, 5, 2, 3}) {
    taken.push_back(claim_gpu(all, number));
    ++users.at(static_cast<std::size_t>(taken.back().index));
  }
  EXPECT_EQ(users, (std::array{3, 3}));
}

TEST(GpuClaim, AGpuThatWasGivenBack_IsFree) {
  const auto all = gpus(2);
  ClaimedGpu first = claim_gpu(all, 0);
  EXPECT_EQ(claim_gpu(all, 0).index, 1);
  first.claim = Fd();
  EXPECT_EQ(claim_gpu(all, 0).index, 0);
}

// The driver shows one GPU less to the trainer that replaces another one.
TEST(GpuClaim, ALostGpu_TheFreeOneIsTaken) {
  const auto all = gpus(4);
  std::vector<ClaimedGpu> taken;
  for (const int number : {0, 1}) taken.push_back(claim_gpu(all, number));
  const std::vector<std::string> left = {all[0], all[1], all[3]};
  EXPECT_EQ(claim_gpu(left, 2).index, 2);
  EXPECT_EQ(claim_gpu(left, 0).index, 2);
}

TEST(GpuClaim, AProcessThatIsKilled_HasNoGpu) {
  const auto all = gpus(2);
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const ClaimedGpu taken = claim_gpu(all, 0);
    std::ignore = ::write(ready[1], "", 1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(claim_gpu(all, 0).index, 1);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(claim_gpu(all, 0).index, 0);
  for (const int end : ready) ::close(end);
}

}  // namespace
}  // namespace rekindle::device
