// CIFAR-10 and CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html): the binary version, the Python
// version, and the .tar.gz of either. Internal to data/.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "data/dataset.hpp"
#include "data/make_data.hpp"

namespace rekindle::data {

// One version of the files.
struct CifarVersion {
  const char* folder;   // what the archive unpacks to
  const char* archive;  // the name of the archive
  // The training files, in order. Only the first one must be there, except if it is the original.
  std::vector<std::string> train;
  std::string test, class_names;  // the test file, and the file with the names of the classes
};

struct CifarFormat {
  const DatasetRow* row;
  const char* title;  // for messages
  int classes;
  // Binary: a record is `label_bytes` bytes, of which the last is the label, and 3072 bytes: the red, green
  // and blue planes of 32 x 32, row-major. The class names are lines.
  std::size_t label_bytes;
  CifarVersion binary;
  // Python: a pickle with an array of records and a list of labels; one with a list of class names.
  CifarVersion python;
  const char *labels_key, *class_names_key;
  std::vector<std::string> (*default_names)();  // if there is no file with the names
  Made made;
};

Result<std::unique_ptr<Dataset>> open_cifar(const CifarFormat& format, const std::filesystem::path& path);
// Whether a folder has the files or the archive of a version.
bool has_cifar(const CifarFormat& format, const std::filesystem::path& folder);
// Writes the binary version.
Result<MadeData> make_cifar(const CifarFormat& format, const std::filesystem::path& folder,
                            std::size_t samples, std::uint64_t seed, Artist::Draw draw);

}  // namespace rekindle::data
