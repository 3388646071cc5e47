#include "optim/schedule.hpp"

#include <algorithm>

#include "base/nearest.hpp"
#include "base/text.hpp"
#include "optim/exact_math.hpp"

namespace rekindle::optim {
namespace {

// By multiplication and not by pow(), whose last bit differs between libraries.
double decayed(double lr, double gamma, std::uint64_t times) {
  for (std::uint64_t i = 0; i < times; ++i) lr *= gamma;
  return lr;
}

// torch.optim.lr_scheduler.StepLR
double step_rate(const Schedule& s, std::uint64_t, std::uint64_t epoch) {
  return decayed(s.lr, s.gamma, epoch / s.step_epochs);
}
// MultiStepLR
double multi_step_rate(const Schedule& s, std::uint64_t, std::uint64_t epoch) {
  const auto passed = std::ranges::upper_bound(s.milestones, epoch) - s.milestones.begin();
  return decayed(s.lr, s.gamma, static_cast<std::uint64_t>(passed));
}
// ExponentialLR
double exponential_rate(const Schedule& s, std::uint64_t, std::uint64_t epoch) {
  return decayed(s.lr, s.gamma, epoch);
}
// CosineAnnealingLR over the steps after the warm-up, down to 0 (Loshchilov and Hutter 2016)
double cosine_rate(const Schedule& s, std::uint64_t step, std::uint64_t) {
  return s.lr * 0.5 * (1 + cos_pi(progress(s, step)));
}
// LinearLR over the steps after the warm-up, down to 0
double linear_rate(const Schedule& s, std::uint64_t step, std::uint64_t) {
  return s.lr * (1 - progress(s, step));
}
double constant_rate(const Schedule& s, std::uint64_t, std::uint64_t) { return s.lr; }

constexpr ScheduleRow kSchedules[] = {
    {"step", "lr * gamma^(epoch / lr-step)", step_rate, false, "--lr-step, --lr-gamma"},
    {"multi-step", "lr * gamma^(milestones that were passed)", multi_step_rate, false,
     "--milestones, --lr-gamma"},
    {"exponential", "lr * gamma^epoch", exponential_rate, false, "--lr-gamma"},
    {"cosine", "lr * (1 + cos(pi * t)) / 2, where t goes from 0 to 1", cosine_rate, true},
    {"linear", "lr * (1 - t), where t goes from 0 to 1", linear_rate, true},
    {"constant", "lr", constant_rate},
};

const ScheduleRow* find(const std::string& name) {
  const auto* found =
      std::ranges::find_if(kSchedules, [&](const ScheduleRow& row) { return name == row.name; });
  return found == std::end(kSchedules) ? nullptr : found;
}

}  // namespace

double progress(const Schedule& schedule, std::uint64_t step) {
  const std::uint64_t after = step - std::min(step, schedule.warmup_steps);
  const std::uint64_t all = schedule.length - std::min(schedule.length, schedule.warmup_steps);
  return all == 0 ? 0 : static_cast<double>(after) / static_cast<double>(all);
}

std::span<const ScheduleRow> schedules() { return kSchedules; }

std::vector<std::string> names_of_schedules() {
  std::vector<std::string> names;
  for (const ScheduleRow& row : kSchedules) names.emplace_back(row.name);
  return names;
}

bool ends_with_the_run(const std::string& schedule) {
  const ScheduleRow* row = find(schedule);
  return row != nullptr && row->ends;
}

bool schedule_has(const std::string& schedule, std::string_view option) {
  const ScheduleRow* row = find(schedule);
  return row != nullptr && str(row->options, ",").find(str(option, ",")) != std::string::npos;
}

Status check_schedule(const Schedule& schedule) {
  if (find(schedule.name) == nullptr)
    return fail(ExitCode::kConfig, str("unknown schedule '", schedule.name, "'"),
                did_you_mean(schedule.name, names_of_schedules()));
  if (schedule_has(schedule.name, "--milestones") && schedule.milestones.empty())
    return fail(ExitCode::kConfig, str("--schedule ", schedule.name, " without --milestones"),
                "add --milestones 30,60,80");
  if (!std::ranges::is_sorted(schedule.milestones, std::ranges::less_equal()))
    return fail(ExitCode::kConfig, "--milestones do not ascend", "write epochs as in 30,60,80");
  if (schedule.length > 0 && schedule.warmup_steps >= schedule.length)
    return fail(ExitCode::kConfig,
                str("--warmup-steps ", schedule.warmup_steps, " leaves nothing of a run of ", schedule.length,
                    " steps"),
                "use fewer, or a longer run");
  return {};
}

double rate_at(const Schedule& schedule, std::uint64_t step, std::uint64_t epoch) {
  if (step < schedule.warmup_steps)
    return schedule.lr * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  const std::uint64_t last = schedule.length > 0 ? schedule.length - 1 : step;
  return find(schedule.name)->rate(schedule, std::min(step, last), epoch);
}

}  // namespace rekindle::optim
