#include "protocol/training.hpp"

#include <charconv>
#include <sstream>
#include <string>

#include "base/lists.hpp"
#include "base/text.hpp"

namespace rekindle::protocol {
namespace {

// "30,60,80"
Result<std::vector<std::uint64_t>> parse_milestones(const std::string& text) {
  std::vector<std::uint64_t> epochs;
  for (const std::string& part : comma_separated(text)) {
    std::uint64_t epoch = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), epoch);
    if (error != std::errc() || end != part.data() + part.size())
      return fail(ExitCode::kConfig, str("--milestones ", text, " is not a list of epochs"),
                  "write them as 30,60,80");
    epochs.push_back(epoch);
  }
  return epochs;
}

Result<optim::Schedule> schedule_with(const Job& job, const Rates& rates) {
  optim::Schedule schedule;
  schedule.name = job.schedule;
  schedule.lr = rates.lr;
  schedule.warmup_steps = job.warmup_steps;
  schedule.length = job.schedule_steps;
  schedule.step_epochs = rates.lr_step;
  schedule.gamma = rates.lr_gamma;
  REKINDLE_TRY(schedule.milestones, parse_milestones(job.milestones));
  return schedule;
}

Rates newest_rates(const Job& job) { return {job.rates_since, job.lr, job.lr_step, job.lr_gamma}; }

}  // namespace

optim::Options optimizer_options(const Job& job) {
  optim::Options options;
  if (job.optimizer == kScriptsOptimizer) return options;
  options.name = job.optimizer;
  options.weight_decay = job.weight_decay;
  options.momentum = job.momentum;
  options.dampening = job.dampening;
  options.nesterov = job.nesterov;
  options.beta1 = job.beta1;
  options.beta2 = job.beta2;
  options.alpha = job.alpha;
  options.rho = job.rho;
  if (job.eps >= 0) options.eps = job.eps;
  return options;
}

Result<optim::Schedule> schedule_of(const Job& job) { return schedule_with(job, newest_rates(job)); }

double learning_rate(const Job& job, std::uint64_t step) {
  Rates rates = newest_rates(job);
  if (step < job.rates_since) {
    for (const Rates& earlier : job.earlier_rates) {
      if (earlier.since <= step) rates = earlier;
    }
  }
  return optim::rate_at(schedule_with(job, rates).value(), step, epoch_of(job, step));
}

}  // namespace rekindle::protocol
