// JPEG and PNG files in folders of their classes, decoded when they are read.
#include <algorithm>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/files.hpp"
#include "base/guarded_file.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "data/decode.hpp"
#include "data/folder_contents.hpp"
#include "data/folder_listing.hpp"
#include "data/formats.hpp"
#include "data/make_image_folder.hpp"
#include "data/transform.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

// A few very large images must not keep the memory of all threads. Most images have less than 16 megapixels.
constexpr std::size_t kMostKept = std::size_t{64} << 20;

// The working memory of one read(), reused by the next one.
struct Scratch {
  std::vector<std::uint8_t> file;
  Pixels pixels;
  TransformMemory memory;
};

class Scratches {
 public:
  std::unique_ptr<Scratch> take() {
    const std::lock_guard lock(mutex_);
    if (spare_.empty()) return std::make_unique<Scratch>();
    std::unique_ptr<Scratch> scratch = std::move(spare_.back());
    spare_.pop_back();
    return scratch;
  }
  void give_back(std::unique_ptr<Scratch> scratch) {
    if (std::max(scratch->pixels.bytes.capacity(), scratch->file.capacity()) > kMostKept) return;
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> spare_;
};

class ImageFolder final : public Dataset {
 public:
  ImageFolder(fs::path root, FolderListing listing, bool skip_corrupt)
      : root_(std::move(root)),
        listing_(std::move(listing)),
        skip_corrupt_(skip_corrupt),
        contents_(root_, identity_of(listing_), listing_.train.size() + listing_.test.size(), skip_corrupt) {
    info_ = {.kind = kImageFolder.name,
             .channels = 3,
             .classes = static_cast<int>(listing_.class_names.size()),
             .train_count = listing_.train.size(),
             .test_count = listing_.test.size(),
             .class_names = listing_.class_names,
             .content_hash = identity_of(listing_).hex(),
             .earlier_hash = listing_.earlier_hash,
             .change = listing_.change};
  }

  const DatasetInfo& info() const override { return info_; }

  std::vector<std::string> take_skipped() const override {
    const std::lock_guard lock(skipped_mutex_);
    return std::exchange(skipped_, {});
  }

  Status read(Split split, std::size_t index, const TransformConfig& config, std::uint64_t key, Batch& batch,
              std::size_t place) const override {
    std::unique_ptr<Scratch> scratch = scratches_.take();
    const auto found = decode_readable(split, index, *scratch);
    if (!found) return forward_error(found.error());
    transform_pixels(config, scratch->pixels, key, image_of(batch, place), scratch->memory);
    batch.labels[place] = listing_.files(split)[*found].label;
    scratches_.give_back(std::move(scratch));
    return {};
  }

 private:
  std::string path_of(Split split, std::size_t index) const {
    return (root_ / listing_.path_of(listing_.files(split)[index])).string();
  }
  std::size_t number_of(Split split, std::size_t index) const {
    return split == Split::kTrain ? index : listing_.train.size() + index;
  }

  // The index of the image that is decoded: `index`, or with skip_corrupt the next one that can be decoded.
  Result<std::size_t> decode_readable(Split split, std::size_t index, Scratch& scratch) const {
    const std::size_t count = listing_.files(split).size();
    for (std::size_t tries = 0; tries < count; ++tries) {
      const std::size_t at = (index + tries) % count, number = number_of(split, at);
      if (skip_corrupt_ && contents_.is_corrupt(number)) continue;
      Hash128 hash;
      const Status decoded = decode(split, at, scratch, hash);
      if (decoded) return at;
      const bool damaged = decoded.error().kind == ErrorKind::kDamage;
      if (damaged && !skip_corrupt_) std::ignore = outdate_index(root_);  // the restored file may be larger
      if (!damaged || !skip_corrupt_) return forward_error(decoded.error());
      if (contents_.note_corrupt(number, hash)) {
        const std::lock_guard lock(skipped_mutex_);
        skipped_.push_back(decoded.error().what);
      }
    }
    return forward_error({ExitCode::kConfig,
                          str("no ", split == Split::kTrain ? "training" : "test", " image in ",
                              root_.string(), " can be decoded"),
                          "look at the warnings, and use another folder", ErrorKind::kDamage});
  }

  // A new run must not find the sizes of before in the index.
  tl::unexpected<Error> changed(const std::string& what) const {
    const std::string index = outdate_index(root_);
    return forward_error({ExitCode::kConfig, what,
                          str("restore it, or ", index.empty() ? "" : str("remove ", index, " and "),
                              "start a new run with the changed data"),
                          ErrorKind::kChangedData});
  }

  // An error that may pass has ErrorKind::kSystem.
  Status read_bytes(const std::string& path, const ListedFile& listed,
                    std::vector<std::uint8_t>& bytes) const {
    const auto passing = [](Error error) {
      error.kind = ErrorKind::kSystem;
      return forward_error(std::move(error));
    };
    const auto file = open_data_file(path);
    if (!file && is_folder(path)) return changed(str(path, " is a folder, and was an image"));
    if (!file && is_denied(path))
      return forward_error({ExitCode::kConfig, str(path, " cannot be read: its permissions forbid it"),
                            "make it and the folders above it readable for the user of the run",
                            ErrorKind::kChangedData});
    if (!file) return passing(file.error());
    if (file->size != listed.size)
      return changed(
          str(path, " has ", file->size, " bytes, but ", listed.size, " when its folder was read"));
    bytes.resize(file->size);
    if (const Status read = file->read(0, std::as_writable_bytes(std::span(bytes))); !read)
      return passing({ExitCode::kConfig, read.error().what, "look at the storage of the data"});
    return {};
  }

  // `hash`: of the file's content, when the file was read.
  Status decode(Split split, std::size_t index, Scratch& scratch, Hash128& hash) const {
    const std::string path = path_of(split, index);
    const std::size_t number = number_of(split, index);
    REKINDLE_CHECK(read_bytes(path, listing_.files(split)[index], scratch.file));
    hash = hash128(std::as_bytes(std::span(scratch.file)));
    REKINDLE_CHECK(contents_.check(number, hash, path));
    REKINDLE_CHECK(decode_image(scratch.file, path, scratch.pixels));
    contents_.note(number, hash);
    return {};
  }

  const fs::path root_;
  const FolderListing listing_;
  const bool skip_corrupt_;
  DatasetInfo info_;
  mutable FolderContents contents_;
  mutable Scratches scratches_;
  mutable std::mutex skipped_mutex_;
  mutable std::vector<std::string> skipped_;
};

Status check_no_empty_file(const fs::path& root, const FolderListing& listing) {
  for (const auto* files : {&listing.train, &listing.test})
    for (const ListedFile& file : *files)
      if (file.size == 0) return corrupt_image((root / listing.path_of(file)).string(), "is empty");
  return {};
}

// The folder that an archive has unpacked to, if `path` is the folder above.
fs::path folder_with_classes(const fs::path& path) {
  if (is_folder(path / "train")) return path;
  std::vector<std::string> folders = names_in(path).value_or(std::vector<std::string>());
  std::erase_if(folders,
                [&](const std::string& name) { return name.starts_with('.') || !is_folder(path / name); });
  return folders.size() == 1 && is_folder(path / folders[0] / "train") ? path / folders[0] : path;
}

Result<std::unique_ptr<Dataset>> open_image_folder(const fs::path& path, const DatasetOptions& options) {
  REKINDLE_CHECK(check_folder(kImageFolder, path));
  const fs::path root = folder_with_classes(path);
  FolderListing outdated;
  std::optional<FolderListing> listing = read_index(root, &outdated);
  if (!listing) {
    REKINDLE_TRY(listing, scan_folder(root));
    if (!outdated.train.empty()) note_change(outdated, *listing);
    write_index(root, *listing);
  }
  if (!options.skip_corrupt) REKINDLE_CHECK(check_no_empty_file(root, *listing));
  return std::make_unique<ImageFolder>(root, std::move(*listing), options.skip_corrupt);
}

}  // namespace

const DatasetRow kImageFolder = {
    "image-folder",      "JPEG and PNG files in folders of their classes, as ImageNet and TinyImageNet",
    SampleKind::kImages, Augment::kResizedCrop,
    open_image_folder,   make_image_folder,
    has_image_folder};

}  // namespace rekindle::data
