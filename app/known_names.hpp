// What the options of a run need to know of a model and a data set. The front end knows the built-in ones;
// for any other name it asks the trainer program, so that it links no model code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "data/dataset.hpp"

namespace rekindle::app {

struct KnownModel {
  std::string name;
  data::SampleKind samples = data::SampleKind::kImages;
  std::string options = {};  // as model::ModelRow::options
};

struct KnownDataset {
  std::string name;
  data::SampleKind samples = data::SampleKind::kImages;
  data::Augment augment = data::Augment::kOff;
};

struct KnownNames {
  std::vector<KnownModel> models;
  std::vector<KnownDataset> datasets;
};

KnownNames built_in_names();
// The entries of these rows, for a table of data sets.
std::vector<KnownDataset> known_datasets(data::DatasetRows rows);

// The names that the trainer program knows, the built-in ones too. Takes as long as LibTorch needs to load.
using AskNames = std::function<Result<KnownNames>()>;

}  // namespace rekindle::app
