#include "model/models.hpp"

#include "base/nearest.hpp"
#include "base/text.hpp"

namespace rekindle::model {

std::span<const ModelRow* const> models() {
  static const ModelRow* const kModels[] = {
      &kVggModels[0],    &kVggModels[1],    &kVggModels[2],  &kVggModels[3],    &kVggModels[4],
      &kVggModels[5],    &kVggModels[6],    &kVggModels[7],  &kResNetModels[0], &kResNetModels[1],
      &kResNetModels[2], &kResNetModels[3], &kMnistCnnModel, &kGptModel};
  return kModels;
}

std::vector<std::string> names_of_models() {
  std::vector<std::string> names;
  for (const ModelRow* row : models()) names.emplace_back(row->name);
  return names;
}

Result<const ModelRow*> find_model(const std::string& name) {
  for (const ModelRow* row : models()) {
    if (name == row->name) return row;
  }
  return fail(ExitCode::kUsage, str("unknown model '", name, "'"), did_you_mean(name, names_of_models()));
}

Status check_images(const ModelOptions& options, const char* model, int smallest) {
  if (options.image_size >= smallest) return {};
  return fail(ExitCode::kConfig, str("images of ", options.image_size, " pixels are too small for ", model),
              str("use --image-size ", smallest, " or more"));
}

}  // namespace rekindle::model
