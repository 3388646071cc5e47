#include "app/known_names.hpp"

namespace rekindle::app {

KnownNames built_in_names() {
  // A test compares these names with the table of models.
  static constexpr const char* kOfImages[] = {"vgg11",    "vgg11_bn",  "vgg13",    "vgg13_bn", "vgg16",
                                              "vgg16_bn", "vgg19",     "vgg19_bn", "resnet18", "resnet34",
                                              "resnet50", "resnet101", "mnist-cnn"};
  KnownNames names;
  for (const char* name : kOfImages) names.models.push_back({name});
  names.models.push_back({"gpt", data::SampleKind::kText, "--layers, --heads, --width"});
  names.datasets = known_datasets(data::datasets());
  return names;
}

std::vector<KnownDataset> known_datasets(data::DatasetRows rows) {
  std::vector<KnownDataset> known;
  for (const data::DatasetRow* row : rows) known.push_back({row->name, row->samples, row->augment});
  return known;
}

}  // namespace rekindle::app
