// The stripes of the made CIFAR-10 at 64 x 64, as JPEG files.
#include "data/make_image_folder.hpp"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
//
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string>

#include "base/files.hpp"
#include "base/text.hpp"
#include "data/decode.hpp"
#include "data/formats.hpp"
#include "data/make_data.hpp"
#include "data/resize.hpp"
#include "data/synthetic.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

constexpr int kSide = 64;
constexpr const char* kAnnotations = "val/val_annotations.txt";

std::size_t label_of(const Artist& artist, std::size_t i) {
  return static_cast<unsigned char>(artist.label(i));
}

std::string class_name(std::size_t label) { return str("n0000000", label); }
std::string image_name(std::size_t label, std::size_t number) {
  return str(class_name(label), "_", number, ".JPEG");
}
std::string test_name(std::size_t number) { return str("val_", number, ".JPEG"); }

// `pixels`: kSide rows of pixels of kPixelBytes. An error of libjpeg ends the process: it has no memory then.
std::string jpeg_of(std::span<std::uint8_t> pixels) {
  jpeg_error_mgr errors{};
  jpeg_compress_struct info{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = info.image_height = kSide;
  info.input_components = kPixelBytes;
  info.in_color_space = JCS_EXT_RGBX;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 90, TRUE);
  jpeg_start_compress(&info, TRUE);
  for (int y = 0; y < kSide; ++y) {
    JSAMPROW row = pixels.data() + std::ptrdiff_t{y} * kSide * kPixelBytes;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string jpeg(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);  // NOLINT: libjpeg allocated it with malloc()
  return jpeg;
}

std::string drawn(const Artist& artist, std::size_t i) {
  constexpr std::size_t kPlane = std::size_t{kCifarSide} * kCifarSide;
  std::string planes;
  artist.append_pixels(i, planes);
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(planes.data()), planes.size());
  const Resizer resizer({kCifarSide, kCifarSide}, {kSide, kSide}, {0, 0, kSide, kSide});
  std::vector<std::uint8_t> plane(std::size_t{kSide} * kSide), pixels(plane.size() * kPixelBytes);
  for (std::size_t c = 0; c < 3; ++c) {
    resizer.resize(bytes.subspan(c * kPlane, kPlane), plane);
    for (std::size_t p = 0; p < plane.size(); ++p) pixels[p * kPixelBytes + c] = plane[p];
  }
  return jpeg_of(pixels);
}

// All names must be of this data set: a reader would take another image or class for a part of it, and the
// folder `train` would hide classes beside it. A file that a killed process has left may end with ".tmp.".
Status check_names(const fs::path& folder, const std::set<std::string>& made) {
  const auto names = names_in(folder);
  if (!names) return fail(ExitCode::kConfig, names.error().what, "choose another folder");
  for (const std::string& name : *names) {
    if (!name.starts_with('.') && !made.contains(name.substr(0, name.find(".tmp."))))
      return occupied(folder / name);
  }
  return {};
}

Status check_folders(const fs::path& root, const Artist& train, const Artist& test) {
  std::array<std::set<std::string>, kClasses> images;
  std::set<std::string> classes, tests;
  for (std::size_t i = 0; i < train.count(); ++i) {
    const auto label = label_of(train, i);
    images[label].insert(image_name(label, images[label].size()));
  }
  for (std::size_t i = 0; i < test.count(); ++i) tests.insert(test_name(i));
  for (std::size_t label = 0; label < kClasses; ++label) classes.insert(class_name(label));
  REKINDLE_CHECK(check_names(root, {"train", "val"}));
  REKINDLE_CHECK(check_names(root / "train", classes));
  REKINDLE_CHECK(check_names(root / "val", {"images", "val_annotations.txt"}));
  REKINDLE_CHECK(check_names(root / "val/images", tests));
  for (std::size_t label = 0; label < kClasses; ++label) {
    REKINDLE_CHECK(check_names(root / "train" / class_name(label), {"images"}));
    REKINDLE_CHECK(check_names(root / "train" / class_name(label) / "images", images[label]));
  }
  return {};
}

}  // namespace

// The list of the test images is written last, so an incomplete data set cannot be opened.
Result<MadeData> make_image_folder(const fs::path& folder, std::size_t samples, std::uint64_t seed) {
  constexpr std::size_t kBytes = std::size_t{3} * kCifarSide * kCifarSide;
  // Each class needs an image.
  const Artist train(seed, Made::kImageFolder, Split::kTrain, std::max<std::size_t>(samples, kClasses),
                     kBytes, draw_stripes);
  const Artist test(seed, Made::kImageFolder, Split::kTest, test_images(samples), kBytes, draw_stripes);
  REKINDLE_TRY(DataWriter writer, DataWriter::in(folder));
  std::string annotations;
  for (std::size_t i = 0; i < test.count(); ++i)
    annotations += str(test_name(i), "\t", class_name(label_of(test, i)), "\t0\t0\t63\t63\n");
  REKINDLE_CHECK(check_folders(folder, train, test));
  REKINDLE_CHECK(writer.check_equal(kAnnotations, annotations));
  for (std::size_t label = 0; label < kClasses; ++label) {
    const std::string images = str("train/", class_name(label), "/images");
    REKINDLE_TRY(const DataWriter made, DataWriter::in(folder / images));
  }
  REKINDLE_TRY(const DataWriter made, DataWriter::in(folder / "val/images"));
  std::array<std::size_t, kClasses> counts{};
  for (std::size_t i = 0; i < train.count(); ++i) {
    const auto label = label_of(train, i);
    REKINDLE_CHECK(writer.write_quickly(
        str("train/", class_name(label), "/images/", image_name(label, counts[label]++)), drawn(train, i)));
  }
  for (std::size_t i = 0; i < test.count(); ++i)
    REKINDLE_CHECK(writer.write_quickly(str("val/images/", test_name(i)), drawn(test, i)));
  REKINDLE_CHECK(writer.write(kAnnotations, annotations));
  return writer.made(train.count(), test.count());
}

}  // namespace rekindle::data
