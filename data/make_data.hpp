// What the makers of synthetic data sets share: the files and the images. Internal to data/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "base/result.hpp"
#include "data/dataset.hpp"

namespace rekindle::data {

// Part of the key of all draws of a format, so the numbers must never change.
enum class Made : std::uint64_t {
  kCifar10 = 0,
  kMnist = 1,
  kText = 2,
  kCifar100 = 3,
  kFashionMnist = 4,
  kImageFolder = 5
};

// The error of a path that the maker would have to change, or that a reader would take for a part of the
// data.
tl::unexpected<Error> occupied(const std::filesystem::path& path);

// Writes the files of a data set, except those that exist already with equal content. A file with other
// content is an error (ExitCode::kConfig).
class DataWriter {
 public:
  // Creates the folder.
  static Result<DataWriter> in(const std::filesystem::path& folder);

  Status write(const std::string& name, const std::string& bytes) { return write(name, bytes, true); }
  // The same without fsync, for many small files: after a crash a file may have no bytes.
  Status write_quickly(const std::string& name, const std::string& bytes) {
    return write(name, bytes, false);
  }
  // An error if the file exists with other content.
  Status check_equal(const std::string& name, const std::string& bytes) const;
  // An error if the file exists. A reader would take another data set's file for a part of this data set.
  Status check_absent(const std::string& name) const;

  MadeData made(std::size_t train_count, std::size_t test_count) const {
    return {train_count, test_count, written_, bytes_};
  }

 private:
  Status write(const std::string& name, const std::string& bytes, bool durably);

  explicit DataWriter(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;
  std::size_t written_ = 0;
  std::uint64_t bytes_ = 0;
};

// Draws the images of one split. Every draw is keyed by (seed, format, split, image), so an image does not
// depend on the images before it.
class Artist {
 public:
  using Draw = void (*)(int label, Rng& rng, std::span<std::uint8_t> pixels);

  Artist(std::uint64_t seed, Made format, Split split, std::size_t count, std::size_t image_bytes, Draw draw,
         int classes = 10);

  std::size_t count() const { return labels_.size(); }
  char label(std::size_t i) const { return static_cast<char>(labels_[i]); }
  void append_pixels(std::size_t i, std::string& out) const;

 private:
  std::uint64_t seed_, format_, split_;
  std::size_t image_bytes_;
  Draw draw_;
  std::vector<std::uint8_t> labels_;
};

// How many test images there are for so many training images.
constexpr std::size_t test_images(std::size_t train_images) {
  return std::max<std::size_t>(train_images / 5, 1);
}

}  // namespace rekindle::data
