// Data sets in their common file formats, as samples for training: images or text. No torch: files in, floats
// and tokens out.
//
// To add a data set: a file beside mnist.cpp with its reader, its maker and one row, and the row's place in
// datasets() (data/dataset.cpp). A program of its own passes its rows along as `more` (docs/extending.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "data/floats.hpp"

namespace rekindle::data {

enum class Split { kTrain, kTest };
enum class SampleKind { kImages, kText };

// The label of a place that a model does not learn, as padding: it counts neither in the loss nor in a
// metric. The value that torch.nn.CrossEntropyLoss ignores.
inline constexpr std::int64_t kNoLabel = -100;

struct DatasetInfo {
  std::string kind;  // the name of its row: "cifar10", "mnist", "text"
  SampleKind samples = SampleKind::kImages;
  int channels = 0;  // of each image; text: 0
  int context = 0;   // of text: tokens in a sample; images: 0
  int classes = 0;   // 0 <= label < classes, or kNoLabel; and of text 0 <= token < classes
  // Pixels of each side, if read() writes images of this size alone: the default of --image-size, and another
  // one is refused. 0: images of any size, or text.
  int image_size = 0;
  std::size_t train_count = 0, test_count = 0;  // samples
  std::vector<std::string> class_names = {};    // empty for text
  // XXH3-128 over all content and its split: part of a run's identity. Of images, the labels and pixels of
  // the training images and then of the test images. Of text, the number of training bytes (8 bytes,
  // little-endian), and then all bytes. Of image-folder, only the names, classes and sizes of the files
  // (data/folder_listing.hpp): the content is compared when a file is read.
  std::string content_hash = {};
  // The hash that the data had before they changed, and what has changed first, in words. Empty: not known.
  std::string earlier_hash = {}, change = {};
  // A line that a person is shown when a run starts: what may not be meant. Mostly empty.
  std::string warning = {};
};

// The random part of how training images become inputs of a model.
enum class Augment {
  kOff,          // the crop in the center
  kCrop,         // a crop anywhere in the resized image, and a horizontal flip of half of the images
  kResizedCrop,  // torchvision's RandomResizedCrop (a part of 8 % to 100 % of the area, resized), and the
                 // flip
};
const char* name_of(Augment augment);  // "off", "crop", "resized-crop"
std::optional<Augment> augment_of(const std::string& name);

// How images become inputs of a model. Text ignores it.
struct TransformConfig {
  int image_size = 28;  // side of the model's square input
  Augment augment = Augment::kOff;
};

// The samples of one micro-batch, or of one piece of an evaluation.
struct Batch {
  std::uint64_t step = 0;
  int micro_batch = 0;
  Floats images = {};                     // of images: samples x C x image_size x image_size
  std::vector<std::int64_t> tokens = {};  // of text: samples x context
  std::vector<std::int64_t> labels = {};  // of images: samples; of text: samples x context, the next tokens
  std::vector<std::size_t> samples = {};  // the samples' indices in their split

  bool empty() const { return samples.empty(); }
};

// Immutable after opening; safe to read from several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const DatasetInfo& info() const = 0;
  // Writes a sample to `place` of a batch that make_room() has prepared with the same config. `key` seeds all
  // random draws (Rng of base/random.hpp): of a training sample, it differs from epoch to epoch; of a test
  // sample, it depends on the index alone. Errors (kConfig): the sample cannot be used (ErrorKind::kDamage,
  // or kOther), it has changed (kChangedData), or its storage does not answer now (kSystem: it is read
  // again).
  virtual Status read(Split split, std::size_t index, const TransformConfig& config, std::uint64_t key,
                      Batch& batch, std::size_t place) const = 0;
  // The samples that this process has left out since the last call: the error of each, in a line.
  virtual std::vector<std::string> take_skipped() const { return {}; }
};

// Sizes `batch` for `samples` samples of a data set, and fills it with zeros, but the labels of a text with
// kNoLabel.
void make_room(Batch& batch, const DatasetInfo& info, const TransformConfig& config, std::size_t samples);

// The image at `place` of such a batch: channels x image_size x image_size.
std::span<float> image_of(Batch& batch, std::size_t place);

// What the reader of a data set needs to know besides the files. A data set ignores what it does not have.
struct DatasetOptions {
  int context = 256;  // of text: tokens in a sample
  bool skip_corrupt =
      false;  // of files that are decoded when they are read: the next readable sample instead
};

struct MadeData {
  std::size_t train_count = 0, test_count = 0;
  std::size_t files_written = 0;  // 0: all files existed already
  std::uint64_t bytes = 0;        // of all its files
};

// A format of data sets: what the front end tells of it, and its functions, which get checked arguments.
struct DatasetRow {
  const char* name;  // the value of --dataset
  const char* what;  // its files, for the help
  SampleKind samples;
  Augment augment;  // what `--augment on` means; kOff: TransformConfig::augment has no effect
  Result<std::unique_ptr<Dataset>> (*open)(const std::filesystem::path& path, const DatasetOptions& options);
  // Of the built-in rows alone; nullptr in a row of another program.
  Result<MadeData> (*make)(const std::filesystem::path& path, std::size_t samples, std::uint64_t seed);
  // Whether names in a folder are those of this format, for a hint after a wrong --dataset: opens no file and
  // writes nothing. May be nullptr.
  bool (*looks_right)(const std::filesystem::path& folder) = nullptr;
};
using DatasetRows = std::span<const DatasetRow* const>;

DatasetRows datasets();  // the built-in rows
// `more`: rows beside the built-in ones.
std::vector<std::string> names_of_datasets(DatasetRows more = {});
// ExitCode::kUsage for an unknown name, with the nearest one.
Result<const DatasetRow*> find_dataset(const std::string& name, DatasetRows more = {});

// Reads all of a data set:
// - cifar10, cifar100: the binary version (data_batch_1.bin ..., train.bin) or the Python version
//   (data_batch_1 ..., train; no pickle code is executed), in the folder `path`, in the folder inside that
//   the archive unpacks to, or in the archive (.tar.gz), which is `path` or is in the folder `path`.
// - mnist, fashion-mnist: IDX files, plain or .gz, in the folder `path` or in its raw/, MNIST/raw/ or
//   FashionMNIST/raw/.
// - image-folder: JPEG and PNG files in folders of their classes (data/folder_listing.hpp).
// - text: the bytes of the file `path`, or of the files in the folder `path` (not in its subfolders), joined
//   in the order of their names. The last tenth of the bytes, rounded down, is the test split. Sample i of a
//   split is the bytes [i * context, (i + 1) * context) of that split. Its labels are the bytes one further
//   on.
// Every error names the file, has a hint, and is ExitCode::kConfig; an unknown kind is kUsage, an exception
// of a data set of one's own kGaveUp. A data set whose info() does not suit its row is refused.
Result<std::unique_ptr<Dataset>> open_dataset(const std::string& kind, const std::filesystem::path& path,
                                              const DatasetOptions& options, DatasetRows more = {});

// Writes a valid data set of `samples` training samples and, of images, max(1, samples/5) test images. A text
// is one file, at `path` or in the folder `path`; its samples are contexts of 256 bytes, at least 9. The
// content is synthetic and learnable, and a pure function of the arguments. An existing data set is never
// overwritten: if it is equal, nothing changes; if it is another data set, that is an error.
Result<MadeData> make_data(const std::string& kind, const std::filesystem::path& path, std::size_t samples,
                           std::uint64_t seed);

extern const DatasetRow kCifar10, kCifar100, kMnist, kFashionMnist, kImageFolder, kText;

}  // namespace rekindle::data
