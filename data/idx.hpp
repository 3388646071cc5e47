// IDX files (http://yann.lecun.com/exdb/mnist): big-endian magic and dimensions, then unsigned bytes. MNIST
// and the data sets that copy its format: 28 x 28 grey pixels, 10 classes, four files. Internal to data/.
#pragma once

#include <array>
#include <filesystem>
#include <memory>

#include "base/result.hpp"
#include "data/dataset.hpp"
#include "data/formats.hpp"
#include "data/make_data.hpp"
#include "data/transform.hpp"

namespace rekindle::data {

struct IdxFormat {
  const DatasetRow* row;
  const char* title;   // for messages
  const char* folder;  // where torchvision puts the files, in its raw/
  Preprocessing preprocessing;
  std::array<const char*, kClasses> class_names;
  Made made;
};

Result<std::unique_ptr<Dataset>> open_idx(const IdxFormat& format, const std::filesystem::path& directory);
// Whether a folder has the file with the training images.
bool has_idx(const IdxFormat& format, const std::filesystem::path& folder);
Result<MadeData> make_idx(const IdxFormat& format, const std::filesystem::path& folder, std::size_t samples,
                          std::uint64_t seed, Artist::Draw draw);

}  // namespace rekindle::data
