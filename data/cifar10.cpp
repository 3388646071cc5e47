// CIFAR-10, binary version (https://www.cs.toronto.edu/~kriz/cifar.html): records of a label byte and
// 3072 bytes, the red, green and blue planes of 32 x 32, row-major.
#include <algorithm>
#include <system_error>

#include "base/files.hpp"
#include "base/text.hpp"
#include "data/formats.hpp"
#include "data/make_data.hpp"
#include "data/memory_images.hpp"
#include "data/synthetic.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPixels = 3 * kCifarSide * kCifarSide;
constexpr std::size_t kRecord = 1 + kPixels;
constexpr int kMostBatches = 5;

const std::vector<std::string>& cifar_class_names() {
  static const std::vector<std::string> kNames = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                  "dog",      "frog",       "horse", "ship", "truck"};
  return kNames;
}

std::string batch_name(std::size_t number) { return str("data_batch_", number, ".bin"); }

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
  if (file.size % kRecord != 0) {
    return fail(ExitCode::kConfig,
                str(path.string(), " has ", file.size, " bytes, not a multiple of ", kRecord,
                    " (a label and 3072 pixels)"),
                "the file is truncated or not in CIFAR-10's binary version; copy it again");
  }
  const std::uint64_t records = file.size / kRecord;
  images.labels.reserve(images.labels.size() + records);
  images.pixels.reserve(images.pixels.size() + records * kPixels);
  constexpr std::uint64_t kRecordsAtOnce = 1000;
  std::vector<std::uint8_t> piece(std::min(records, kRecordsAtOnce) * kRecord);
  for (std::uint64_t number = 0; number < records;) {
    piece.resize(std::min(records - number, kRecordsAtOnce) * kRecord);
    REKINDLE_CHECK(file.read(number * kRecord, std::as_writable_bytes(std::span(piece))));
    for (auto record = piece.begin(); record != piece.end(); record += kRecord, ++number) {
      if (*record >= kClasses) {
        return fail(ExitCode::kConfig,
                    str(path.string(), ": record ", number, " has label ", int{*record},
                        ", but CIFAR-10's labels are 0 to 9"),
                    "the file is damaged or another format; copy it again");
      }
      images.labels.push_back(*record);
      images.pixels.insert(images.pixels.end(), record + 1, record + kRecord);
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

Result<std::unique_ptr<Dataset>> open_cifar10(const fs::path& directory, const DatasetOptions&) {
  REKINDLE_CHECK(check_folder(kCifar10, directory));
  const fs::path inner = directory / "cifar-10-batches-bin";  // what the archive unpacks to
  const fs::path folder = !path_exists(directory / batch_name(1)) && path_exists(inner) ? inner : directory;

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

  DatasetInfo info{.kind = kCifar10.name, .channels = 3, .classes = kClasses};
  REKINDLE_TRY(info.class_names, read_class_names(folder / "batches.meta.txt"));
  return std::make_unique<MemoryImages>(std::move(info), Size{kCifarSide, kCifarSide},
                                        Preprocessing::kImageNet, std::move(train), std::move(test));
}

std::string records_of(const Artist& artist, std::size_t begin, std::size_t end) {
  std::string bytes;
  bytes.reserve((end - begin) * kRecord);
  for (std::size_t i = begin; i < end; ++i) {
    bytes.push_back(artist.label(i));
    artist.append_pixels(i, bytes);
  }
  return bytes;
}

// The test file is written last, so an incomplete data set cannot be opened.
Result<MadeData> make_cifar10(const fs::path& folder, std::size_t samples, std::uint64_t seed) {
  const Artist train(seed, Made::kCifar10, Split::kTrain, samples, kPixels, draw_stripes);
  const Artist test(seed, Made::kCifar10, Split::kTest, test_images(samples), kPixels, draw_stripes);
  REKINDLE_TRY(DataWriter writer, DataWriter::in(folder));
  const std::size_t files = std::min<std::size_t>(samples, kMostBatches);
  for (std::size_t file = files; file < kMostBatches; ++file)
    REKINDLE_CHECK(writer.check_absent(batch_name(file + 1)));
  for (std::size_t file = 0; file < files; ++file) {
    const std::size_t begin = samples * file / files, end = samples * (file + 1) / files;
    REKINDLE_CHECK(writer.write(batch_name(file + 1), records_of(train, begin, end)));
  }
  std::string names;
  for (const std::string& class_name : cifar_class_names()) names += class_name + "\n";
  REKINDLE_CHECK(writer.write("batches.meta.txt", names));
  REKINDLE_CHECK(writer.write("test_batch.bin", records_of(test, 0, test.count())));
  return writer.made(train.count(), test.count());
}

}  // namespace

const DatasetRow kCifar10 = {
    "cifar10", "the binary version of CIFAR-10", SampleKind::kImages, true, open_cifar10, make_cifar10};

}  // namespace rekindle::data
