// Image data sets in their common file formats. No torch: pixels in, floats out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rekindle::data {

enum class Split { kTrain, kTest };

struct DatasetInfo {
  std::string kind;  // "cifar10", "mnist"
  int channels = 0, height = 0, width = 0, classes = 0;
  std::size_t train_count = 0, test_count = 0;
  std::vector<std::string> class_names = {};
  std::string content_hash =
      {};  // XXH3-128 over all labels and pixels, train then test: part of a run's identity
};

// Immutable after opening; safe to read from several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const DatasetInfo& info() const = 0;
  virtual std::span<const std::uint8_t> image(Split split,
                                              std::size_t index) const = 0;  // C x H x W, row-major
  virtual int label(Split split, std::size_t index) const = 0;
};

// kind: "cifar10" (binary version: data_batch_1.bin ..., test_batch.bin, batches.meta.txt; in `directory` or
// its cifar-10-batches-bin/) or "mnist" (IDX, plain or .gz; in `directory` or its MNIST/raw/ or raw/). Every
// error is ExitCode::kConfig, names the file, and has a hint. An unknown kind is kUsage, and the error names
// the most similar kind.
Result<std::unique_ptr<Dataset>> open_dataset(const std::string& kind,
                                              const std::filesystem::path& directory);

struct MadeData {
  std::size_t train_count = 0, test_count = 0;
  std::size_t files_written = 0;  // 0: all files existed already
  std::uint64_t bytes = 0;        // of all its files
};

// Writes a valid data set of `samples` training and max(1, samples/5) test images. The images are synthetic
// and learnable, and a pure function of the arguments. An existing data set is never overwritten: if it is
// equal, nothing changes; if it is another data set, that is an error.
Result<MadeData> make_data(const std::string& kind, const std::filesystem::path& directory,
                           std::size_t samples, std::uint64_t seed);

}  // namespace rekindle::data
