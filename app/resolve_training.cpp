// The options of the optimizer and the schedule.
#include <algorithm>
#include <charconv>

#include "app/resolver.hpp"
#include "base/nearest.hpp"
#include "optim/schedule.hpp"
#include "protocol/training.hpp"
#include "run/records.hpp"

namespace rekindle::app {

Resolver::Given Resolver::formula_options() const {
  return {{"momentum", raw_.momentum.has_value()},
          {"dampening", raw_.dampening.has_value()},
          {"nesterov", raw_.nesterov},
          {"beta1", raw_.beta1.has_value()},
          {"beta2", raw_.beta2.has_value()},
          {"alpha", raw_.alpha.has_value()},
          {"rho", raw_.rho.has_value()},
          {"eps", raw_.eps.has_value()}};
}

Status Resolver::check_given(const optim::Row& row) {
  for (const auto& [name, is_given] : formula_options()) {
    if (is_given && std::string(row.options).find(str("--", name)) == std::string::npos)
      return refuse({name, "optimizer"}, str("--", name, " is not an option of ", row.name),
                    str("leave it out; ", row.name, " has ", row.options));
  }
  return {};
}

Status Resolver::optimizer() {
  if (script_ != nullptr && raw_.optimizer == protocol::kScriptsOptimizer)
    REKINDLE_CHECK(optimizer_of_script());
  else
    REKINDLE_CHECK(optimizer_of_rekindle());
  if (raw_.clip_norm && *raw_.clip_norm == 0)
    return refuse({"clip-norm"}, "--clip-norm 0 leaves no gradient", "use a number above 0, or leave it out");
  job_.clip_norm = raw_.clip_norm.value_or(0);
  if (raw_.ema && (*raw_.ema == 0 || static_cast<float>(1 - *raw_.ema) == 0))
    return refuse({"ema"}, str("--ema ", *raw_.ema, " averages nothing"),
                  "use a number between 0 and 1, or leave it out");
  job_.ema = raw_.ema.value_or(0);
  return schedule();
}

Status Resolver::optimizer_of_rekindle() {
  job_.optimizer = !raw_.optimizer.empty() ? raw_.optimizer : is_mnist_cnn() ? "adadelta" : "sgd";
  REKINDLE_CHECK(one_of("optimizer", job_.optimizer, optim::names_of_optimizers()));
  const optim::Row& row = *optim::find_optimizer(job_.optimizer);
  REKINDLE_CHECK(check_given(row));
  job_.lr = raw_.lr.value_or(row.learning_rate);
  job_.weight_decay = raw_.weight_decay.value_or(row.weight_decay);
  job_.momentum = raw_.momentum.value_or(job_.optimizer == "sgd" ? 0.9 : 0.0);
  job_.dampening = raw_.dampening.value_or(0);
  job_.nesterov = raw_.nesterov;
  job_.beta1 = raw_.beta1.value_or(job_.beta1);
  job_.beta2 = raw_.beta2.value_or(job_.beta2);
  job_.alpha = raw_.alpha.value_or(job_.alpha);
  job_.rho = raw_.rho.value_or(job_.rho);
  job_.eps = raw_.eps.value_or(row.eps);
  job_.task.label_smoothing = raw_.label_smoothing;
  job_.no_decay = raw_.no_decay;
  job_.lr_scale = raw_.lr_scale;
  // A run that has begun with such a value goes on.
  const std::vector<std::string> options = optim::option_names(row);
  const bool has_eps = std::ranges::find(options, "eps") != options.end();
  if (has_eps && static_cast<float>(job_.eps) == 0)
    return refuse({"eps"}, str("--eps ", job_.eps, ": ", job_.optimizer, " divides by it"),
                  "use a small number like 1e-8");
  if (const auto made = optim::make_optimizer(protocol::optimizer_options(job_)); !made)
    return refuse(
        {"momentum", "dampening", "nesterov", "beta1", "beta2", "alpha", "rho", "eps", "weight-decay"},
        made.error().what, made.error().hint);
  return {};
}

Status Resolver::schedule() {
  job_.schedule = raw_.schedule;
  REKINDLE_CHECK(one_of("schedule", job_.schedule, optim::names_of_schedules()));
  job_.warmup_steps = raw_.warmup_steps;
  job_.milestones = raw_.milestones;
  job_.lr_step = raw_.lr_step;
  job_.lr_gamma = raw_.lr_gamma.value_or(0.1);
  if (!job_.milestones.empty() && !optim::schedule_has(job_.schedule, "--milestones"))
    return refuse({"milestones", "schedule"},
                  str("--milestones is not an option of --schedule ", job_.schedule),
                  "add --schedule multi-step");
  const auto schedule = protocol::schedule_of(job_);
  const Status valid = schedule ? optim::check_schedule(*schedule) : forward_error(schedule.error());
  if (!valid) return refuse({"schedule", "milestones"}, valid.error().what, valid.error().hint);
  return {};
}

Status Resolver::best_metric() {
  job_.best_metric = raw_.best_metric;
  if (raw_.best_metric.empty()) return {};
  if (!raw_.keep_best)
    return refuse({"best-metric"}, "--best-metric without --keep-best", "add --keep-best, or leave it out");
  if (script_ != nullptr && !script_->metrics_known) return {};  // then a trainer compares the name
  // What C++ models report is in model/metrics.hpp.
  std::vector<std::string> known =
      script_ != nullptr ? script_->metrics : std::vector<std::string>{"accuracy", "top5"};
  known.emplace_back("loss");
  return one_of("best-metric", run::best_by(raw_.best_metric).name, known);
}

}  // namespace rekindle::app
