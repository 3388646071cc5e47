// A file of grey images: for each image one byte with its label (0 to 9) and 8 x 8 bytes of pixels. The last
// tenth of the images is the test split.
#include <algorithm>
#include <rekindle/base/hash.hpp>
#include <rekindle/data/formats.hpp>
#include <rekindle/trainer.hpp>
#include <span>
#include <string>
#include <utility>

namespace {

using namespace rekindle;
using namespace rekindle::data;

constexpr std::size_t kSide = 8, kPixels = kSide * kSide, kRecord = 1 + kPixels;
constexpr int kLabels = 10;

class Patches final : public Dataset {
 public:
  Patches(std::vector<std::byte> records, std::string content_hash) : records_(std::move(records)) {
    const std::size_t count = records_.size() / kRecord;
    info_.kind = "patches";
    info_.samples = SampleKind::kImages;
    info_.channels = 1;
    info_.image_size = kSide;
    info_.classes = kLabels;
    info_.test_count = count / 10;
    info_.train_count = count - info_.test_count;
    info_.content_hash = std::move(content_hash);
  }

  const DatasetInfo& info() const override { return info_; }

  Status read(Split split, std::size_t index, const TransformConfig&, std::uint64_t, Batch& batch,
              std::size_t place) const override {
    const std::size_t record = split == Split::kTrain ? index : info_.train_count + index;
    const std::byte* bytes = &records_[record * kRecord];
    batch.labels[place] = std::to_integer<std::int64_t>(bytes[0]);
    const std::span<float> pixels = image_of(batch, place);
    for (std::size_t i = 0; i < kPixels; ++i)
      pixels[i] = static_cast<float>(std::to_integer<int>(bytes[1 + i])) / 255.0F - 0.5F;
    return {};
  }

 private:
  std::vector<std::byte> records_;
  DatasetInfo info_;
};

Result<std::unique_ptr<Dataset>> open_patches(const std::filesystem::path& path, const DatasetOptions&) {
  REKINDLE_TRY(const InputFile file, open_data_file(path));
  if (file.size < 20 * kRecord || file.size % kRecord != 0)
    return fail(ExitCode::kConfig, path.string() + " does not have 20 or more images of 65 bytes each");
  std::vector<std::byte> records(file.size);
  REKINDLE_CHECK(file.read(0, records));
  for (std::size_t at = 0; at < records.size(); at += kRecord)
    if (std::to_integer<int>(records[at]) >= kLabels)
      return fail(ExitCode::kConfig, path.string() + " has a label that is more than 9");
  std::string hash = hash128(records).hex();
  return std::make_unique<Patches>(std::move(records), std::move(hash));
}

}  // namespace

extern const DatasetRow kPatches;
const DatasetRow kPatches = {
    "patches", "a file of labelled 8 x 8 images", SampleKind::kImages, Augment::kOff, open_patches, nullptr};
