#include "data/decode.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace rekindle::data {

tl::unexpected<Error> corrupt_image(const std::string& source, const std::string& what,
                                    const std::string& remedy) {
  return forward_error(
      {ExitCode::kConfig, str(source, " ", what),
       str("with --skip-corrupt the run goes on, and the next image takes its place; or ", remedy),
       ErrorKind::kDamage});
}

Status check_pixels(std::uint64_t width, std::uint64_t height, const std::string& source) {
  if (width > 0 && height > 0 && width <= kMostPixels && height <= kMostPixels / width) return {};
  return corrupt_image(
      source, str("has ", width, " x ", height, " pixels, and ", kMostPixels, " are the most that are read"),
      "make it smaller, and start a new run");
}

Status decode_image(std::span<const std::uint8_t> bytes, const std::string& source, Pixels& pixels) {
  // As many bytes as PIL compares.
  constexpr std::array<std::uint8_t, 3> kJpeg = {0xff, 0xd8, 0xff};
  constexpr std::array<std::uint8_t, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  const auto begins_with = [&](const auto& magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  if (bytes.empty()) return corrupt_image(source, "is empty");
  if (begins_with(kJpeg)) return decode_jpeg(bytes, source, pixels);
  if (begins_with(kPng)) return decode_png(bytes, source, pixels);
  return corrupt_image(source, "is neither a JPEG nor a PNG file",
                       "restore it, or convert it to PNG, and start a new run");
}

}  // namespace rekindle::data
