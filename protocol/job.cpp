#include "protocol/job.hpp"

#include <string>

#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"

namespace rekindle::protocol {

namespace {

// Only what the optimizer uses: the options that its row names.
void add_optimizer(nlohmann::json& identity, const Job& job) {
  const optim::Row* row = optim::find_optimizer(job.optimizer);
  if (row == nullptr) {
    identity["eps"] = job.eps;  // of a script's own optimizer, the same for all of them
    return;
  }
  const nlohmann::json all = job;
  for (const std::string& name : optim::option_names(*row)) identity[name] = all.at(name);
  // They came later than the runs that have them as if they were not given.
  if (job.dampening == 0) identity.erase("dampening");
  if (!job.nesterov) identity.erase("nesterov");
}

}  // namespace

nlohmann::json identity_of(const Job& job) {
  nlohmann::json identity = {{"seed", job.seed},
                             {"micro_batches", job.micro_batches},
                             {"batch_size", job.batch_size},
                             {"optimizer", job.optimizer},
                             {"lr", job.lr},
                             {"weight_decay", job.weight_decay},
                             {"lr_step", job.lr_step},
                             {"lr_gamma", job.lr_gamma},
                             {"precision", job.precision}};
  identity.update(task::identity_of(job.task));
  if (is_script(job)) identity["train_samples"] = job.train_samples;  // there is no hash of its data
  add_optimizer(identity, job);
  identity["schedule"] = job.schedule;
  if (job.warmup_steps > 0) identity["warmup_steps"] = job.warmup_steps;
  if (optim::schedule_has(job.schedule, "--milestones")) identity["milestones"] = job.milestones;
  // Steps that a longer run adds have other rates otherwise.
  if (optim::ends_with_the_run(job.schedule)) identity["schedule_steps"] = job.schedule_steps;
  if (job.clip_norm > 0) identity["clip_norm"] = job.clip_norm;
  if (!job.no_decay.empty()) identity["no_decay"] = job.no_decay;
  if (!job.lr_scale.empty()) identity["lr_scale"] = job.lr_scale;
  if (job.ema > 0) identity["ema"] = job.ema;
  if (!job.init.empty()) identity["init"] = job.init;
  if (job.rates_since > 0) identity["rates_since"] = job.rates_since;
  if (!job.earlier_rates.empty()) identity["earlier_rates"] = job.earlier_rates;
  return identity;
}

std::string first_difference(const nlohmann::json& a, const nlohmann::json& b) {
  for (const auto& [key, value] : a.items()) {
    if (!b.contains(key) || b.at(key) != value) return key;
  }
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key)) return key;
  }
  return "";
}

std::uint64_t default_micro_batches(std::uint64_t batch_size) {
  std::uint64_t parts = 32;
  while (parts > 1 && (batch_size % parts != 0 || batch_size / parts < 8)) parts /= 2;
  return parts;
}

std::uint64_t epoch_of(const Job& job, std::uint64_t step) {
  return job.train_samples == 0 ? 0 : step * job.batch_size / job.train_samples;
}

void take_rates(nlohmann::json& identity, const nlohmann::json& from) {
  for (const char* key : kRateKeys) {
    identity.erase(key);
    if (from.contains(key)) identity[key] = from.at(key);
  }
}

std::vector<Rates> rates_until(const nlohmann::json& identity, std::uint64_t step) {
  auto all = identity.value("earlier_rates", std::vector<Rates>());
  all.push_back({identity.value("rates_since", std::uint64_t{0}), identity.value("lr", 0.0),
                 identity.value("lr_step", std::uint64_t{0}), identity.value("lr_gamma", 0.0)});
  std::erase_if(all, [step](const Rates& rates) { return rates.since >= step; });
  return all;
}

std::uint64_t steps_for_epochs(const Job& job, std::uint64_t epochs) {
  return (epochs * job.train_samples + job.batch_size - 1) / job.batch_size;
}

bool evaluation_due(const Job& job, std::uint64_t step) {
  if (step == 0 || job.test_samples == 0) return false;
  if (step == job.steps) return true;
  if (job.evaluate_every > 0) return step % job.evaluate_every == 0;
  return epoch_of(job, step) != epoch_of(job, step - 1);
}

}  // namespace rekindle::protocol
