#include "data/transform.hpp"

#include <array>
#include <cmath>
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
  Window source;  // the image is cropped to this
  Size full;      // then resized to this
  Window window;  // and then cropped to this
  bool flip = false;
};

// Short side to `side`, the long one in proportion, rounded down (torchvision's Resize).
Size resized(Size image, std::int64_t side) {
  if (image.height <= image.width) return {side, side * image.width / image.height};
  return {side * image.height / image.width, side};
}

// Half of an even or odd margin, ties to even (torchvision's CenterCrop, which uses Python's round()).
std::int64_t half_to_even(std::int64_t margin) {
  return margin / 2 + (margin % 2 == 1 && margin / 2 % 2 == 1 ? 1 : 0);
}

double uniform(Rng& rng, double low, double high) {
  return low + (high - low) * (static_cast<double>(rng.next() >> 11) * 0x1p-53);
}

// exp(x) for |x| < 0.3 by its series, because the last bit of std::exp() depends on the C library.
double small_exp(double x) {
  double sum = 1, term = 1;
  for (int n = 1; n <= 14; ++n) {
    term = term * x / n;
    sum += term;
  }
  return sum;
}

// torchvision's RandomResizedCrop.get_params() with scale (0.08, 1) and ratio (3/4, 4/3).
Window random_part(Size image, Rng& rng) {
  constexpr double kLogRatio = 0.28768207245178090;  // log(4/3)
  const double area = static_cast<double>(image.height) * image.width;
  for (int tries = 0; tries < 10; ++tries) {
    const double target = area * uniform(rng, 0.08, 1);
    const double ratio = small_exp(uniform(rng, -kLogRatio, kLogRatio));
    const int width = static_cast<int>(std::nearbyint(std::sqrt(target * ratio)));
    const int height = static_cast<int>(std::nearbyint(std::sqrt(target / ratio)));
    if (width < 1 || width > image.width || height < 1 || height > image.height) continue;
    const auto top = rng.below(static_cast<std::uint64_t>(image.height - height) + 1);
    const auto left = rng.below(static_cast<std::uint64_t>(image.width - width) + 1);
    return {static_cast<int>(top), static_cast<int>(left), height, width};
  }
  // The largest part in the center with a ratio in these limits.
  Size part = image;
  const double ratio = static_cast<double>(image.width) / image.height;
  if (ratio < 3.0 / 4) part.height = static_cast<int>(std::nearbyint(image.width / (3.0 / 4)));
  if (ratio > 4.0 / 3) part.width = static_cast<int>(std::nearbyint(image.height * (4.0 / 3)));
  return {(image.height - part.height) / 2, (image.width - part.width) / 2, part.height, part.width};
}

View choose_view(bool grey, const TransformConfig& config, Size image, std::uint64_t key) {
  const int size = config.image_size;
  const Augment augment = grey ? Augment::kOff : config.augment;
  Rng rng(key);
  View view;
  if (augment == Augment::kResizedCrop) {
    view.source = random_part(image, rng);
    view.full = {size, size};
    view.window = {0, 0, size, size};
    view.flip = rng.below(2) == 1;
    return view;
  }
  view.source = {0, 0, image.height, image.width};
  view.full = resized(image, grey ? size : (size * 16 + 7) / 14);  // size * 256 / 224, rounded
  const std::int64_t spare_rows = view.full.height - size, spare_columns = view.full.width - size;
  view.window = {half_to_even(spare_rows), half_to_even(spare_columns), size, size};
  if (augment == Augment::kCrop) {
    view.window.top = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(spare_rows) + 1));
    view.window.left = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(spare_columns) + 1));
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

// One channel of square rows of pixels.
void normalise_pixels(const std::vector<std::uint8_t>& pixels, std::size_t width, bool flip,
                      std::size_t channel, float* out) {
  const Levels& levels = kImageNetLevels[channel];
  const std::uint8_t* row = pixels.data() + channel;
  for (std::size_t y = 0; y < width; ++y, row += width * kPixelBytes) {
    for (std::size_t x = 0; x < width; ++x) *out++ = levels[row[(flip ? width - 1 - x : x) * kPixelBytes]];
  }
}

Pixels interleaved(const Image& image) {
  const std::size_t plane = static_cast<std::size_t>(image.size.height) * image.size.width;
  Pixels pixels{image.size, std::vector<std::uint8_t>(plane * kPixelBytes)};
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t i = 0; i < plane; ++i) pixels.bytes[i * kPixelBytes + c] = image.pixels[c * plane + i];
  }
  return pixels;
}

}  // namespace

void transform(Preprocessing preprocessing, const TransformConfig& config, const Image& image,
               std::uint64_t key, std::span<float> out) {
  if (preprocessing == Preprocessing::kImageNet && config.augment == Augment::kResizedCrop) {
    TransformMemory memory;
    transform_pixels(config, interleaved(image), key, out, memory);
    return;
  }
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

void transform_pixels(const TransformConfig& config, const Pixels& image, std::uint64_t key,
                      std::span<float> out, TransformMemory& memory) {
  const View view = choose_view(false, config, image.size, key);
  const auto size = static_cast<std::size_t>(config.image_size);
  const std::size_t stride = static_cast<std::size_t>(image.size.width) * kPixelBytes;
  const std::uint8_t* source = image.bytes.data() + static_cast<std::size_t>(view.source.top) * stride +
                               static_cast<std::size_t>(view.source.left) * kPixelBytes;
  memory.pixels.resize(size * size * kPixelBytes);
  Resizer({view.source.height, view.source.width}, view.full, view.window)
      .resize_pixels(source, stride, memory.rows, memory.pixels);
  for (std::size_t c = 0; c < 3; ++c)
    normalise_pixels(memory.pixels, size, view.flip, c, out.data() + c * size * size);
}

}  // namespace rekindle::data
