#include "data/cifar.hpp"
#include "data/synthetic.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> class_names() {
  return {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
}

const CifarFormat& format() {
  static const CifarFormat kFormat = {
      .row = &kCifar10,
      .title = "CIFAR-10",
      .classes = 10,
      .label_bytes = 1,
      .binary = {.folder = "cifar-10-batches-bin",
                 .archive = "cifar-10-binary.tar.gz",
                 .train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin"},
                 .test = "test_batch.bin",
                 .class_names = "batches.meta.txt"},
      .python = {.folder = "cifar-10-batches-py",
                 .archive = "cifar-10-python.tar.gz",
                 .train = {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"},
                 .test = "test_batch",
                 .class_names = "batches.meta"},
      .labels_key = "labels",
      .class_names_key = "label_names",
      .default_names = class_names,
      .made = Made::kCifar10};
  return kFormat;
}

}  // namespace

const DatasetRow kCifar10 = {
    "cifar10",
    "CIFAR-10, binary or Python version, also as .tar.gz",
    SampleKind::kImages,
    Augment::kCrop,
    [](const fs::path& path, const DatasetOptions&) { return open_cifar(format(), path); },
    [](const fs::path& folder, std::size_t samples, std::uint64_t seed) {
      return make_cifar(format(), folder, samples, seed, draw_stripes);
    },
    [](const fs::path& folder) { return has_cifar(format(), folder); }};

}  // namespace rekindle::data
