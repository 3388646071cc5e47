// A triangle filter, applied along rows and then along columns. When an image shrinks, the filter is wider,
// so that every input pixel counts (PIL's "antialias"). The bits are those of PIL, because PIL's 8-bit
// resampling also rounds weights to 22 fractional bits and each pass to 8 bits.
#include "data/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/each_width.hpp"

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

// Vectors of the compiler (GCC, clang), because neither makes them of these loops at -O2.
using Bytes4 = std::uint8_t __attribute__((vector_size(4)));
using Words4 = std::int32_t __attribute__((vector_size(16)));
using Bytes8 = std::uint8_t __attribute__((vector_size(8)));
using Words8 = std::int32_t __attribute__((vector_size(32)));

// The first pass over rows of pixels of 4 bytes: for each output pixel i, the weighted sum of `sizes[i]`
// pixels from `firsts[i]` on. The weights of output i begin at i * most.
REKINDLE_EACH_WIDTH
void sum_pixels(const std::uint8_t* pixels, std::size_t stride, std::size_t rows, const int* firsts,
                const std::size_t* sizes, const std::int32_t* weights, std::size_t most, std::size_t count,
                std::uint8_t* out) {
  for (std::size_t row = 0; row < rows; ++row, pixels += stride) {
    for (std::size_t i = 0; i < count; ++i, out += 4) {
      const std::uint8_t* at = pixels + static_cast<std::size_t>(firsts[i]) * 4;
      const std::int32_t* weight = weights + i * most;
      Words4 sum = {kHalf, kHalf, kHalf, kHalf};
      for (std::size_t t = 0; t < sizes[i]; ++t, at += 4) {
        Bytes4 pixel;
        std::memcpy(&pixel, at, sizeof pixel);
        sum += __builtin_convertvector(pixel, Words4) * weight[t];
      }
      const Bytes4 result = __builtin_convertvector(sum >> kFractionBits, Bytes4);
      std::memcpy(out, &result, sizeof result);
    }
  }
}

// The weighted sum of consecutive rows of `width` bytes.
REKINDLE_EACH_WIDTH
void sum_rows(const std::uint8_t* rows, std::size_t width, const std::int32_t* weights, std::size_t count,
              std::uint8_t* out) {
  std::size_t x = 0;
  for (; x + 8 <= width; x += 8) {
    Words8 sum = {kHalf, kHalf, kHalf, kHalf, kHalf, kHalf, kHalf, kHalf};
    for (std::size_t t = 0; t < count; ++t) {
      Bytes8 bytes;
      std::memcpy(&bytes, rows + t * width + x, sizeof bytes);
      sum += __builtin_convertvector(bytes, Words8) * weights[t];
    }
    const Bytes8 result = __builtin_convertvector(sum >> kFractionBits, Bytes8);
    std::memcpy(out + x, &result, sizeof result);
  }
  for (; x < width; ++x) {
    std::int32_t sum = kHalf;
    for (std::size_t t = 0; t < count; ++t) sum += rows[t * width + x] * weights[t];
    out[x] = to_pixel(sum);
  }
}

}  // namespace

Resizer::Axis::Axis(std::int64_t in, std::int64_t out, std::int64_t begin, std::int64_t count)
    : firsts_(static_cast<std::size_t>(count)), sizes_(firsts_.size()) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double support = std::max(scale, 1.0);  // half the filter's width, in input pixels
  stride_ = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
  weights_.resize(firsts_.size() * stride_);
  std::vector<double> exact(stride_);
  for (std::size_t i = 0; i < firsts_.size(); ++i) {
    const double center = (static_cast<double>(begin + static_cast<std::int64_t>(i)) + 0.5) * scale;
    const int first = std::max(rounded(center - support), 0);
    const int size = std::min(rounded(center + support), static_cast<int>(in)) - first;
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

void Resizer::Axis::sum(const std::uint8_t* pixels, std::size_t stride, std::size_t rows,
                        std::uint8_t* out) const {
  sum_pixels(pixels, stride, rows, firsts_.data(), sizes_.data(), weights_.data(), stride_, firsts_.size(),
             out);
}

Resizer::Resizer(Size in, Size full, Window window)
    : in_width_(static_cast<std::size_t>(in.width)),
      width_(static_cast<std::size_t>(window.width)),
      height_(static_cast<std::size_t>(window.height)),
      across_(in.width, full.width, window.left, window.width),
      down_(in.height, full.height, window.top, window.height) {}

void Resizer::sum_columns(const std::vector<std::uint8_t>& rows, std::size_t row_bytes,
                          std::uint8_t* out) const {
  const auto first_row = static_cast<std::size_t>(down_.first_input());
  for (std::size_t y = 0; y < height_; ++y) {
    const Taps taps = down_[y];
    const std::size_t first = static_cast<std::size_t>(taps.first) - first_row;
    sum_rows(rows.data() + first * row_bytes, row_bytes, taps.weights.data(), taps.weights.size(),
             out + y * row_bytes);
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
  sum_columns(rows, width_, out.data());
}

void Resizer::resize_pixels(const std::uint8_t* pixels, std::size_t stride, std::vector<std::uint8_t>& rows,
                            std::span<std::uint8_t> out) const {
  const auto first_row = static_cast<std::size_t>(down_.first_input());
  const std::size_t count = static_cast<std::size_t>(down_.end_input()) - first_row, bytes = width_ * 4;
  rows.resize(count * bytes);
  across_.sum(pixels + first_row * stride, stride, count, rows.data());
  sum_columns(rows, bytes, out.data());
}

}  // namespace rekindle::data
