// Synthetic images that a model can learn: the class shows in each image, noise and distortion keep it from
// being trivial. Only + - * / and sqrt, so that the bits do not depend on a mathematics library. Internal to
// data/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.hpp"

namespace rekindle::data {

// `count` labels 0..9, as equally often as possible, in random order.
std::vector<std::uint8_t> balanced_labels(std::size_t count, Rng rng);

// 3 x 32 x 32: a striped disc somewhere on a plain ground. Orientation and spacing of the stripes and,
// in part, the tint are the class; place, phase, colours, contrast and noise are random. Mirrored images keep
// their class.
void draw_stripes(int label, Rng& rng, std::span<std::uint8_t> pixels);

// 28 x 28: a seven-segment digit, shifted, slanted, scaled, of random thickness and brightness, in noise.
void draw_digit(int label, Rng& rng, std::span<std::uint8_t> pixels);

}  // namespace rekindle::data
