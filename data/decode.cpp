#include "data/decode.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace rekindle::data {

tl::unexpected<Error> corrupt_image(const std::string& source, const std::string& what) {
  return forward_error({ExitCode::kConfig, str(source, " ", what),
                        "with --skip-corrupt the run goes on, and the next image takes its place; or restore "
                        "the file: if its size stays the same, the run goes on, otherwise start a new run",
                        ErrorKind::kDamage});
}

Status check_pixels(std::uint64_t width, std::uint64_t height, const std::string& source) {
  if (width > 0 && height > 0 && width <= kMostPixels && height <= kMostPixels / width) return {};
  return corrupt_image(
      source, str("has ", width, " x ", height, " pixels, and ", kMostPixels, " are the most that are read"));
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
  return corrupt_image(source, "is neither a JPEG nor a PNG file");
}

}  // namespace rekindle::data
