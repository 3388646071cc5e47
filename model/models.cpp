#include "model/models.hpp"

#include <array>

#include "base/nearest.hpp"
#include "base/text.hpp"
#include "model/nets/nets.hpp"

namespace rekindle::model {

ModelRows models() {
  static constexpr std::array kModels = {&kVgg11,    &kVgg11Bn,   &kVgg13,    &kVgg13Bn,  &kVgg16,
                                         &kVgg16Bn,  &kVgg19,     &kVgg19Bn,  &kResnet18, &kResnet34,
                                         &kResnet50, &kResnet101, &kMnistCnn, &kGpt};
  return kModels;
}

std::vector<std::string> names_of_models(ModelRows more) {
  std::vector<std::string> names;
  for (const ModelRows rows : {models(), more})
    for (const ModelRow* row : rows) names.emplace_back(row->name);
  return names;
}

Result<const ModelRow*> find_model(const std::string& name, ModelRows more) {
  for (const ModelRows rows : {models(), more})
    for (const ModelRow* row : rows)
      if (row->name == name) return row;
  return fail(ExitCode::kUsage, str("unknown model '", name, "'"), did_you_mean(name, names_of_models(more)));
}

}  // namespace rekindle::model
