#include "data/memory_images.hpp"

#include <utility>

#include "base/hash.hpp"

namespace rekindle::data {

MemoryImages::MemoryImages(DatasetInfo info, Size size, Preprocessing preprocessing, Images train,
                           Images test)
    : info_(std::move(info)),
      size_(size),
      preprocessing_(preprocessing),
      train_(std::move(train)),
      test_(std::move(test)) {
  info_.samples = SampleKind::kImages;
  info_.train_count = train_.labels.size();
  info_.test_count = test_.labels.size();
  Hasher128 hasher;
  for (const Images* images : {&train_, &test_}) {
    hasher.update(std::as_bytes(std::span(images->labels)));
    hasher.update(std::as_bytes(std::span(images->pixels)));
  }
  info_.content_hash = hasher.digest().hex();
}

Image MemoryImages::image(Split split, std::size_t index) const {
  const std::size_t bytes = static_cast<std::size_t>(info_.channels) * size_.height * size_.width;
  return {info_.channels, size_, std::span(images(split).pixels).subspan(index * bytes, bytes)};
}

Status MemoryImages::read(Split split, std::size_t index, const TransformConfig& config, std::uint64_t key,
                          Batch& batch, std::size_t place) const {
  transform(preprocessing_, config, image(split, index), key, image_of(batch, place));
  batch.labels[place] = label(split, index);
  return {};
}

}  // namespace rekindle::data
