#include "data/transform.hpp"

#include <array>
#include <vector>

#include "base/random.hpp"

namespace rekindle::data {
namespace {

using Levels = std::array<float, 256>;  // the normalised value of each pixel value

// torchvision's ToTensor and Normalize, in single precision as in torchvision.
constexpr Levels normalised(float mean, float std) {
  Levels levels{};
  for (int v = 0; v < 256; ++v) levels[v] = (static_cast<float>(v) / 255.0F - mean) / std;
  return levels;
}

constexpr std::array<Levels, 3> kImageNetLevels = {normalised(0.485F, 0.229F), normalised(0.456F, 0.224F),
                                                   normalised(0.406F, 0.225F)};
constexpr Levels kMnistLevels = normalised(0.1307F, 0.3081F), kFashionLevels = normalised(0.2860F, 0.3530F);

const Levels& levels_of(Preprocessing preprocessing, std::size_t channel) {
  if (preprocessing == Preprocessing::kImageNet) return kImageNetLevels[channel];
  return preprocessing == Preprocessing::kMnist ? kMnistLevels : kFashionLevels;
}

// The part of an image that becomes the model's input.
struct View {
  Size full;      // the image is resized to this
  Window window;  // and then cropped to this
  bool flip = false;
};

// Short side to `side`, the long one in proportion, rounded down (torchvision's Resize).
Size resized(Size image, int side) {
  if (image.height <= image.width) return {side, side * image.width / image.height};
  return {side * image.height / image.width, side};
}

// Half of an even or odd margin, ties to even (torchvision's CenterCrop, which uses Python's round()).
int half_to_even(int margin) { return margin / 2 + (margin % 2 == 1 && margin / 2 % 2 == 1 ? 1 : 0); }

View choose_view(bool grey, const TransformConfig& config, Size image, std::uint64_t key) {
  const int size = config.image_size;
  View view;
  view.full = resized(image, grey ? size : (size * 16 + 7) / 14);  // size * 256 / 224, rounded
  const int spare_rows = view.full.height - size, spare_columns = view.full.width - size;
  view.window = {half_to_even(spare_rows), half_to_even(spare_columns), size, size};
  if (config.augment && !grey) {
    Rng rng(key);
    view.window.top = static_cast<int>(rng.below(static_cast<std::uint64_t>(spare_rows) + 1));
    view.window.left = static_cast<int>(rng.below(static_cast<std::uint64_t>(spare_columns) + 1));
    view.flip = rng.below(2) == 1;
  }
  return view;
}

void normalise(std::span<const std::uint8_t> plane, std::size_t width, bool flip, const Levels& levels,
               float* out) {
  if (!flip) {
    for (const std::uint8_t v : plane) *out++ = levels[v];
    return;
  }
  for (std::size_t row = 0; row < plane.size(); row += width) {
    for (std::size_t x = width; x > 0; --x) *out++ = levels[plane[row + x - 1]];
  }
}

}  // namespace

void transform(Preprocessing preprocessing, const TransformConfig& config, const Image& image,
               std::uint64_t key, std::span<float> out) {
  const View view = choose_view(preprocessing != Preprocessing::kImageNet, config, image.size, key);
  const auto size = static_cast<std::size_t>(config.image_size);
  const std::size_t in_bytes = static_cast<std::size_t>(image.size.height) * image.size.width;
  const Resizer resizer(image.size, view.full, view.window);
  std::vector<std::uint8_t> plane(size * size);
  for (std::size_t c = 0; c < static_cast<std::size_t>(image.channels); ++c) {
    resizer.resize(image.pixels.subspan(c * in_bytes, in_bytes), plane);
    normalise(plane, size, view.flip, levels_of(preprocessing, c), out.data() + c * plane.size());
  }
}

}  // namespace rekindle::data
