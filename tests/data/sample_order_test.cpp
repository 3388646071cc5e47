#include <algorithm>
#include <map>
#include <thread>

#include "data/loader.hpp"
#include "support.hpp"

namespace rekindle::data {
namespace {

std::vector<std::size_t> epoch(const SampleOrder& order, std::uint64_t number, std::size_t count) {
  std::vector<std::size_t> samples;
  for (std::size_t i = 0; i < count; ++i) samples.push_back(order.sample_at(number * count + i));
  return samples;
}

TEST(SampleOrder, EverySampleComesExactlyOnceAnEpoch) {
  for (const std::size_t count : {1, 2, 97, 1000}) {
    const SampleOrder order(3, count);
    for (const std::uint64_t number : {0, 1, 2, 1000}) {
      auto samples = epoch(order, number, count);
      std::sort(samples.begin(), samples.end());
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(samples[i], i);
    }
  }
}

TEST(SampleOrder, EpochsAndSeedsDiffer) {
  EXPECT_NE(epoch(SampleOrder(1, 100), 0, 100), epoch(SampleOrder(1, 100), 1, 100));
  EXPECT_NE(epoch(SampleOrder(1, 100), 0, 100), epoch(SampleOrder(2, 100), 0, 100));
}

// A resumed run asks in another order than the original run. Earlier queries must not change the result.
TEST(SampleOrder, DoesNotDependOnWhatWasAskedBefore) {
  const SampleOrder straight(9, 50), jumping(9, 50);
  std::vector<std::size_t> expected;
  for (std::uint64_t p = 0; p < 500; ++p) expected.push_back(straight.sample_at(p));
  for (std::uint64_t i = 0; i < 500; ++i) {
    const std::uint64_t p = i * 137 % 500;
    ASSERT_EQ(jumping.sample_at(p), expected[p]);
  }
}

TEST(SampleOrder, ThreadsSeeTheSameOrder) {
  const SampleOrder order(4, 64);
  const SampleOrder reference(4, 64);
  std::vector<std::vector<std::size_t>> seen(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (std::uint64_t p = 0; p < 640; ++p) seen[t].push_back(order.sample_at((p + 64 * t * 2) % 640));
      });
    }
  }
  for (std::size_t t = 0; t < 4; ++t) {
    for (std::uint64_t p = 0; p < 640; ++p)
      ASSERT_EQ(seen[t][p], reference.sample_at((p + 64 * t * 2) % 640));
  }
}

// The 24 orders of four samples must be about equally likely.
TEST(SampleOrder, ShufflesWithoutBias) {
  std::map<std::vector<std::size_t>, int> seen;
  const SampleOrder order(1, 4);
  for (std::uint64_t number = 0; number < 4800; ++number) ++seen[epoch(order, number, 4)];
  ASSERT_EQ(seen.size(), 24U);
  for (const auto& [samples, times] : seen) {
    EXPECT_GT(times, 130);
    EXPECT_LT(times, 270);
  }
}

}  // namespace
}  // namespace rekindle::data
