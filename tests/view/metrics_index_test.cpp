#include "view/metrics_index.hpp"

#include <gmock/gmock.h>
#include <malloc.h>

namespace rekindle::view {
namespace {

TEST(IndexOfMetrics, AnyNumberOfBlocks_TakesNoMoreMemory) {
  const auto growth_of = [](std::uint64_t blocks) {
    const auto used = [] {
      const auto info = ::mallinfo2();  // all zero with a sanitizer
      return info.uordblks + info.hblkhd;
    };
    const std::size_t before = used();
    MetricsIndex index;
    for (std::uint64_t i = 0; i < blocks; ++i) index.add(i << 20, "{}", {i, i});
    return static_cast<std::int64_t>(used() - before);
  };
  // What the heap itself needs besides varies.
  EXPECT_LE(growth_of(50 * MetricsIndex::kMostBlocks), 2 * growth_of(MetricsIndex::kMostBlocks));
}

TEST(IndexOfMetrics, OfALongFile_AStepIsInASmallPart) {
  constexpr std::uint64_t kLine = 400, kSteps = 100'000;
  MetricsIndex index;
  for (std::uint64_t i = 0; i < kSteps; ++i)
    index.add(i * kLine, std::string(kLine - 1, 'x'), {i + 1, i + 1});
  for (const std::uint64_t step : {1, 2, 50'000, 77'777, 99'999, 100'000}) {
    const auto parts = index.parts_with({{step, step}});
    ASSERT_EQ(parts.size(), 1U);
    EXPECT_LE(parts[0].begin, (step - 1) * kLine);
    EXPECT_GE(parts[0].end, step * kLine);
    EXPECT_LE(parts[0].end - parts[0].begin, kSteps * kLine / 1000);
  }
  const auto all = index.parts_with({{0, UINT64_MAX}});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].begin, 0U);
  EXPECT_EQ(all[0].end, kSteps * kLine);
  EXPECT_EQ(index.parts_with({{1, 10}, {90'000, 90'010}}).size(), 2U);
}

}  // namespace
}  // namespace rekindle::view
