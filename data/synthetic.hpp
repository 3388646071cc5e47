// Synthetic images and text that a model can learn. The class is visible in each image, but noise and
// distortion make the task harder. Uses only + - * / and sqrt, so that the bits do not depend on a
// mathematics library. Internal to data/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.hpp"

namespace rekindle::data {

// `count` labels below `classes`, at most 256, in random order; the numbers of each label differ by at
// most 1.
std::vector<std::uint8_t> balanced_labels(std::size_t count, int classes, Rng rng);

// 3 x 32 x 32: a striped disc on a plain background. The class determines the orientation and spacing of the
// stripes and, in part, the tint. Position, phase, colours, contrast and noise are random. Mirrored images
// keep their class.
void draw_stripes(int label, Rng& rng, std::span<std::uint8_t> pixels);

// The same for 100 classes: stripes of the label's last digit in a frame of 4 pixels, whose two colours are
// of the first digit.
void draw_framed_stripes(int label, Rng& rng, std::span<std::uint8_t> pixels);

// 28 x 28: a seven-segment digit with random shift, slant, scale, thickness, brightness and noise.
void draw_digit(int label, Rng& rng, std::span<std::uint8_t> pixels);

// Sentences of invented words, in ASCII. Each word mostly has one of four successors, so the next byte can be
// learned in part from the bytes before it. A shorter text of the same seed is the beginning of a longer one.
std::string write_sentences(std::size_t bytes, std::uint64_t seed);

}  // namespace rekindle::data
