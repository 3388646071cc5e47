#include "trainer/update_options.hpp"

#include <string>
#include <utility>
#include <vector>

#include "optim/groups.hpp"
#include "protocol/training.hpp"

namespace rekindle::trainer {

Result<UpdateOptions> update_options(const protocol::Job& job, const StateLayout& layout) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < layout.parameters(); ++i) names.push_back(layout.tensors()[i].spec.name);
  REKINDLE_TRY(std::vector<optim::Group> groups, optim::make_groups({job.no_decay, job.lr_scale}, names));
  // A step that changes nothing, or a script's optimizer, leaves no other trace of how many updates there
  // were.
  const bool counts = job.clip_norm > 0 || job.optimizer == protocol::kScriptsOptimizer;
  return UpdateOptions{.optimizer = protocol::optimizer_options(job),
                       .groups = std::move(groups),
                       .average = job.ema,
                       .counts = counts,
                       .micro_batches = static_cast<int>(job.micro_batches)};
}

}  // namespace rekindle::trainer
