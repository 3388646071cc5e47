// The preprocessing of images: bytes in, normalised floats out. Internal to data/.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.hpp"
#include "data/decode.hpp"
#include "data/resize.hpp"

namespace rekindle::data {

enum class Preprocessing {
  // That of torchvision's ImageNet recipes: the short side is resized bilinear (as PIL does) to
  // round(image_size * 256 / 224), a crop of image_size, ImageNet's mean and standard deviation. The crop is
  // in the center or, with Augment::kCrop, anywhere, and then half of the images are flipped. With
  // kResizedCrop: torchvision's RandomResizedCrop and the flip.
  kImageNet,
  // That of PyTorch's MNIST example: mean 0.1307, standard deviation 0.3081, resized only if image_size is
  // not 28. Never augmented, because a flipped digit is another digit.
  kMnist,
  // The same with the mean and the standard deviation of Fashion-MNIST: 0.2860, 0.3530.
  kFashionMnist,
};

struct Image {
  int channels = 0;  // kImageNet: 3; the others: 1
  Size size;
  std::span<const std::uint8_t> pixels;  // channels x height x width
};

// `out`: channels x image_size x image_size. `key` seeds this image's draws.
void transform(Preprocessing preprocessing, const TransformConfig& config, const Image& image,
               std::uint64_t key, std::span<float> out);

// Working memory of transform_pixels(), for reuse.
struct TransformMemory {
  std::vector<std::uint8_t> rows = {}, pixels = {};
};
// The same for kImageNet and an image in rows of pixels.
void transform_pixels(const TransformConfig& config, const Pixels& image, std::uint64_t key,
                      std::span<float> out, TransformMemory& memory);

}  // namespace rekindle::data
