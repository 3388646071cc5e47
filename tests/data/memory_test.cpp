// How much memory large data take. Blocks of more than 32 MiB go back to the system when they are freed;
// those of a sanitizer do not.
#include <fstream>
#include <string>
#include <tuple>

#include "../needs.hpp"
#include "data/loader.hpp"
#include "support.hpp"

#ifndef REKINDLE_SANITIZED
namespace rekindle::data {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// A line of /proc/self/status, as VmRSS, in bytes.
std::size_t memory(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::size_t kib = 0;
    if (word == name + ":" && status >> kib) return kib * 1024;
  }
  return 0;
}

// With a billion samples, an epoch's permutation has 4 GB in each trainer.
TEST(Memory, TheOrderOfManyEpochs_IsThatOfTwo) {
  constexpr std::size_t kCount = 10 * kMiB;  // 40 MiB
  const SampleOrder order(1, kCount);
  const std::size_t before = memory("VmRSS");
  for (std::uint64_t number = 0; number < 5; ++number) std::ignore = order.sample_at(number * kCount);
  EXPECT_GT(memory("VmRSS"), before + 40 * kMiB);
  EXPECT_LT(memory("VmRSS"), before + 100 * kMiB);
}

TEST(Memory, ATextWithSplits_TakesItsOwnSizeWhileItIsRead) {
  const Scratch scratch;
  for (const char* split : {"train", "val"}) {
    fs::create_directory(scratch.path / split);
    const std::ofstream empty(scratch.path / split / "text");
    fs::resize_file(scratch.path / split / "text", 40 * kMiB);
  }
  if (!(std::ofstream("/proc/self/clear_refs") << "5" << std::flush))
    REKINDLE_SKIP(Needs::kMachine, "this kernel cannot reset the peak of a process's memory");
  const std::size_t before = memory("VmRSS");
  const auto text = open_dataset("text", scratch.path, {.context = 256});
  ASSERT_TRUE(text) << text.error().line();
  EXPECT_GT(memory("VmHWM"), before + 70 * kMiB);
  EXPECT_LT(memory("VmHWM"), before + 120 * kMiB);
}

}  // namespace
}  // namespace rekindle::data
#endif
