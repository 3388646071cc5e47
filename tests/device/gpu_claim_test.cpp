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

// All GPUs can be opened.
ClaimedGpu claimed(std::span<const std::string> identities, int number) {
  auto gpu = claim_gpu(identities, number, "", [](int) { return Status(); });
  EXPECT_TRUE(gpu);
  return std::move(gpu.value());
}

// GPU `broken` cannot be opened.
Result<ClaimedGpu> claimed_but(std::span<const std::string> identities, int number, int broken,
                               const std::string& run = "a") {
  return claim_gpu(identities, number, run, [=](int index) -> Status {
    if (index == broken) return fail(ExitCode::kConfig, str("GPU ", index, " is broken"));
    return {};
  });
}

TEST(GpuClaim, TrainersOfARun_HaveTheGpusOfTheirNumbers) {
  const auto all = gpus(3);
  std::vector<ClaimedGpu> taken;
  for (int number = 0; number < 3; ++number) {
    taken.push_back(claimed(all, number));
    EXPECT_EQ(taken.back().index, number);
  }
}

TEST(GpuClaim, AnotherRunOrAHelper_TakesAFreeGpu) {
  const auto all = gpus(4);
  std::vector<ClaimedGpu> taken;
  for (const int number : {0, 1}) taken.push_back(claimed(all, number));
  for (const auto& [number, expected] : {std::pair(0, 2), {1, 3}}) {
    taken.push_back(claimed(all, number));
    EXPECT_EQ(taken.back().index, expected);
  }
}

TEST(GpuClaim, MoreTrainersThanGpus_SharedEvenly) {
  const auto all = gpus(2);
  std::vector<ClaimedGpu> taken;
  std::array<int, 2> users{};
  for (const int number : {4, 0, 1, 5, 2, 3}) {
    taken.push_back(claimed(all, number));
    ++users.at(static_cast<std::size_t>(taken.back().index));
  }
  EXPECT_EQ(users, (std::array{3, 3}));
}

TEST(GpuClaim, AGpuThatWasGivenBack_IsFree) {
  const auto all = gpus(2);
  ClaimedGpu first = claimed(all, 0);
  EXPECT_EQ(claimed(all, 0).index, 1);
  first.claims.clear();
  EXPECT_EQ(claimed(all, 0).index, 0);
}

// The driver shows one GPU less to the trainer that replaces another one.
TEST(GpuClaim, ALostGpu_TheFreeOneIsTaken) {
  const auto all = gpus(4);
  std::vector<ClaimedGpu> taken;
  for (const int number : {0, 1}) taken.push_back(claimed(all, number));
  const std::vector<std::string> left = {all[0], all[1], all[3]};
  EXPECT_EQ(claimed(left, 2).index, 2);
  EXPECT_EQ(claimed(left, 0).index, 2);
}

TEST(GpuClaim, AProcessThatIsKilled_HasNoGpu) {
  const auto all = gpus(2);
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const ClaimedGpu taken = claimed(all, 0);
    std::ignore = ::write(ready[1], taken.claims.empty() ? "n" : "y", 1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_EQ(claimed(all, 0).index, 1);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(claimed(all, 0).index, 0);
  for (const int end : ready) ::close(end);
}

// The trainer whose GPU is broken finds no free one, and shares none.
TEST(GpuClaim, AGpuThatCannotBeOpened_TheOthersKeepTheirs) {
  const auto all = gpus(3);
  std::vector<ClaimedGpu> taken;
  for (const int number : {0, 2}) taken.push_back(claimed_but(all, number, 1).value());
  EXPECT_EQ(taken[0].index, 0);
  EXPECT_EQ(taken[1].index, 2);
  for (int again = 0; again < 2; ++again) {
    const auto last = claimed_but(all, 1, 1);
    ASSERT_FALSE(last);
    EXPECT_EQ(last.error().kind, ErrorKind::kNotYet);
    EXPECT_EQ(last.error().line(),
              "GPU 1 is broken; each other GPU here has a trainer: look at nvidia-smi; it is tried again");
  }
  taken.pop_back();
  EXPECT_EQ(claimed_but(all, 1, 1).value().index, 2) << "a free one is taken";
}

// The trainer whose GPU is broken comes before another one, and takes its GPU. A third one tries the broken
// GPU.
TEST(GpuClaim, AnotherTrainerFoundABrokenGpu_NoneIsShared) {
  const auto all = gpus(2);
  const auto first = claimed_but(all, 0, 0);
  EXPECT_EQ(first.value().index, 1);
  const ClaimedGpu trying = claimed(std::span(all).first(1), 0);
  const auto second = claimed_but(all, 1, 0);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().what,
            "another trainer cannot use a GPU of this machine; each other GPU here has a trainer");
}

TEST(GpuClaim, MoreTrainersThanGpusByIntent_ShareThoseThatWork) {
  const auto all = gpus(2);
  std::vector<ClaimedGpu> taken;
  for (const int number : {3, 2, 1})
    taken.push_back(claimed_but(all, number, 0).value_or(ClaimedGpu{77, {}}));
  EXPECT_EQ(taken[0].index, 1);
  EXPECT_EQ(taken[1].index, 1);
  EXPECT_EQ(taken[2].index, 77) << "number 1 was meant to have one of its own";
}

// A run must not end because others have the GPUs that work; nor a process that is no trainer.
TEST(GpuClaim, TheOtherGpusHaveTrainersOfAnotherRun_Shares) {
  const auto all = gpus(2);
  const auto other = claimed_but(all, 1, 0, "b");
  for (const char* run : {"a", ""}) EXPECT_EQ(claimed_but(all, 0, 0, run).value().index, 1) << run;
}

TEST(GpuClaim, NoGpuCanBeOpened_SaysWhy) {
  const auto all = gpus(1);
  const auto none = claimed_but(all, 5, 0);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().what, "GPU 0 is broken");
  EXPECT_EQ(none.error().code, ExitCode::kConfig);
  const std::vector<std::string> lost = {""};  // it cannot tell its identity
  EXPECT_EQ(claimed_but(lost, 0, 0).error().what, "GPU 0 is broken");
}

}  // namespace
}  // namespace rekindle::device
