// A data set of images of one size, in memory. Internal to data/.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.hpp"
#include "data/transform.hpp"

namespace rekindle::data {

struct Images {
  std::vector<std::uint8_t> pixels;  // count x channels x height x width
  std::vector<std::uint8_t> labels;  // count
};

class MemoryImages final : public Dataset {
 public:
  // `info` has kind, channels, classes and class_names; counts and hash are filled in here.
  MemoryImages(DatasetInfo info, Size size, Preprocessing preprocessing, Images train, Images test);

  const DatasetInfo& info() const override { return info_; }
  Status read(Split split, std::size_t index, const TransformConfig& config, std::uint64_t key, Batch& batch,
              std::size_t place) const override;

  Image image(Split split, std::size_t index) const;
  int label(Split split, std::size_t index) const { return images(split).labels[index]; }

 private:
  const Images& images(Split split) const { return split == Split::kTrain ? train_ : test_; }

  DatasetInfo info_;
  const Size size_;
  const Preprocessing preprocessing_;
  const Images train_, test_;
};

}  // namespace rekindle::data
