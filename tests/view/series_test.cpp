#include "view/series.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace rekindle::view {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::uint64_t values_in(const Series& series) {
  std::uint64_t values = 0;
  for (const Bucket& bucket : series.buckets()) values += bucket.count;
  return values;
}

TEST(SeriesOfSteps, UpToTheLimit_EachValueIsABucket) {
  Series series(4);
  EXPECT_THAT(series.buckets(), IsEmpty());
  for (std::uint64_t step = 1; step <= 4; ++step) series.add(step, static_cast<double>(step) / 2);
  EXPECT_THAT(series.buckets(), ElementsAre(Bucket{1, 1, 0.5, 0.5, 0.5}, Bucket{2, 1, 1, 1, 1},
                                            Bucket{3, 1, 1.5, 1.5, 1.5}, Bucket{4, 1, 2, 2, 2}));
  EXPECT_TRUE(series.exact());
  series.add(5, 9);
  EXPECT_THAT(series.buckets(),
              ElementsAre(Bucket{2, 2, 0.5, 0.75, 1}, Bucket{4, 2, 1.5, 1.75, 2}, Bucket{5, 1, 9, 9, 9}));
  EXPECT_FALSE(series.exact());
  EXPECT_EQ(series.steps_of(series.buckets()[0]), (StepRange{0, 2}));
  EXPECT_EQ(series.steps_of(series.buckets()[2]), (StepRange{5, 6}));
}

TEST(SeriesOfSteps, ASpikeAtAnyStep_IsInTheMaximumAndInNoOtherBucket) {
  constexpr std::uint64_t kSteps = 500;
  for (std::uint64_t spike = 1; spike <= kSteps; ++spike) {
    Series series(64);
    for (std::uint64_t step = 1; step <= kSteps; ++step) series.add(step, step == spike ? 1000 : 1);
    ASSERT_EQ(values_in(series), kSteps);
    ASSERT_EQ(std::ranges::count(series.buckets(), 1000.0, &Bucket::max), 1) << spike;
    for (const Bucket& bucket : series.buckets())
      ASSERT_EQ(bucket.max == 1000, series.steps_of(bucket).has(spike)) << spike;
  }
}

TEST(SeriesOfSteps, MillionsOfSteps_TakeNoMoreMemory) {
  Series series(256);
  for (std::uint64_t step = 1; step <= 3'000'000; ++step) series.add(step, 1);
  EXPECT_LE(series.buckets().capacity(), 256U);
  EXPECT_GT(series.buckets().size(), 128U);
  EXPECT_EQ(values_in(series), 3'000'000U);
}

TEST(SeriesOfSteps, StepsInAnyOrder_GiveTheSameBuckets) {
  std::vector<std::uint64_t> steps;
  for (std::uint64_t step = 0; step < 3000; ++step) steps.push_back(step);
  Series forward(100), backward(100), mixed(100);
  // Whole numbers, so that the order of the sums does not matter.
  for (const std::uint64_t step : steps) forward.add(step, 7);
  std::ranges::reverse(steps);
  for (const std::uint64_t step : steps) backward.add(step, 7);
  for (std::uint64_t i = 0; i < 3000; ++i) mixed.add(i * 1001 % 3000, 7);
  EXPECT_EQ(forward.buckets(), backward.buckets());
  EXPECT_EQ(forward.buckets(), mixed.buckets());
}

TEST(SeriesOfSteps, StepsFarApart_StayWithinTheLimit) {
  Series series(16);
  std::uint64_t step = 1;
  for (int i = 0; i < 5000; ++i) {
    step = step * 6364136223846793005U + 1442695040888963407U;
    series.add(step >> 1, 1);
  }
  series.add(0, 5);
  series.add(std::uint64_t{INT64_MAX}, 6);
  EXPECT_LE(series.buckets().size(), 16U);
  EXPECT_EQ(values_in(series), 5002U);
  EXPECT_EQ(series.buckets().front().max, 5);
  EXPECT_EQ(series.buckets().back().max, 6);
}

TEST(SeriesOfSteps, ALoneStepFarAhead_DoesNotWidenTheBuckets) {
  Series series(1000);
  for (std::uint64_t step = 1; step <= 900; ++step) series.add(step, 1);
  series.add(std::uint64_t{INT64_MAX}, 1);
  EXPECT_EQ(series.width(), 1U);
}

TEST(SeriesOfSteps, AStepThatIsThereTwice_HasItsSecondValue) {
  Series series(8);
  series.add(1, 5);
  series.add(2, 6);
  series.add(1, 7);
  EXPECT_THAT(series.buckets(), ElementsAre(Bucket{1, 1, 7, 7, 7}, Bucket{2, 1, 6, 6, 6}));
}

TEST(SeriesOfSteps, LargeAndEqualValues_HaveAMeanBetweenThem) {
  Series large(2), equal(2);
  for (std::uint64_t step = 1; step <= 10; ++step) {
    large.add(step, step % 2 == 0 ? 1.7e308 : -1.7e308);
    equal.add(step, 0.1);
  }
  for (const Bucket& bucket : large.buckets()) EXPECT_TRUE(std::isfinite(bucket.mean));
  for (const Bucket& bucket : equal.buckets()) EXPECT_EQ(bucket.mean, 0.1);
}

}  // namespace
}  // namespace rekindle::view
