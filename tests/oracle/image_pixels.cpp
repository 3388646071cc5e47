// image_pixels: what image-folder makes of files, for check_images.py. Each line of stdin is an order:
//
//   decode PATH                                  the pixels
//   part TOP LEFT HEIGHT WIDTH OUT_H OUT_W PATH  this part of the pixels, resized
//   view SIZE PATH                               the input of a model without augmentation
//
// The answer is a line, "pixels H W", "floats C SIZE" or "refused WHY", and after the first two the bytes or
// the float32s.
#include <cstdio>
#include <iostream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "data/decode.hpp"
#include "data/resize.hpp"
#include "data/transform.hpp"

namespace rekindle::data {
namespace {

Result<Pixels> decoded(std::istringstream& order) {
  std::string path;
  order >> path;
  REKINDLE_TRY(const std::vector<std::byte> bytes, read_file(path));
  Pixels pixels;
  REKINDLE_CHECK(
      decode_image({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, path, pixels));
  return pixels;
}

Result<Pixels> resized_part(std::istringstream& order) {
  Window part;
  Size out;
  order >> part.top >> part.left >> part.height >> part.width >> out.height >> out.width;
  REKINDLE_TRY(const Pixels image, decoded(order));
  const std::size_t stride = static_cast<std::size_t>(image.size.width) * kPixelBytes;
  const std::uint8_t* first = image.bytes.data() + static_cast<std::size_t>(part.top) * stride +
                              static_cast<std::size_t>(part.left) * kPixelBytes;
  Pixels result{out,
                std::vector<std::uint8_t>(static_cast<std::size_t>(out.height) * out.width * kPixelBytes)};
  std::vector<std::uint8_t> rows;
  Resizer({part.height, part.width}, out, {0, 0, out.height, out.width})
      .resize_pixels(first, stride, rows, result.bytes);
  return result;
}

Status print(const Result<Pixels>& pixels) {
  if (!pixels) return forward_error(pixels.error());
  std::printf("pixels %jd %jd\n", static_cast<std::intmax_t>(pixels->size.height),
              static_cast<std::intmax_t>(pixels->size.width));
  for (std::size_t at = 0; at < pixels->bytes.size(); at += kPixelBytes)
    std::fwrite(pixels->bytes.data() + at, 1, 3, stdout);
  return {};
}

Status print_view(std::istringstream& order) {
  TransformConfig config;
  order >> config.image_size;
  REKINDLE_TRY(const Pixels image, decoded(order));
  std::vector<float> out(std::size_t{3} * config.image_size * config.image_size);
  TransformMemory memory;
  transform_pixels(config, image, 0, out, memory);
  std::printf("floats 3 %d\n", config.image_size);
  std::fwrite(out.data(), sizeof(float), out.size(), stdout);
  return {};
}

Status obey(const std::string& line) {
  std::istringstream order(line);
  std::string what;
  order >> what;
  if (what == "decode") return print(decoded(order));
  if (what == "part") return print(resized_part(order));
  if (what == "view") return print_view(order);
  return fail(ExitCode::kUsage, "unknown order " + what, "see image_pixels.cpp");
}

}  // namespace
}  // namespace rekindle::data

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    if (const auto done = rekindle::data::obey(line); !done)
      std::printf("refused %s\n", done.error().what.c_str());
    std::fflush(stdout);
  }
  return 0;
}
