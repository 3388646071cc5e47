#include "trainer/update_plan.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace rekindle::trainer {

Result<UpdatePlan> UpdatePlan::make(const StateLayout& layout, const UpdateOptions& options) {
  UpdatePlan plan;
  REKINDLE_TRY(plan.optimizer_, optim::make_optimizer(options.optimizer));
  const UpdateRun undecayed{.group = {.decays = false}};
  REKINDLE_TRY(plan.without_decay_, optim::make_optimizer(undecayed.options(options.optimizer)));
  std::vector<optim::Group> groups = options.groups;
  groups.resize(layout.parameters());
  for (std::size_t i = 0; i < layout.parameters(); ++i) {
    const auto& optimizer = groups[i].decays ? plan.optimizer_ : plan.without_decay_;
    plan.parameters_.push_back(
        {layout.tensors()[i].offset, layout.end_with_padding(i), optimizer.get(), groups[i]});
  }
  plan.header_.resize(layout.header_floats());
  plan.micro_batches_ = options.micro_batches;
  plan.mean_ = 1.0F / static_cast<float>(options.micro_batches);
  plan.counts_ = plan.optimizer_->counts() || options.average > 0 || options.counts;
  return plan;
}

void UpdatePlan::take_header(std::size_t first, std::span<const float> sum, const optim::Step& step,
                             std::span<std::int32_t> counters) {
  if (first >= header_.size()) return;
  const std::size_t count = std::min(sum.size(), header_.size() - first);
  std::ranges::copy(sum.first(count), header_.begin() + static_cast<std::ptrdiff_t>(first));
  if (first + count == header_.size()) make_runs(step, counters);
}

void UpdatePlan::make_runs(const optim::Step& step, std::span<std::int32_t> counters) {
  runs_.clear();
  is_first_ = counters.empty() ? step.number == 0 : counters[0]++ == 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!changed(i)) continue;
    UpdateRun run = parameters_[i];
    run.step = step;
    run.step.learning_rate *= run.group.lr_scale;
    if (!counters.empty()) run.step.number = static_cast<std::uint64_t>(counters[1 + i]++);
    UpdateRun* last = runs_.empty() ? nullptr : &runs_.back();
    const bool same = last != nullptr && last->end == run.first && last->optimizer == run.optimizer &&
                      last->step.learning_rate == run.step.learning_rate &&
                      last->step.number == run.step.number;
    if (same)
      last->end = run.end;
    else
      runs_.push_back(run);
  }
}

}  // namespace rekindle::trainer
