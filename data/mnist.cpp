// MNIST in IDX files (http://yann.lecun.com/exdb/mnist): big-endian magic and dimensions, then unsigned
// bytes.
#include <array>
#include <system_error>

#include "base/text.hpp"
#include "data/formats.hpp"
#include "data/gunzip.hpp"
#include "data/memory_dataset.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrainImages = "train-images-idx3-ubyte";
constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of an unpacked file: 20 times what MNIST has

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

fs::path packed(const fs::path& path) { return path.string() + ".gz"; }

std::uint32_t word_at(std::span<const std::uint8_t> bytes, std::size_t offset) {
  return static_cast<std::uint32_t>(bytes[offset]) << 24 |
         static_cast<std::uint32_t>(bytes[offset + 1]) << 16 |
         static_cast<std::uint32_t>(bytes[offset + 2]) << 8 | static_cast<std::uint32_t>(bytes[offset + 3]);
}

std::string kind_of(std::uint32_t magic) {
  if (magic == kIdxImages) return "IDX images";
  if (magic == kIdxLabels) return "IDX labels";
  return str("no IDX file (magic ", magic, ")");
}

struct IdxFile {
  fs::path path;                    // plain or .gz, whichever was read
  std::vector<std::uint8_t> items;  // without the header
  std::size_t count = 0;
};

// `wanted`: kIdxImages or kIdxLabels.
Result<IdxFile> read_idx(const fs::path& folder, const char* name, std::uint32_t wanted) {
  IdxFile file{.path = folder / name, .items = {}};
  const bool plain = is_there(file.path);
  if (!plain && !is_there(packed(file.path))) {
    return fail(ExitCode::kConfig, str("missing ", file.path.string(), " (or .gz)"),
                "get MNIST's four IDX files, or make a data set with rekindle make-data mnist DIR");
  }
  if (!plain) file.path = packed(file.path);
  REKINDLE_TRY(file.items, read_data_file(file.path));
  if (!plain) {
    REKINDLE_TRY(file.items, gunzip(file.items, file.path, kMostBytes));
  }

  const auto bad = [&](const std::string& what, const char* hint) {
    return fail(ExitCode::kConfig, str(file.path.string(), what), hint);
  };
  constexpr const char* kAgain = "it is truncated or damaged; get the file again";
  const bool images = wanted == kIdxImages;
  const std::size_t header = images ? 16 : 8, item = images ? kMnistPixels : 1;
  if (file.items.size() < 4) return bad(" is too short for an IDX file", kAgain);
  const std::uint32_t magic = word_at(file.items, 0);
  if (magic != wanted) {
    return bad(str(" holds ", kind_of(magic), " where ", kind_of(wanted), " are expected"),
               "the file is mislabelled or another format; put MNIST's files under their own names");
  }
  if (file.items.size() < header) return bad(" ends inside its IDX header", kAgain);
  file.count = word_at(file.items, 4);
  if (images && (word_at(file.items, 8) != kMnistSide || word_at(file.items, 12) != kMnistSide)) {
    return bad(str(" has images of ", word_at(file.items, 8), "x", word_at(file.items, 12), " pixels"),
               "MNIST's are 28x28; rescale them");
  }
  if (file.count == 0) return bad(" holds no items", kAgain);
  const std::size_t expected = header + file.count * item;
  if (file.items.size() != expected) {
    return bad(str(" has ", file.items.size(), " bytes where its header promises ", expected, " for ",
                   file.count, images ? " images" : " labels"),
               file.items.size() < expected ? kAgain : "it has bytes after its end; get the file again");
  }
  file.items.erase(file.items.begin(), file.items.begin() + static_cast<std::ptrdiff_t>(header));
  return file;
}

Result<Images> read_split(const fs::path& folder, const char* images_name, const char* labels_name) {
  REKINDLE_TRY(auto images, read_idx(folder, images_name, kIdxImages));
  REKINDLE_TRY(auto labels, read_idx(folder, labels_name, kIdxLabels));
  if (images.count != labels.count) {
    return fail(ExitCode::kConfig,
                str(images.path.string(), " has ", images.count, " images, but ", labels.path.string(),
                    " has ", labels.count, " labels"),
                "the files belong to different data sets; get both again");
  }
  for (std::size_t i = 0; i < labels.count; ++i) {
    if (labels.items[i] >= kClasses) {
      return fail(
          ExitCode::kConfig,
          str(labels.path.string(), ": label ", i, " is ", int{labels.items[i]}, ", but MNIST's are 0 to 9"),
          "the file is damaged or another data set; get the file again");
    }
  }
  return Images{std::move(images.items), std::move(labels.items)};
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_mnist(const fs::path& directory) {
  fs::path folder = directory;
  for (const fs::path& place : {directory, directory / "MNIST" / "raw", directory / "raw"}) {
    if (is_there(place / kTrainImages) || is_there(packed(place / kTrainImages))) {
      folder = place;
      break;
    }
  }
  REKINDLE_TRY(auto train, read_split(folder, kTrainImages, "train-labels-idx1-ubyte"));
  REKINDLE_TRY(auto test, read_split(folder, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"));
  DatasetInfo shape{
      .kind = "mnist", .channels = 1, .height = kMnistSide, .width = kMnistSide, .classes = kClasses};
  for (int digit = 0; digit < kClasses; ++digit) shape.class_names.push_back(std::to_string(digit));
  return std::make_unique<MemoryDataset>(std::move(shape), std::move(train), std::move(test));
}

}  // namespace rekindle::data
