#include <algorithm>
#include <map>
#include <set>

#include "base/random.hpp"
#include "data/resize.hpp"
#include "data/transform.hpp"
#include "support.hpp"

namespace rekindle::data {
namespace {

std::vector<float> transformed(Preprocessing preprocessing, Size size, const TransformConfig& config,
                               std::uint64_t key = 0) {
  const int channels = preprocessing == Preprocessing::kMnist ? 1 : 3;
  const auto pixels = known_image(static_cast<std::size_t>(channels) * size.height * size.width);
  std::vector<float> out(static_cast<std::size_t>(channels) * config.image_size * config.image_size);
  transform(preprocessing, config, {channels, size, pixels}, key, out);
  return out;
}

TEST(Transform, HasTorchvisionsBitsWhenNotAugmented) {
  auto lines = golden_lines("view");
  ASSERT_GE(lines.size(), 9U);
  for (auto& line : lines) {
    std::string kind;
    int height = 0, width = 0, size = 0;
    std::uint32_t expected = 0;
    line >> kind >> height >> width >> size >> expected;
    const auto out = transformed(kind == "mnist" ? Preprocessing::kMnist : Preprocessing::kImageNet,
                                 {height, width}, {size, Augment::kOff});
    EXPECT_EQ(crc(std::span(out)), expected) << line.str();
    for (int i = 0; i < 3; ++i) {
      float value = 0;
      line >> value;
      EXPECT_EQ(out[static_cast<std::size_t>(size / 2) * size + i], value) << line.str();
    }
  }
}

// Each augmented image must be a possible result of resize, crop and flip, and every possible result must
// occur.
TEST(Transform, AugmentationIsEveryCropAndFlipOfTheResizedImage) {
  const TransformConfig config{16, Augment::kCrop};  // resized to 18: 3 x 3 positions, 2 flips
  const auto image = known_image(3 * 32 * 32);
  std::map<std::vector<float>, int> views;
  for (int top = 0; top < 3; ++top) {
    for (int left = 0; left < 3; ++left) {
      for (const bool flip : {false, true}) {
        std::vector<float> view;
        for (std::size_t c = 0; c < 3; ++c) {
          std::vector<std::uint8_t> plane(16 * 16);
          Resizer({32, 32}, {18, 18}, {top, left, 16, 16})
              .resize(std::span(image).subspan(c * 1024, 1024), plane);
          constexpr std::array<float, 3> kMean = {0.485F, 0.456F, 0.406F}, kStd = {0.229F, 0.224F, 0.225F};
          for (std::size_t at = 0; at < plane.size(); ++at) {
            const std::size_t from = flip ? at / 16 * 16 + 15 - at % 16 : at;
            view.push_back((static_cast<float>(plane[from]) / 255.0F - kMean[c]) / kStd[c]);
          }
        }
        views[view] = 0;
      }
    }
  }
  ASSERT_EQ(views.size(), 18U);
  constexpr int kDraws = 1800;
  for (int i = 0; i < kDraws; ++i) {
    const auto found = views.find(transformed(Preprocessing::kImageNet, {32, 32}, config,
                                              stream_key(7, Draws::kAugment, {0, 0, std::uint64_t(i)})));
    ASSERT_NE(found, views.end());
    ++found->second;
  }
  for (const auto& [view, seen] : views) {
    EXPECT_GT(seen, 50);
    EXPECT_LT(seen, 160);
  }
}

// The draws follow torchvision's RandomResizedCrop: parts of 8 % to 100 % of the area, of a ratio of 3/4 to
// 4/3, anywhere, resized as PIL does after the crop. A pixel's value is its place, so that the part can be
// read off.
TEST(Transform, ResizedCropIsAPartOfTheImage) {
  constexpr int kHeight = 60, kWidth = 100;
  Pixels image{{kHeight, kWidth}, std::vector<std::uint8_t>(kHeight * kWidth * kPixelBytes)};
  for (std::size_t y = 0; y < kHeight; ++y) {
    for (std::size_t x = 0; x < kWidth; ++x) {
      image.bytes[(y * kWidth + x) * kPixelBytes] = static_cast<std::uint8_t>(2 * x);
      image.bytes[(y * kWidth + x) * kPixelBytes + 1] = static_cast<std::uint8_t>(2 * y);
    }
  }
  TransformMemory memory;
  std::vector<float> out(3 * 16 * 16);
  double smallest = 1, largest = 0;
  int flips = 0;
  for (std::uint64_t key = 0; key < 500; ++key) {
    transform_pixels({16, Augment::kResizedCrop}, image, key, out, memory);
    const double left = (out[0] * 0.229 + 0.485) * 255 / 2, right = (out[15] * 0.229 + 0.485) * 255 / 2;
    const double top = (out[256] * 0.224 + 0.456) * 255 / 2,
                 bottom = (out[256 + 240] * 0.224 + 0.456) * 255 / 2;
    flips += left > right ? 1 : 0;
    // The centers of the first and the last output pixel are 15/16 of the part apart.
    const double width = std::abs(right - left) * 16 / 15, height = (bottom - top) * 16 / 15;
    EXPECT_GT(width / height, 0.68);
    EXPECT_LT(width / height, 1.47);
    smallest = std::min(smallest, width * height / (kHeight * kWidth));
    largest = std::max(largest, width * height / (kHeight * kWidth));
  }
  EXPECT_GT(smallest, 0.06);
  EXPECT_LT(smallest, 0.12);
  EXPECT_GT(largest, 0.65);  // the whole height and 4/3 of it: 80 %
  EXPECT_LT(largest, 0.86);
  EXPECT_NEAR(flips, 250, 60);
}

TEST(Transform, PixelsAndPlanesHaveTheSameBits) {
  for (const Size size : {Size{37, 53}, Size{64, 64}, Size{20, 300}}) {
    const std::size_t plane = static_cast<std::size_t>(size.height) * size.width;
    const auto planes = known_image(3 * plane);
    Pixels pixels{size, std::vector<std::uint8_t>(plane * kPixelBytes)};
    for (std::size_t i = 0; i < 3 * plane; ++i) pixels.bytes[i % plane * kPixelBytes + i / plane] = planes[i];
    TransformMemory memory;
    for (const Augment augment : {Augment::kOff, Augment::kCrop, Augment::kResizedCrop}) {
      const TransformConfig config{33, augment};
      std::vector<float> a(3 * 33 * 33), b(a.size());
      transform(Preprocessing::kImageNet, config, {3, size, planes}, 5, a);
      transform_pixels(config, pixels, 5, b, memory);
      EXPECT_EQ(a, b);
    }
  }
}

TEST(Transform, IsAFunctionOfTheKeyAlone) {
  EXPECT_EQ(transformed(Preprocessing::kImageNet, {32, 32}, {64, Augment::kCrop}, 5),
            transformed(Preprocessing::kImageNet, {32, 32}, {64, Augment::kCrop}, 5));
  EXPECT_NE(transformed(Preprocessing::kImageNet, {32, 32}, {64, Augment::kCrop}, 5),
            transformed(Preprocessing::kImageNet, {32, 32}, {64, Augment::kCrop}, 6));
}

TEST(Transform, FashionMnistHasItsOwnMeanAndDeviation) {
  const auto pixels = known_image(28 * 28);
  const auto out = [&] {
    std::vector<float> floats(28 * 28);
    transform(Preprocessing::kFashionMnist, {28, Augment::kCrop}, {1, {28, 28}, pixels}, 5, floats);
    return floats;
  }();
  for (std::size_t i = 0; i < out.size(); ++i)
    ASSERT_EQ(out[i], (static_cast<float>(pixels[i]) / 255.0F - 0.2860F) / 0.3530F);
}

TEST(Transform, MnistIsNeverAugmented) {
  EXPECT_EQ(transformed(Preprocessing::kMnist, {28, 28}, {28, Augment::kCrop}, 5),
            transformed(Preprocessing::kMnist, {28, 28}, {28, Augment::kOff}, 6));
}

// Its resized width is more than 32 bits can hold.
TEST(Transform, OfALineOfAMillionPixels_HasTheMiddle) {
  constexpr std::int64_t kWidth = 1'000'000, kMiddle = 1000;
  constexpr int kSize = 1880;
  Pixels image{{1, kWidth}, std::vector<std::uint8_t>(kWidth * kPixelBytes)};
  const auto middle = image.bytes.begin() + kWidth / 2 * kPixelBytes;
  std::fill(middle - kMiddle * kPixelBytes, middle + kMiddle * kPixelBytes, 200);
  std::vector<float> out(std::size_t{3} * kSize * kSize);
  TransformMemory memory;
  transform_pixels({kSize, Augment::kOff}, image, 0, out, memory);
  const float level = (200.0F / 255.0F - 0.485F) / 0.229F;
  EXPECT_EQ(std::count(out.begin(), out.begin() + kSize * kSize, level), kSize * kSize);
  transform_pixels({kSize, Augment::kCrop}, image, 1, out, memory);
  const float lowest = (0.0F - 0.485F) / 0.229F;
  EXPECT_GE(*std::min_element(out.begin(), out.begin() + kSize * kSize), lowest);
}

}  // namespace
}  // namespace rekindle::data
