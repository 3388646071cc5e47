#include "checkpoint/state_check.hpp"

#include <string_view>
#include <unordered_set>

#include "base/text.hpp"
#include "checkpoint/manifest_check.hpp"

namespace rekindle::checkpoint {

Status check_spec(const StateSpec& tensors) {
  std::unordered_set<std::string_view> names;
  for (const TensorSpec& tensor : tensors) {
    const Status possible = check_tensor(tensor);
    if (!possible)
      return fail(ExitCode::kConfig, str("no checkpoint can have this model: ", possible.error().what),
                  possible.error().hint);
    if (!names.insert(tensor.name).second)
      return fail(ExitCode::kConfig, str("the state has two tensors named ", tensor.name),
                  "rename the one of your model: ema.NAME, updates and present have a meaning");
  }
  return {};
}

}  // namespace rekindle::checkpoint
