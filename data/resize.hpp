// Bilinear resize with the bits of PIL's Image.resize(..., BILINEAR), and a crop of its result. Internal to
// data/.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rekindle::data {

// 64 bits: a long image of 1,000,000 x 1 pixels that is resized to a short side of 4681 has a long side of
// 4,681,000,000. Only a window of such a size is computed.
struct Size {
  std::int64_t height = 0, width = 0;
};

struct Window {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

// Resizes planes from `in` to `full`, but computes only `window`, which must lie inside `full`.
class Resizer {
 public:
  Resizer(Size in, Size full, Window window);
  // in.height x in.width bytes to window.height x window.width bytes
  void resize(std::span<const std::uint8_t> plane, std::span<std::uint8_t> out) const;
  // The same for pixels of 4 bytes. `stride`: bytes from a row to the next one; `rows` is working memory.
  void resize_pixels(const std::uint8_t* pixels, std::size_t stride, std::vector<std::uint8_t>& rows,
                     std::span<std::uint8_t> out) const;

 private:
  // The inputs of one output and their weights, in units of 1/2^22. The sum of the weights is about 1.
  struct Taps {
    int first = 0;
    std::span<const std::int32_t> weights;
  };
  // The taps of the outputs [begin, begin + count) of one axis.
  class Axis {
   public:
    Axis(std::int64_t in, std::int64_t out, std::int64_t begin, std::int64_t count);
    Taps operator[](std::size_t i) const {
      return {firsts_[i], std::span(weights_).subspan(i * stride_, sizes_[i])};
    }
    // The first pass for rows of pixels of 4 bytes.
    void sum(const std::uint8_t* pixels, std::size_t stride, std::size_t rows, std::uint8_t* out) const;
    int first_input() const { return firsts_.front(); }  // firsts and ends never decrease
    int end_input() const { return firsts_.back() + static_cast<int>(sizes_.back()); }

   private:
    std::size_t stride_;
    std::vector<int> firsts_;
    std::vector<std::size_t> sizes_;
    std::vector<std::int32_t> weights_;
  };

  // The second pass: `rows` are those that the window needs, of `row_bytes`.
  void sum_columns(const std::vector<std::uint8_t>& rows, std::size_t row_bytes, std::uint8_t* out) const;

  std::size_t in_width_, width_, height_;
  Axis across_, down_;
};

}  // namespace rekindle::data
