#include "data/resize.hpp"

#include "support.hpp"

namespace rekindle::data {
namespace {

std::vector<std::uint8_t> resized(std::span<const std::uint8_t> plane, Size in, Size full, Window window) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(window.height) * window.width);
  Resizer(in, full, window).resize(plane, out);
  return out;
}

TEST(Resize, HasPilsBits) {
  auto lines = golden_lines("resize");
  ASSERT_GE(lines.size(), 15U);
  for (auto& line : lines) {
    Size in, full;
    std::uint32_t expected = 0;
    std::string middle;
    line >> in.height >> in.width >> full.height >> full.width >> expected >> middle;
    const auto plane = known_image(static_cast<std::size_t>(in.height) * in.width);
    const auto out = resized(plane, in, full, {0, 0, full.height, full.width});
    EXPECT_EQ(crc(std::span(out)), expected) << line.str();
    const std::uint8_t* row = out.data() + static_cast<std::ptrdiff_t>(full.height / 2) * full.width;
    for (std::size_t i = 0; i < middle.size() / 2; ++i) {
      EXPECT_EQ(row[i], std::stoi(middle.substr(2 * i, 2), nullptr, 16)) << line.str() << " byte " << i;
    }
  }
}

TEST(Resize, ACropHasTheBitsOfTheWholeResize) {
  const auto plane = known_image(45 * 37);
  for (const Size full : {Size{256, 211}, Size{20, 17}, Size{45, 37}, Size{90, 10}}) {
    const auto whole = resized(plane, {45, 37}, full, {0, 0, full.height, full.width});
    for (const Window window :
         {Window{0, 0, 1, 1}, Window{3, 2, 7, 5}, Window{full.height - 6, full.width - 8, 6, 8},
          Window{full.height / 2, 0, 1, full.width}}) {
      const auto crop = resized(plane, {45, 37}, full, window);
      for (int y = 0; y < window.height; ++y) {
        for (int x = 0; x < window.width; ++x) {
          ASSERT_EQ(crop[y * window.width + x], whole[(window.top + y) * full.width + window.left + x])
              << full.height << "x" << full.width << " at " << y << "," << x;
        }
      }
    }
  }
}

TEST(Resize, WhiteStaysWhiteAtEverySize) {
  const std::vector<std::uint8_t> white(33 * 33, 255);
  for (int side = 1; side < 300; side += 7) {
    for (const std::uint8_t v : resized(white, {33, 33}, {side, side}, {0, 0, side, side}))
      ASSERT_EQ(v, 255) << side;
  }
}

}  // namespace
}  // namespace rekindle::data
