// Decodes JPEG (libjpeg-turbo) and PNG (libpng) to the pixels that PIL's convert("RGB") has. Internal to
// data/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "data/resize.hpp"

namespace rekindle::data {

inline constexpr int kPixelBytes = 4;

// Rows of pixels of 4 bytes: red, green, blue, and one that means nothing.
struct Pixels {
  Size size;
  std::vector<std::uint8_t> bytes = {};
};

// PIL warns of larger images. Checked before memory is allocated for the pixels.
inline constexpr std::uint64_t kMostPixels = 89'478'485;
Status check_pixels(std::uint64_t width, std::uint64_t height, const std::string& source);

// The format is that of the content, not of the name. Grey becomes RGB, transparency is dropped, CMYK is
// converted as PIL does, and bytes after the image are ignored. `pixels` may be reused. Errors
// (ErrorKind::kDamage, ExitCode::kConfig) name `source`: another format, damage, truncation, more than
// kMostPixels, PNG's grey of 16 bits. Too little memory is no damage: std::bad_alloc.
Status decode_image(std::span<const std::uint8_t> bytes, const std::string& source, Pixels& pixels);

Status decode_jpeg(std::span<const std::uint8_t> bytes, const std::string& source, Pixels& pixels);
Status decode_png(std::span<const std::uint8_t> bytes, const std::string& source, Pixels& pixels);

// An error of this kind. `remedy`: what to do about the file.
inline constexpr const char* kRestore =
    "restore the file: if its size stays the same, the run goes on, otherwise start a new run";
tl::unexpected<Error> corrupt_image(const std::string& source, const std::string& what,
                                    const std::string& remedy = kRestore);

}  // namespace rekindle::data
