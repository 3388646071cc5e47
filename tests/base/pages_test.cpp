#include "base/pages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace rekindle {
namespace {

TEST(Pages, AnySize_ZeroWritableAndOnAPage) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, (std::size_t{2} << 20) - 1,
                                  std::size_t{2} << 20, (std::size_t{5} << 20) + 7}) {
    Pages first(bytes);
    const Pages pages(std::move(first));
    ASSERT_EQ(pages.bytes().size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages.bytes().data()) % 4096, 0U);
    EXPECT_TRUE(std::ranges::all_of(pages.bytes(), [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_TRUE(first.bytes().empty());
  }
  EXPECT_TRUE(Pages(0).bytes().empty());
}

}  // namespace
}  // namespace rekindle
