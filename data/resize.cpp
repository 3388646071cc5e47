// A triangle filter, stretched when shrinking so that every input pixel counts (PIL's "antialias"), applied
// along rows and then along columns. Weights are rounded to 22 fractional bits and each pass rounds to 8
// bits: that is what PIL's 8-bit resampling does, and the reason that the bits agree.
#include "data/resize.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace rekindle::data {
namespace {

constexpr int kFractionBits = 32 - 8 - 2;  // 8 bits of pixel and 2 of headroom in 32
constexpr std::int32_t kHalf = 1 << (kFractionBits - 1);

// Which inputs make one output, and with which weights (about 1 << kFractionBits in sum).
struct Taps {
  int first = 0;
  std::span<const std::int32_t> weights;
};

// One axis of `in` pixels resized to `out`, for the outputs [begin, begin + count).
class Axis {
 public:
  Axis(int in, int out, int begin, int count) {
    const double scale = static_cast<double>(in) / out;
    const double support = std::max(scale, 1.0);  // half the filter's width, in input pixels
    stride_ = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
    firsts_.resize(static_cast<std::size_t>(count));
    sizes_.resize(firsts_.size());
    weights_.resize(firsts_.size() * stride_);
    std::vector<double> exact(stride_);
    for (std::size_t i = 0; i < firsts_.size(); ++i) {
      const double center = (begin + static_cast<int>(i) + 0.5) * scale;
      const int first = std::max(static_cast<int>(center - support + 0.5), 0);
      const int size = std::min(static_cast<int>(center + support + 0.5), in) - first;
      double sum = 0;
      for (int t = 0; t < size; ++t) {
        exact[t] = std::max(1.0 - std::abs((t + first - center + 0.5) * (1.0 / support)), 0.0);
        sum += exact[t];
      }
      for (int t = 0; t < size; ++t) {
        weights_[i * stride_ + t] = static_cast<std::int32_t>(0.5 + exact[t] / sum * (1 << kFractionBits));
      }
      firsts_[i] = first;
      sizes_[i] = static_cast<std::size_t>(size);
    }
  }

  Taps operator[](std::size_t i) const {
    return {firsts_[i], std::span(weights_).subspan(i * stride_, sizes_[i])};
  }
  int first_input() const { return firsts_.front(); }  // firsts and ends never decrease
  int end_input() const { return firsts_.back() + static_cast<int>(sizes_.back()); }

 private:
  std::size_t stride_ = 0;
  std::vector<int> firsts_;
  std::vector<std::size_t> sizes_;
  std::vector<std::int32_t> weights_;
};

// No clamp to 0..255: the weights are not negative, and their sum is so near to one that 255 stays 255.
std::uint8_t to_pixel(std::int32_t sum) { return static_cast<std::uint8_t>(sum >> kFractionBits); }

// Rows of `width` pixels below each other at `rows`, weighted and summed into one.
void sum_rows(const std::uint8_t* rows, std::size_t width, std::span<const std::int32_t> weights,
              std::uint8_t* out) {
  if (weights.size() == 2) {  // every row but the outermost when enlarging
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

}  // namespace

void resize_crop(std::span<const std::uint8_t> plane, Size in, Size full, Window window,
                 std::span<std::uint8_t> out) {
  const Axis across(in.width, full.width, window.left, window.width);
  const Axis down(in.height, full.height, window.top, window.height);
  const auto width = static_cast<std::size_t>(window.width);

  // Only the input rows that the window needs.
  const int first_row = down.first_input();
  std::vector<std::uint8_t> rows(static_cast<std::size_t>(down.end_input() - first_row) * width);
  for (std::size_t x = 0; x < width; ++x) {
    const Taps taps = across[x];
    const std::uint8_t* source =
        plane.data() + static_cast<std::ptrdiff_t>(first_row) * in.width + taps.first;
    for (std::size_t at = x; at < rows.size(); at += width, source += in.width) {
      std::int32_t sum = kHalf;
      for (std::size_t t = 0; t < taps.weights.size(); ++t) sum += source[t] * taps.weights[t];
      rows[at] = to_pixel(sum);
    }
  }
  for (std::size_t y = 0; y < static_cast<std::size_t>(window.height); ++y) {
    const Taps taps = down[y];
    sum_rows(rows.data() + static_cast<std::size_t>(taps.first - first_row) * width, width, taps.weights,
             out.data() + y * width);
  }
}

}  // namespace rekindle::data
