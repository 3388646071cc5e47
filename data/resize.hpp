// Bilinear resize with the bits of PIL's Image.resize(..., BILINEAR), and a crop of its result. Internal to
// data/.
#pragma once

#include <cstdint>
#include <span>

namespace rekindle::data {

struct Size {
  int height = 0, width = 0;
};

struct Window {
  int top = 0, left = 0, height = 0, width = 0;
};

// `plane` (in.height x in.width) resized to `full`, of which only `window` is computed and written to `out`
// (window.height x window.width). The window must lie inside `full`.
void resize_crop(std::span<const std::uint8_t> plane, Size in, Size full, Window window,
                 std::span<std::uint8_t> out);

}  // namespace rekindle::data
