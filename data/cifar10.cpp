// CIFAR-10, binary version (https://www.cs.toronto.edu/~kriz/cifar.html): records of a label byte and
// 3072 bytes, the red, green and blue planes of 32 x 32, row-major.
#include <algorithm>
#include <system_error>

#include "base/files.hpp"
#include "base/text.hpp"
#include "data/formats.hpp"
#include "data/memory_dataset.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

std::string batch_name(int number) { return str("data_batch_", number, ".bin"); }

tl::unexpected<Error> missing(const fs::path& folder, const std::string& name) {
  std::string hint =
      "get CIFAR-10 in its binary version, or make a data set with rekindle make-data cifar10 DIR";
  if (path_exists(folder / "cifar-10-batches-py") || path_exists(folder / "data_batch_1")) {
    hint = "this is CIFAR-10's Python version; get the binary version (cifar-10-binary.tar.gz)";
  } else if (path_exists(folder / "cifar-10-binary.tar.gz")) {
    hint = "unpack cifar-10-binary.tar.gz there";
  }
  return fail(ExitCode::kConfig, str("missing ", (folder / name).string()), hint);
}

Status append_batch(const fs::path& path, Images& images) {
  REKINDLE_TRY(const InputFile file, open_data_file(path));
  if (file.size == 0) return fail(ExitCode::kConfig, str(path.string(), " is empty"), "copy it again");
  if (file.size % kCifarRecord != 0) {
    return fail(ExitCode::kConfig,
                str(path.string(), " has ", file.size, " bytes, not a multiple of ", kCifarRecord,
                    " (a label and 3072 pixels)"),
                "the file is truncated or not in CIFAR-10's binary version; copy it again");
  }
  const std::uint64_t records = file.size / kCifarRecord;
  images.labels.reserve(images.labels.size() + records);
  images.pixels.reserve(images.pixels.size() + records * kCifarPixels);
  constexpr std::uint64_t kRecordsAtOnce = 1000;
  std::vector<std::uint8_t> piece(std::min(records, kRecordsAtOnce) * kCifarRecord);
  for (std::uint64_t number = 0; number < records;) {
    piece.resize(std::min(records - number, kRecordsAtOnce) * kCifarRecord);
    REKINDLE_CHECK(file.read(number * kCifarRecord, std::as_writable_bytes(std::span(piece))));
    for (auto record = piece.begin(); record != piece.end(); record += kCifarRecord, ++number) {
      if (*record >= kClasses) {
        return fail(ExitCode::kConfig,
                    str(path.string(), ": record ", number, " has label ", int{*record},
                        ", but CIFAR-10's labels are 0 to 9"),
                    "the file is damaged or another format; copy it again");
      }
      images.labels.push_back(*record);
      images.pixels.insert(images.pixels.end(), record + 1, record + kCifarRecord);
    }
  }
  return {};
}

Result<std::vector<std::string>> read_class_names(const fs::path& path) {
  if (!path_exists(path)) return cifar_class_names();
  constexpr std::size_t kMostBytes = 65536;
  const auto text = read_text(path, kMostBytes);
  if (!text) return fail(ExitCode::kConfig, text.error().what, "make this file of the data set readable");
  std::vector<std::string> names;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (names.size() != kClasses) {
    return fail(ExitCode::kConfig,
                str(path.string(), " names ", names.size(), " classes instead of ", kClasses),
                "put one name on a line, or remove the file to use CIFAR-10's own names");
  }
  return names;
}

}  // namespace

const std::vector<std::string>& cifar_class_names() {
  static const std::vector<std::string> kNames = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                  "dog",      "frog",       "horse", "ship", "truck"};
  return kNames;
}

Result<std::unique_ptr<Dataset>> open_cifar10(const fs::path& directory) {
  const fs::path inner = directory / "cifar-10-batches-bin";  // what the archive unpacks to
  const fs::path folder = !path_exists(directory / batch_name(1)) && path_exists(inner) ? inner : directory;

  constexpr int kMostBatches = 5;
  int batches = 0;
  for (int number = kMostBatches; number >= 1 && batches == 0; --number) {
    if (path_exists(folder / batch_name(number))) batches = number;
  }
  Images train, test;
  for (int number = 1; number <= std::max(batches, 1); ++number) {
    if (!path_exists(folder / batch_name(number))) return missing(folder, batch_name(number));
    REKINDLE_CHECK(append_batch(folder / batch_name(number), train));
  }
  if (!path_exists(folder / "test_batch.bin")) return missing(folder, "test_batch.bin");
  REKINDLE_CHECK(append_batch(folder / "test_batch.bin", test));

  DatasetInfo shape{
      .kind = "cifar10", .channels = 3, .height = kCifarSide, .width = kCifarSide, .classes = kClasses};
  REKINDLE_TRY(shape.class_names, read_class_names(folder / "batches.meta.txt"));
  return std::make_unique<MemoryDataset>(std::move(shape), std::move(train), std::move(test));
}

}  // namespace rekindle::data
