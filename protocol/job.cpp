#include "protocol/job.hpp"

#include <cmath>
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

// What a C++ trainer program computes.
void add_model(nlohmann::json& identity, const Job& job) {
  identity.update({{"model", job.model},
                   {"dataset", job.dataset},
                   {"data_hash", job.data_hash},
                   {"classes", job.classes},
                   {"image_size", job.image_size},
                   {"augment", job.augment},
                   {"dropout", job.dropout}});
  if (job.label_smoothing > 0) identity["label_smoothing"] = job.label_smoothing;
  if (job.skip_corrupt) identity["skip_corrupt"] = true;
  if (job.layers > 0) identity["layers"] = job.layers;
  if (job.heads > 0) identity["heads"] = job.heads;
  if (job.width > 0) identity["width"] = job.width;
  if (job.context > 0) identity["context"] = job.context;
  if (!job.model_options.empty()) identity["model_options"] = job.model_options;
}

// Of a script only the number of samples: the tensors of a checkpoint show another model, and a changed
// script is told by the trainers' fingerprint.
void add_script(nlohmann::json& identity, const Job& job) {
  identity.update({{"trainer", "python"}, {"train_samples", job.train_samples}});
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
  if (is_script(job))
    add_script(identity, job);
  else
    add_model(identity, job);
  if (!job.script_tied.empty()) identity["script_tied"] = job.script_tied;  // an export has all names
  add_optimizer(identity, job);
  identity["schedule"] = job.schedule;
  if (job.warmup_steps > 0) identity["warmup_steps"] = job.warmup_steps;
  if (job.schedule == "multi-step") identity["milestones"] = job.milestones;
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

void take_skip_corrupt(nlohmann::json& identity, const nlohmann::json& from) {
  if (from.contains("skip_corrupt")) identity["skip_corrupt"] = from.at("skip_corrupt");
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
  return step == job.steps || epoch_of(job, step) != epoch_of(job, step - 1);
}

}  // namespace rekindle::protocol
