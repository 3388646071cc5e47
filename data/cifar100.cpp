#include "base/text.hpp"
#include "data/cifar.hpp"
#include "data/synthetic.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

// The names are only in the files: 0 to 99 if there is no such file.
std::vector<std::string> class_numbers() {
  std::vector<std::string> names;
  names.reserve(100);
  for (int label = 0; label < 100; ++label) names.push_back(str(label));
  return names;
}

const CifarFormat& format() {
  static const CifarFormat kFormat = {.row = &kCifar100,
                                      .title = "CIFAR-100",
                                      .classes = 100,
                                      .label_bytes = 2,  // coarse and fine
                                      .binary = {.folder = "cifar-100-binary",
                                                 .archive = "cifar-100-binary.tar.gz",
                                                 .train = {"train.bin"},
                                                 .test = "test.bin",
                                                 .class_names = "fine_label_names.txt"},
                                      .python = {.folder = "cifar-100-python",
                                                 .archive = "cifar-100-python.tar.gz",
                                                 .train = {"train"},
                                                 .test = "test",
                                                 .class_names = "meta"},
                                      .labels_key = "fine_labels",
                                      .class_names_key = "fine_label_names",
                                      .default_names = class_numbers,
                                      .made = Made::kCifar100};
  return kFormat;
}

}  // namespace

const DatasetRow kCifar100 = {
    "cifar100",
    "CIFAR-100 with its fine labels, binary or Python version, also as .tar.gz",
    SampleKind::kImages,
    Augment::kCrop,
    [](const fs::path& path, const DatasetOptions&) { return open_cifar(format(), path); },
    [](const fs::path& folder, std::size_t samples, std::uint64_t seed) {
      return make_cifar(format(), folder, samples, seed, draw_framed_stripes);
    },
    [](const fs::path& folder) { return has_cifar(format(), folder); }};

}  // namespace rekindle::data
