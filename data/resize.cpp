// A triangle filter, applied along rows and then along columns. When an image shrinks, the filter is wider,
// so that every input pixel counts (PIL's "antialias"). The bits are those of PIL, because PIL's 8-bit
// resampling also rounds weights to 22 fractional bits and each pass to 8 bits.
#include "data/resize.hpp"

#include <algorithm>
#include <cmath>

namespace rekindle::data {
namespace {

constexpr int kFractionBits = 32 - 8 - 2;  // 32 bits without 8 for the pixel and 2 for headroom
constexpr std::int32_t kHalf = 1 << (kFractionBits - 1);

// Rounds as PIL does. std::lround() differs if the sum x + 0.5 is itself rounded.
int rounded(double x) {
  const double raised = x + 0.5;
  return static_cast<int>(raised);
}

// Needs no clamp to 0..255: the weights are not negative, and their sum is so near to 1 that 255 stays 255.
std::uint8_t to_pixel(std::int32_t sum) { return static_cast<std::uint8_t>(sum >> kFractionBits); }

}  // namespace

Resizer::Axis::Axis(int in, int out, int begin, int count)
    : firsts_(static_cast<std::size_t>(count)), sizes_(firsts_.size()) {
  const double scale = static_cast<double>(in) / out;
  const double support = std::max(scale, 1.0);  // half the filter's width, in input pixels
  stride_ = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
  weights_.resize(firsts_.size() * stride_);
  std::vector<double> exact(stride_);
  for (std::size_t i = 0; i < firsts_.size(); ++i) {
    const double center = (begin + static_cast<int>(i) + 0.5) * scale;
    const int first = std::max(rounded(center - support), 0);
    const int size = std::min(rounded(center + support), in) - first;
    double sum = 0;
    for (int t = 0; t < size; ++t) {
      exact[t] = std::max(1.0 - std::abs((t + first - center + 0.5) * (1.0 / support)), 0.0);
      sum += exact[t];
    }
    for (int t = 0; t < size; ++t) {
      weights_[i * stride_ + t] = rounded(exact[t] / sum * (1 << kFractionBits));
    }
    firsts_[i] = first;
    sizes_[i] = static_cast<std::size_t>(size);
  }
}

Resizer::Resizer(Size in, Size full, Window window)
    : in_width_(static_cast<std::size_t>(in.width)),
      width_(static_cast<std::size_t>(window.width)),
      height_(static_cast<std::size_t>(window.height)),
      across_(in.width, full.width, window.left, window.width),
      down_(in.height, full.height, window.top, window.height) {}

// The weighted sum of consecutive rows of `width` pixels.
void Resizer::sum_rows(const std::uint8_t* rows, std::size_t width, std::span<const std::int32_t> weights,
                       std::uint8_t* out) {
  if (weights.size() == 2) {  // when enlarging: every row except the outermost rows
    const std::uint8_t* below = rows + width;
    const std::int32_t w0 = weights[0], w1 = weights[1];
    for (std::size_t x = 0; x < width; ++x) out[x] = to_pixel(kHalf + rows[x] * w0 + below[x] * w1);
    return;
  }
  for (std::size_t x = 0; x < width; ++x) {
    std::int32_t sum = kHalf;
    for (std::size_t t = 0; t < weights.size(); ++t) sum += rows[t * width + x] * weights[t];
    out[x] = to_pixel(sum);
  }
}

void Resizer::resize(std::span<const std::uint8_t> plane, std::span<std::uint8_t> out) const {
  // Only the input rows that the window needs.
  const auto first_row = static_cast<std::size_t>(down_.first_input());
  std::vector<std::uint8_t> rows((static_cast<std::size_t>(down_.end_input()) - first_row) * width_);
  for (std::size_t x = 0; x < width_; ++x) {
    const Taps taps = across_[x];
    const std::uint8_t* source = plane.data() + first_row * in_width_ + taps.first;
    for (std::size_t at = x; at < rows.size(); at += width_, source += in_width_) {
      std::int32_t sum = kHalf;
      for (std::size_t t = 0; t < taps.weights.size(); ++t) sum += source[t] * taps.weights[t];
      rows[at] = to_pixel(sum);
    }
  }
  for (std::size_t y = 0; y < height_; ++y) {
    const Taps taps = down_[y];
    const std::size_t first = static_cast<std::size_t>(taps.first) - first_row;
    sum_rows(rows.data() + first * width_, width_, taps.weights, out.data() + y * width_);
  }
}

}  // namespace rekindle::data
