// A data set in memory: the result of both readers. Internal to data/.
#pragma once

#include <utility>
#include <vector>

#include "data/dataset.hpp"

namespace rekindle::data {

struct Images {
  std::vector<std::uint8_t> pixels;  // count x C x H x W
  std::vector<std::uint8_t> labels;  // count
};

class MemoryDataset final : public Dataset {
 public:
  // `shape` has kind, channels, height, width, classes and class_names; counts and hash are filled in here.
  MemoryDataset(DatasetInfo shape, Images train, Images test);

  const DatasetInfo& info() const override { return info_; }
  std::span<const std::uint8_t> image(Split split, std::size_t index) const override {
    return std::span(images(split).pixels).subspan(index * image_bytes_, image_bytes_);
  }
  int label(Split split, std::size_t index) const override { return images(split).labels[index]; }

 private:
  const Images& images(Split split) const { return split == Split::kTrain ? train_ : test_; }

  DatasetInfo info_;
  std::size_t image_bytes_;
  Images train_, test_;
};

}  // namespace rekindle::data
